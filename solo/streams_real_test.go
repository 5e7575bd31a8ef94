package solo

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/crash"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/wire"
)

// records writes a file of n numbered lines of varied length.
func (m *machine) records(n int) string {
	m.t.Helper()
	var b bytes.Buffer
	for i := range n {
		fmt.Fprintf(&b, "%d %s\n", i, strings.Repeat("x", i*7%90))
	}
	path := filepath.Join(m.cfg.StateDir, "input")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		m.t.Fatal(err)
	}
	return path
}

// reading returns the command of a shell that copies records slowly, byte by byte, and that stops after so many until the test, which may
// be slow to do what it is about, says goOn.
func (m *machine) reading(stop int) (command string, goOn func()) {
	gate := filepath.Join(m.t.TempDir(), "gate")
	return fmt.Sprintf(`n=0; while read -r line; do echo "$line"; n=$((n+1)); [ $n != %d ] || until [ -e %s ]; do sleep 0.01; done; done`, stop, gate),
		func() { m.write(gate, "") }
}

// readers is two tasks that copy the records of a file by a command.
func (m *machine) readers(path, command string) (ids []string) {
	m.t.Helper()
	res, err := m.tasks.Run(m.ctx(), &wire.RunRequest{
		Argv: []string{"/bin/sh", "-c", command},
		Env:  []string{"PATH=/usr/bin:/bin"}, Cpus: 0.5, Priority: uint32(headrace.Low),
		Input: &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_LINES, Tasks: 2},
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return res.Ids
}

// copies copies records.
const copies = `while read -r line; do echo "$line"; done`

// wantOnce looks that the tasks wrote every record once.
func (m *machine) wantOnce(path string, ids []string) {
	m.t.Helper()
	want, err := os.ReadFile(path)
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, id := range ids {
		text, err := allLogs(m.ctx(), m.tasks, id)
		if err != nil {
			m.t.Fatal(err)
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "headrace: the daemon does not answer") { // a busy machine's takes its time
				got = append(got, strings.Fields(strings.ReplaceAll(line, " ", "_"))...)
			}
		}
	}
	all := strings.Fields(strings.ReplaceAll(string(want), " ", "_"))
	trim := func(list []string) []string { // the shell drops blanks at the end
		for i := range list {
			list[i] = strings.TrimRight(list[i], "_")
		}
		slices.Sort(list)
		return list
	}
	if got, all := trim(got), trim(all); !slices.Equal(got, all) {
		wanted := make(map[string]bool, len(all))
		for _, line := range all {
			wanted[line] = true
		}
		other := slices.DeleteFunc(slices.Clone(got), func(line string) bool { return wanted[line] })
		m.t.Errorf("%d records were written, want %d, each once; and other lines: %q", len(got), len(all), other[:min(len(other), 5)])
	}
}

// TestRealStreamSurvives suspends one consumer, checkpoints the other, and kills
// the daemon before, between and after: every record is written once.
func TestRealStreamSurvives(t *testing.T) {
	m := newMachine(t, policy.Wait)
	m.launch()
	path := m.records(60000)
	command, goOn := m.reading(20000)
	ids := m.readers(path, command)
	for _, id := range ids {
		m.untilWrites(id)
	}
	m.kill9()
	m.launch()
	if _, err := m.tasks.Suspend(m.ctx(), &wire.VerbRequest{Id: ids[0]}); err != nil {
		t.Fatal(err)
	}
	second := m.tasks.Suspend
	if m.image {
		second = m.tasks.Checkpoint
	}
	if _, err := second(m.ctx(), &wire.VerbRequest{Id: ids[1]}); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	m.launch()
	for _, id := range ids {
		if _, err := m.tasks.Resume(m.ctx(), &wire.VerbRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	m.kill9()
	m.launch()
	goOn()
	for _, id := range ids {
		m.awaitState(headrace.TaskID(id), headrace.Done)
	}
	m.wantOnce(path, ids)
	got := m.get(headrace.TaskID(ids[0]))
	if in := got.Input; in.Dealt != in.Bytes || in.Bytes == 0 {
		t.Errorf("dealt %d of %d bytes", in.Dealt, in.Bytes)
	}
	for _, id := range ids {
		if _, err := m.tasks.Forget(m.ctx(), &wire.VerbRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
	}
	m.untilNoStreams()
}

// untilWrites waits until a task has written something.
func (m *machine) untilWrites(id string) {
	m.t.Helper()
	path := filepath.Join(m.cfg.StateDir, "tasks", id, "stdout")
	testkit.Await(m.t, "output of task "+id, func() bool { st, err := os.Stat(path); return err == nil && st.Size() > 0 },
		func() string { return m.get(headrace.TaskID(id)).String() })
}

func (m *machine) untilNoStreams() {
	m.t.Helper()
	var left []os.DirEntry
	testkit.Await(m.t, "the end of all streams", func() (none bool) {
		var err error
		left, err = os.ReadDir(filepath.Join(m.cfg.StateDir, "streams"))
		return err == nil && len(left) == 0
	}, &left)
}

// TestRealStreamKilledForRoom kills a consumer to make room: it starts again and
// gets what is left, and what it had.
func TestRealStreamKilledForRoom(t *testing.T) {
	m := newMachine(t, policy.Kill)
	m.launch()
	path := m.records(20000)
	command, goOn := m.reading(6000)
	ids := m.readers(path, command)
	m.untilWrites(ids[0])
	high := m.run(headrace.High, counter(5))
	m.awaitState(high, headrace.Done)
	goOn()
	preempted := uint32(0)
	for _, id := range ids {
		preempted += m.awaitState(headrace.TaskID(id), headrace.Done).Preemptions
	}
	if preempted == 0 {
		t.Error("no consumer was killed: the test shows nothing")
	}
	m.wantOnce(path, ids)
}

// TestRealStreamCutOff: what ends a task from outside, a machine that goes down say, is none of its ends, however its command takes
// it: it goes on from its checkpoint, or starts from the beginning, and in the end has read every record once.
func TestRealStreamCutOff(t *testing.T) {
	for name, trap := range map[string]string{"the command ends well": "trap 'exit 0' TERM; ", "the signal ends it": ""} {
		for _, image := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, checkpointed before: %v", name, image), func(t *testing.T) {
				m := newMachine(t, policy.Wait)
				if image && !m.image {
					t.Skip("without root or CRIU there are no checkpoints")
				}
				m.launch()
				path := m.records(40000)
				command, goOn := m.reading(20000)
				res, err := m.tasks.Run(m.ctx(), &wire.RunRequest{
					Argv: []string{"/bin/sh", "-c", trap + command},
					Env:  []string{"PATH=/usr/bin:/bin"}, Restart: wire.Restart_RESTART_ON_LOSS,
					Input: &wire.Input{Paths: []string{path}, Split: wire.Split_SPLIT_LINES, Tasks: 1},
				})
				if err != nil {
					t.Fatal(err)
				}
				id := headrace.TaskID(res.Ids[0])
				m.untilWrites(res.Ids[0])
				if image {
					q := &wire.VerbRequest{Id: string(id)}
					if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
						t.Fatal(err)
					}
					if _, err := m.tasks.Restore(m.ctx(), q); err != nil {
						t.Fatal(err)
					}
				}
				m.awaitState(id, headrace.Running)
				supervisors := m.supervisors(id)
				if len(supervisors) == 0 {
					t.Fatal("it runs and has no supervisor")
				}
				for _, dir := range supervisors {
					pid, err := strconv.Atoi(filepath.Base(dir))
					if err != nil {
						t.Fatal(err)
					}
					if err := unix.Kill(pid, unix.SIGTERM); err != nil {
						t.Fatal(err)
					}
				}
				goOn()
				m.awaitState(id, headrace.Done)
				m.wantOnce(path, res.Ids)
			})
		}
	}
}

// TestRealStreamCrashPoints ends the daemon before and after entries of the
// journal.
func TestRealStreamCrashPoints(t *testing.T) {
	for _, point := range []string{"stream-journal-before", "stream-journal-after"} {
		for n := 1; n <= 5; n++ {
			t.Run(fmt.Sprintf("%s:%d", point, n), func(t *testing.T) {
				t.Parallel()
				m := newMachine(t, policy.Wait)
				m.launch(fmt.Sprintf("%s=%s:%d", crash.Env, point, n))
				path := m.records(2000)
				ids := m.readers(path, copies)
				for _, id := range ids {
					waitFor(m.ctx(), m.tasks, id)
				}
				m.kill9() // it may not have died yet
				m.launch()
				for _, id := range ids {
					m.awaitState(headrace.TaskID(id), headrace.Done)
				}
				m.wantOnce(path, ids)
			})
		}
	}
}
