package yarn

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
	"headrace/wire"
)

// The NameNode that stood by takes over while a file is read, and the other one again while it
// is kept: it stays so, and users are answered.
func failover(t *testing.T, w *warming) {
	w.begin(t, "failover", "/a")
	must(0, w.c.HDFS.MakeActive(within(t, patience), 0))(t)
	w.await(t, "failover", w.allOf)
	must(0, w.c.HDFS.KillNameNode())(t)
	must(0, w.c.HDFS.MakeActive(within(t, patience), 1))(t)
	if s := w.standing(t, "failover"); !w.allOf(s) {
		t.Errorf("after the second failover: %v", s)
	}
	must(w.ask(t, "failover", "/a"))(t)
	w.await(t, "failover", w.allOf)
	cached := must(w.c.Inputs().CachedInputs(within(t, patience), &wire.CachedInputsRequest{User: userName(), Paths: []string{w.c.HDFS.URL() + "/a"}}))(t)
	var resident int64
	for cached.Receive() {
		for _, f := range cached.Msg().Files {
			resident += f.Resident
		}
	}
	if cached.Err() != nil || resident != w.size {
		t.Errorf("%d bytes are in memory, want %d; %v", resident, w.size, cached.Err())
	}
	w.letGo(t, "failover")
	must(0, w.c.HDFS.StartNameNode(within(t, patience)))(t)
}

// The ResourceManager dies while the input of an application is read, and knows the application
// again when it is back: its input is read to the end meanwhile, kept, and let go with it.
func schedulerDies(t *testing.T, w *warming) {
	testkit.Long(t)
	app := shell(t, w.c, ShellJob{Name: "reads", Queue: "low", Memory: 512}, 6000, 100*time.Millisecond)
	app.awaitSteps(t, 1)
	job := must(app.ID(t.Context()))(t)
	w.begin(t, job, "/a")
	must(0, w.c.KillRM())(t)
	w.await(t, job, w.allOf)
	must(0, w.c.StartRM(within(t, patience)))(t)
	shell(t, w.c, ShellJob{Name: "after", Queue: "high", Memory: 512}, 5, 100*time.Millisecond).succeed(t, 1)
	if s := w.standing(t, job); s == nil || !w.allOf(s) {
		t.Errorf("the ResourceManager is back, and the input of its application is %v", s)
	}
	must(0, w.c.KillApp(within(t, patience), job))(t)
	testkit.Await(t, "its input to be kept no more", func() bool { return w.standing(t, job) == nil })
	w.isLetGo(t, job)
	idle(t, w.c)
}

// allOf reports whether everything is in memory.
func (w *warming) allOf(s *wire.InputsStatus) bool {
	return s.State == "done" && s.Pinned+s.Resident == w.size && s.Failed == 0
}

// Of a file that is being written, blocks that are complete are read, and nothing else.
func beingWritten(t *testing.T, w *warming) {
	client := must(w.c.HDFS.Client())(t)
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- client.Create(t.Context(), "/writing", 0o644, func(to io.Writer) error {
			_, err := io.Copy(to, strings.NewReader(strings.Repeat("x", 5*dataBlock/2)))
			close(begun)
			<-end
			return err
		})
	}()
	<-begun
	w.askUntil(t, "writing", "/writing", func(s *wire.InputsStatus) bool { return s.Left == 0 && s.Pinned+s.Resident == 2*dataBlock })
	for _, m := range w.c.machines {
		if i := slices.IndexFunc(openBlocks(t, m.agent), func(f string) bool { return strings.Contains(f, "/rbw/") }); i >= 0 {
			t.Errorf("%s reads what is being written", m.host)
		}
	}
	close(end)
	must(0, <-done)(t)
	w.letGo(t, "writing")
}

// askUntil asks until it stands as is says: what is asked for are the blocks that there are.
func (w *warming) askUntil(t *testing.T, job, path string, is func(*wire.InputsStatus) bool) {
	t.Helper()
	var last *wire.InputsStatus
	var err error
	testkit.Await(t, "the input of "+job, func() bool {
		if _, err = w.ask(t, job, path); err != nil {
			return false
		}
		last = w.standing(t, job)
		return last != nil && is(last)
	}, &last, &err)
}

const machineMemory = 2 << 30

// Somebody takes almost all the memory of a machine: what is locked there is let go, and nobody
// is killed for lack of memory. A budget that the machine cannot bear is refused.
func shortMemory(t *testing.T, w *warming) {
	m := w.c.machines[0]
	group := cgroup.Group{Memory: m.group}
	kills := group.OOMKills()
	w.begin(t, "memory", "/a") // what is in memory already would not be locked
	w.await(t, "memory", w.allOf)
	use, ok := group.Use()
	if !ok || locked(t, m.agent) == 0 {
		t.Fatalf("%+v, %v; %d kB are locked", use, ok, locked(t, m.agent))
	}
	const leaves = 96 << 20 // less than what stays for others, a sixteenth
	hog := exec.Command("sh", "-c", fmt.Sprintf("{ head -c %d /dev/zero; exec sleep 600; } | exec tail -c 2G", machineMemory-use.Resident-leaves))
	hog.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(0, w.c.Start(0, hog))(t)
	end := sync.OnceFunc(func() { syscall.Kill(-hog.Process.Pid, syscall.SIGKILL); hog.Wait() })
	defer end()
	testkit.Await(t, "what is locked to be let go", func() bool { return locked(t, m.agent) == 0 })
	end()
	if n := group.OOMKills() - kills; n != 0 || m.agent.gone() {
		t.Errorf("%d processes were killed for lack of memory; the node: %v", n, m.agent.gone())
	}
	w.await(t, "memory", w.allOf)
	w.letGo(t, "memory")

	must(0, w.c.KillNode(0))(t)
	m.flags = []string{"--warm-budget", "4GB"}
	must(0, m.launchAgent())(t)
	<-m.agent.ended
	if err := m.agent.problem(); !strings.Contains(err.Error(), "three quarters of") {
		t.Errorf("a budget that is more than the machine has: %v", err)
	}
	m.flags, m.agent = nil, nil
	must(0, w.c.StartNode(within(t, patience), 0))(t)
}

// flip changes a byte of a replica in place.
func flip(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt([]byte{0xff}, 100)
	return err
}

// isSound returns nil when nothing of flip is there.
func (r *Replica) isSound() error {
	b, err := os.ReadFile(r.Data)
	if err == nil && b[100] == 0xff {
		err = fmt.Errorf("%s is corrupt", r.Data)
	}
	return err
}

// keep asks for a file and returns when all of it is in memory.
func (w *warming) keep(t *testing.T, job, path string) {
	t.Helper()
	must(w.ask(t, job, path))(t)
	w.await(t, job, w.allOf)
}

// nothingDeleted returns when no node has a file of a block open that is there no more.
func (w *warming) nothingDeleted(t *testing.T) {
	t.Helper()
	var left []string
	testkit.Await(t, "deleted files to be closed", func() bool {
		left = nil
		for _, m := range w.c.machines {
			for _, f := range openBlocks(t, m.agent) {
				if strings.HasSuffix(f, " (deleted)") {
					left = append(left, f)
				}
			}
		}
		return len(left) == 0
	}, &left)
}

// A volume goes while its blocks are kept: they are read elsewhere. It comes back.
func volumeTakenAway(t *testing.T, w *warming) {
	testkit.Long(t)
	w.keep(t, "volume", "/a")
	volume := w.c.machines[0].dataDirs()[1]
	must(0, w.c.HDFS.KillDataNode(0))(t)
	must(0, w.c.On(0, func() error { return os.Rename(volume, volume+".away") }))(t)
	w.await(t, "volume", w.allOf)
	for _, f := range openBlocks(t, w.c.machines[0].agent) {
		if strings.Contains(f, filepath.Base(volume)+"/") {
			t.Errorf("%s is still open", f)
		}
	}
	w.letGo(t, "volume")
	must(0, w.c.On(0, func() error { return os.Rename(volume+".away", volume) }))(t)
	must(0, w.c.HDFS.StartDataNode(within(t, patience), 0))(t)
}

// A replica that is kept turns out to be corrupt. It and others are taken away, and all are made
// anew, while a file is kept.
func replication(t *testing.T, w *warming) {
	testkit.Long(t)
	w.keep(t, "replication", "/a")
	corrupt := must(w.c.HDFS.Replicas(t.Context(), "/a", 2))(t)[0]
	on := func(f func() error) error { return w.c.On(corrupt.Machine, f) }
	must(0, on(func() error { return flip(corrupt.Data) }))(t)
	// Who reads it there finds out.
	must(0, w.c.HDFS.Shell(within(t, patience), corrupt.Machine, "-get", "/a", "file://"+filepath.Join(w.c.Dir, "read")))(t)
	for n := 1; n <= 2; n++ {
		must(0, w.c.HDFS.Shell(within(t, patience), 0, "-setrep", fmt.Sprint(n), "/a"))(t)
		testkit.Await(t, fmt.Sprint(n, " replicas of each block"), func() bool {
			for _, b := range must(must(w.c.HDFS.Client())(t).Blocks(t.Context(), "/a", 0))(t) {
				if len(b.Hosts) != n {
					return false
				}
			}
			return true
		})
		// HDFS tells of good replicas only. As long as it has the bad one here, it wants no other one here.
		testkit.Await(t, "the end of the bad replica", func() bool {
			return errors.Is(on(func() error { _, err := os.Stat(corrupt.Data); return err }), os.ErrNotExist) || n > 1
		})
		w.nothingDeleted(t)
		w.await(t, "replication", w.allOf)
	}
	for _, r := range must(w.c.HDFS.Replicas(t.Context(), "/a", 2))(t) {
		if err := w.c.On(r.Machine, r.isSound); err != nil {
			t.Error(err)
		}
	}
	w.letGo(t, "replication")
}

// A file is cut within a block while it is kept: what is left is kept once it is asked for
// again.
func truncated(t *testing.T, w *warming) {
	w.keep(t, "truncated", "/a")
	w.size -= 5 * dataBlock / 2
	must(0, w.c.HDFS.Shell(within(t, patience), 0, "-truncate", "-w", fmt.Sprint(w.size), "/a"))(t)
	w.nothingDeleted(t)
	w.askUntil(t, "truncated", "/a", func(s *wire.InputsStatus) bool { return s.Left == 0 && s.Pinned+s.Resident == w.size })
	w.letGo(t, "truncated")
}

// A file is deleted. What of it is still to be read cannot be, which is said.
func deleted(t *testing.T, w *warming) {
	w.begin(t, "deleted", "/a")
	must(0, must(w.c.HDFS.Client())(t).RemoveAll(t.Context(), "/a"))(t)
	w.await(t, "deleted", func(s *wire.InputsStatus) bool { return s.Left == 0 && s.Failed > 0 })
	w.letGo(t, "deleted")
}
