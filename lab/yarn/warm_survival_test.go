package yarn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"connectrpc.com/connect"

	"headrace/internal/testkit"
	"headrace/wire"
)

// TestWarmingSurvives: whatever dies while files of HDFS are read into memory, they are there
// in the end, and when they are let go nothing stays locked or open.
func TestWarmingSurvives(t *testing.T) {
	parallel(t, 150)
	needMachines(t)
	slow := quickDisk()
	slow.Bandwidth = 3 << 20
	o := Options{Mode: Headrace, Policy: "wait", Machines: true, Nodes: 2, Disk: slow, LabProgram: testkit.Lab(t),
		NodeFlags: []string{"--warm-budget", "64MB"}, MachineMemory: machineMemory,
		HDFS: &HDFSOptions{BlockSize: dataBlock, Replication: 2, Standby: true, Volumes: 2}}
	if !testkit.All() { // only schedulerDies takes a scheduler
		o.Mode, o.Beside, o.NoYARN = Wait, true, true
	}
	c := startTest(t, o)
	if o.NoYARN {
		must(0, c.StartDaemons(within(t, patience), o.Policy, nil))(t)
	}
	w := &warming{c: c}
	const blocks = 12
	contents := bytes.Repeat([]byte("water "), blocks*dataBlock/6)
	w.size = int64(len(contents))
	put(t, c, "/a", contents)
	for _, phase := range []struct {
		name        string
		kill, start func() error
	}{
		{"node", func() error { return c.KillNode(0) }, func() error { return c.StartNode(t.Context(), 0) }},
		{"manager", c.KillManager, func() error { return c.StartManager(t.Context()) }},
		{"both", func() error { return errors.Join(c.KillNode(1), c.KillManager()) }, func() error {
			return errors.Join(c.StartManager(t.Context()), c.StartNode(t.Context(), 1))
		}},
		{"DataNode", func() error { return c.HDFS.KillDataNode(1) }, nil},
		{"NameNode", c.HDFS.KillNameNode, nil},
	} {
		done := t.Run(phase.name, func(t *testing.T) {
			if phase.name == "both" {
				testkit.Long(t)
			}
			w.begin(t, phase.name, "/a")
			must(0, phase.kill())(t)
			if phase.start != nil {
				must(0, phase.start())(t)
				must(w.ask(t, phase.name, "/a"))(t) // it may be another manager
			}
			w.await(t, phase.name, func(s *wire.InputsStatus) bool {
				return s.State == "done" && s.Pinned+s.Resident == w.size && s.Failed == 0
			})
			w.letGo(t, phase.name)
		})
		if !done {
			return
		}
	}
	if _, err := w.ask(t, "in_vain", "/a"); connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("without a NameNode: %v", err)
	}
	must(0, c.HDFS.MakeActive(within(t, patience), 1))(t)
	must(0, c.HDFS.StartNameNode(within(t, patience)))(t)
	must(0, c.HDFS.StartDataNode(within(t, patience), 1))(t)
	for _, step := range []struct {
		name string
		do   func(*testing.T, *warming)
	}{{"failover", failover}, {"ResourceManager", schedulerDies}, {"being written", beingWritten}, {"memory", shortMemory}, {"volume", volumeTakenAway}, {"replication", replication},
		{"truncated", truncated}, {"deleted", deleted}} {
		if !t.Run(step.name, func(t *testing.T) { step.do(t, w) }) {
			return
		}
	}
}

// warming is a file of HDFS that is read into memory.
type warming struct {
	c    *Cluster
	size int64
}

func (w *warming) ask(t *testing.T, job, path string) (*wire.InputsStatus, error) {
	return w.c.Inputs().Warm(within(t, patience), &wire.WarmInputsRequest{User: userName(), Job: job, Paths: []string{w.c.HDFS.URL() + path}})
}

// begin returns when some of a cold file is in memory and some is not.
func (w *warming) begin(t *testing.T, job, path string) {
	t.Helper()
	for range 20 {
		for i := range w.c.Nodes() {
			must(0, w.c.DropDisk(i))(t)
		}
		must(w.ask(t, job, path))(t)
		w.await(t, job, func(s *wire.InputsStatus) bool { return s.Warmed > 0 })
		if s := w.standing(t, job); s.Left > 0 {
			return
		}
		w.letGo(t, job) // the machine has stood still meanwhile
	}
	t.Fatalf("%s is always over before anything is killed", job)
}

// standing returns how it stands with the input of a job; nil: it is not known.
func (w *warming) standing(t *testing.T, job string) *wire.InputsStatus {
	t.Helper()
	for _, s := range must(w.c.Inputs().Inputs(within(t, patience), &wire.InputsRequest{User: userName()}))(t).Inputs {
		if s.Job == job {
			return s
		}
	}
	return nil
}

func (w *warming) await(t *testing.T, job string, is func(*wire.InputsStatus) bool) {
	t.Helper()
	var last *wire.InputsStatus
	testkit.Await(t, "the input of "+job, func() bool {
		last = w.standing(t, job)
		return last != nil && is(last)
	}, &last)
}

// letGo ends a job and returns when nothing of it is in memory any more because of us.
func (w *warming) letGo(t *testing.T, job string) {
	t.Helper()
	must(w.c.Inputs().Cool(within(t, patience), &wire.CoolInputsRequest{User: userName(), Jobs: []string{job}}))(t)
	w.isLetGo(t, job)
}

// isLetGo returns when no node has anything of a job locked or open.
func (w *warming) isLetGo(t *testing.T, job string) {
	t.Helper()
	var left []string
	testkit.Await(t, "everything of "+job+" to be let go", func() bool {
		left = nil
		for _, m := range w.c.machines {
			if n := locked(t, m.agent); n > 0 {
				left = append(left, fmt.Sprintf("%d kB are locked on %s", n, m.host))
			}
			left = append(left, openBlocks(t, m.agent)...)
		}
		return len(left) == 0
	}, &left)
}

// locked returns how much memory a process has locked, in kB.
func locked(t *testing.T, p *process) int {
	t.Helper()
	status := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid)))(t)
	m := regexp.MustCompile(`(?m)^VmLck:\s+(\d+) kB$`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("%s says nothing of locked memory:\n%s", p.name, status)
	}
	return must(strconv.Atoi(string(m[1])))(t)
}

// openBlocks returns which blocks of HDFS a process has open.
func openBlocks(t *testing.T, p *process) (all []string) {
	t.Helper()
	for _, fd := range must(filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.cmd.Process.Pid)))(t) {
		if file, err := os.Readlink(fd); err == nil && strings.Contains(file, "/blk_") {
			all = append(all, file)
		}
	}
	return all
}
