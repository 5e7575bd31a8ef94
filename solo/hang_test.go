package solo

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/solo/board"
	"headrace/wire"
)

// newHanging returns a machine whose CRIU hangs, in what the file hang in the state
// directory names, and leaves the file hung as a sign.
func newHanging(t *testing.T) (m *machine, hang, hung string) {
	t.Helper()
	m = newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	dir := m.cfg.StateDir
	hang, hung = filepath.Join(dir, "hang"), filepath.Join(dir, "hung")
	script := fmt.Sprintf("#!/bin/sh\nif [ -e %s ] && grep -q \"^$1\" %[1]s; then setsid sleep 1000 & : >%s; sleep 1000; fi\nexec %s \"$@\"\n", hang, hung, m.criu)
	m.criu = filepath.Join(dir, "criu")
	if err := os.WriteFile(m.criu, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return m, hang, hung
}

func (m *machine) write(path, text string) {
	m.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) awaitFile(path string) {
	m.t.Helper()
	testkit.Await(m.t, path, func() bool { _, err := os.Stat(path); return err == nil })
}

// killed asks for a kill and checks that it is answered and nothing is left.
func (m *machine) killed(id headrace.TaskID) {
	m.t.Helper()
	got, err := m.tasks.Kill(m.ctx(), &wire.VerbRequest{Id: string(id)})
	if err != nil || got.State != "killed" {
		m.t.Fatalf("kill: %v, %v", got, err)
	}
	info, err := m.node.Info(m.ctx(), &wire.InfoRequest{})
	if err != nil || info.SlotsUsed != 0 {
		m.t.Errorf("after the kill: %v, %v; want no slot used", info, err)
	}
	m.untilNoSupervisor(id)
}

func (m *machine) untilNoSupervisor(id headrace.TaskID) {
	m.t.Helper()
	testkit.Await(m.t, fmt.Sprintf("the end of the supervisor of task %s", id), func() bool { return len(m.supervisors(id)) == 0 })
}

// supervisors returns the processes that supervise a task.
func (m *machine) supervisors(id headrace.TaskID) (found []string) {
	all, err := linux.ProcFS("").All()
	if err != nil {
		m.t.Fatal(err)
	}
	for _, p := range all {
		if p.Start < m.begun-20*time.Millisecond { // the kernel counts in hundredths of a second; the machine may have thousands
			continue
		}
		dir := fmt.Sprint("/proc/", p.PID)
		b, err := os.ReadFile(dir + "/cmdline")
		if err == nil && strings.Contains(string(b), "supervise\x00-dir\x00"+filepath.Join(m.cfg.StateDir, "tasks", string(id))+"\x00") {
			found = append(found, dir)
		}
	}
	return found
}

// A kill is answered while CRIU hangs, also by a daemon that has found it so, and the
// reason that is shown is not that the task waits.
func TestRealKillWhileCRIUHangs(t *testing.T) {
	for _, doing := range []string{"dump", "restore"} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %v", doing, restarted), func(t *testing.T) {
				t.Parallel()
				m, hang, hung := newHanging(t)
				m.flags = []string{"--stall-limit", "1h"}
				m.launch()
				id := m.run(headrace.Normal, counter(100_000))
				m.awaitState(id, headrace.Running)
				q := &wire.VerbRequest{Id: string(id)}
				shown := "checkpointing"
				if doing == "restore" {
					shown = "restoring"
					if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
						t.Fatal(err)
					}
				}
				m.write(hang, doing)
				if doing == "dump" {
					go m.tasks.Checkpoint(m.ctx(), q)
				} else {
					go m.tasks.Restore(m.ctx(), q)
				}
				m.awaitFile(hung)
				if restarted {
					m.kill9()
					m.launch()
				}
				got := m.await(id, shown, func(w *wire.Task) bool { return w.Doing == shown })
				if strings.Contains(got.Reason, board.WaitsForSlot) {
					t.Errorf("it is %s, and %q is the reason", got.Doing, got.Reason)
				}
				m.killed(id)
			})
		}
	}
}

// A kill is answered within its own grace while another one, with a longer grace, is
// under way, also by a daemon that has found it so.
func TestRealKillWithinItsOwnGrace(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted %v", restarted), func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, policy.Wait)
			m.launch()
			id := m.run(headrace.Normal, func(q *wire.RunRequest) {
				q.Argv = []string{"/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"}
			})
			testkit.Await(t, "its handler", func() bool {
				text, _ := os.ReadFile(filepath.Join(m.cfg.StateDir, "tasks", string(id), "stdout"))
				return len(text) > 0
			})
			m.awaitState(id, headrace.Running) // a start under way would be called off
			tasks, ctx := m.tasks, m.ctx()
			go tasks.Kill(ctx, &wire.VerbRequest{Id: string(id), Grace: 3600})
			m.await(id, "killing", func(w *wire.Task) bool { return w.Doing == "killing" })
			if restarted {
				m.kill9()
				m.launch()
				m.await(id, "killing again", func(w *wire.Task) bool { return w.Doing == "killing" })
			}
			q := &wire.VerbRequest{Id: string(id), Grace: 0.001}
			if got, err := m.tasks.Kill(m.ctx(), q); err != nil || got.State != "killed" {
				t.Fatalf("kill: %v, %v", got, err)
			}
			m.untilNoSupervisor(id)
		})
	}
}

// A restore in which CRIU hangs is given up and tried again; the slot is free
// meanwhile, and the reason is shown. Nothing is lost.
func TestRealRestoreThatHangs(t *testing.T) {
	m, hang, hung := newHanging(t)
	m.flags = []string{"--stall-limit", "1s"}
	m.launch()
	gated, goOn := m.gated(60)
	id := m.run(headrace.Normal, gated)
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	m.write(hang, "restore")
	if _, err := m.tasks.Restore(m.ctx(), q); err == nil {
		t.Fatal("it was restored")
	}
	m.awaitFile(hung)
	got := m.await(id, "given up", func(w *wire.Task) bool {
		return w.Doing == "" && w.State == "checkpointed" && strings.Contains(w.Reason, "made no progress")
	})
	t.Log(got.Reason)
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 60)
}

// A task that is over has no supervisor, however it ended, and none is found by the
// next daemon. A lost one can be brought back all the same.
func TestRealNoSupervisorOfWhatIsOver(t *testing.T) {
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	m.launch()
	file := filepath.Join(m.cfg.StateDir, "file")
	id := m.run(headrace.Normal, never, func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", "exec 5>" + file + "; while :; do sleep 0.01; done"}
	})
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	images := filepath.Join(m.cfg.StateDir, "checkpoints", string(id), "000001")
	if err := os.Rename(images, images+".away"); err != nil {
		t.Fatal(err)
	}
	m.tasks.Restore(m.ctx(), q) // fails: there is no image
	m.awaitState(id, headrace.Lost)
	m.untilNoSupervisor(id)
	if err := os.Rename(images+".away", images); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	m.launch()
	if got, err := m.tasks.Restore(m.ctx(), q); err != nil || got.State != "running" {
		t.Fatalf("restore of a lost task: %v, %v", got, err)
	}
	m.killed(id)
}

// TestRealRestoreThatHangsAtARestart: a daemon that finds a restore in which CRIU hangs ends it by the limit, as one that has begun it.
func TestRealRestoreThatHangsAtARestart(t *testing.T) {
	m, hang, hung := newHanging(t)
	m.flags = []string{"--stall-limit", "5s"}
	m.launch()
	gate := filepath.Join(m.cfg.StateDir, "gate")
	id := m.run(headrace.Normal, func(q *wire.RunRequest) {
		q.Argv = []string{"/bin/sh", "-c", "echo 0; until [ -e " + gate + " ]; do sleep 0.01; done; echo 1"}
		q.Env = []string{"PATH=/usr/bin:/bin"}
	})
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	if _, err := m.tasks.Checkpoint(m.ctx(), q); err != nil {
		t.Fatal(err)
	}
	m.write(hang, "restore")
	go m.tasks.Restore(m.ctx(), q)
	m.awaitFile(hung)
	m.kill9()
	m.launch()
	m.await(id, "being restored by the next daemon", func(w *wire.Task) bool { return w.Doing == "restoring" })
	m.await(id, "given up", func(w *wire.Task) bool {
		return w.Doing == "" && w.State == "checkpointed" && strings.Contains(w.Reason, "made no progress")
	})
	m.write(gate, "")
	if err := os.Remove(hang); err != nil {
		t.Fatal(err)
	}
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 2)
}

// supervisor returns the pid of the process that supervises a task.
func (m *machine) supervisor(id headrace.TaskID) int {
	m.t.Helper()
	found := m.supervisors(id)
	if len(found) != 1 {
		m.t.Fatalf("its supervisors are %v", found)
	}
	pid, err := strconv.Atoi(filepath.Base(found[0]))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

// TestRealSavedWithoutAnswer: who wants a task checkpointed, or brought back, whose supervisor stands still, is told so. It is done when the
// supervisor goes on, and the task loses nothing.
func TestRealSavedWithoutAnswer(t *testing.T) {
	t.Parallel()
	m := newMachine(t, policy.Wait)
	if !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	m.launch()
	gated, goOn := m.gated(20)
	id := m.run(headrace.Normal, gated)
	m.awaitState(id, headrace.Running)
	q := &wire.VerbRequest{Id: string(id)}
	for _, c := range []struct {
		doing string
		ask   func() error
		then  headrace.TaskState
	}{
		{"checkpointing", func() error { _, err := m.tasks.Checkpoint(m.ctx(), q); return err }, headrace.Checkpointed},
		{"restoring", func() error { _, err := m.tasks.Restore(m.ctx(), q); return err }, headrace.Running},
	} {
		pid := m.supervisor(id)
		syscall.Kill(pid, syscall.SIGSTOP)
		if err := c.ask(); err == nil || !strings.Contains(err.Error(), "does not answer") {
			t.Errorf("%s: %v", c.doing, err)
		}
		if got := m.get(id); got.Doing != c.doing || !strings.Contains(got.Reason, "does not answer") {
			t.Errorf("it is %v", got)
		}
		syscall.Kill(pid, syscall.SIGCONT)
		m.awaitState(id, c.then)
	}
	goOn()
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 20)
}

// TestRealSupervisorThatStandsStill: a supervisor stops in the middle of a suspension, and does not answer. Whoever
// has asked is told so, and the task is not said to be suspended before it is.
func TestRealSupervisorThatStandsStill(t *testing.T) {
	t.Parallel()
	m := newMachine(t, policy.Wait)
	m.launch()
	dir := m.cfg.StateDir
	asked, goOn, gate := filepath.Join(dir, "asked"), filepath.Join(dir, "go-on"), filepath.Join(dir, "gate")
	id := m.run(headrace.Normal, func(q *wire.RunRequest) {
		q.Argv = []string{"/usr/bin/python3", "-uc", fmt.Sprintf(`
import os, signal, time
def stop(*_):
    open(%q, "w").close()
    while not os.path.exists(%q): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGTSTP, stop)
print(0)
while not os.path.exists(%q): time.sleep(0.01)
print(1)`, asked, goOn, gate)}
	})
	m.awaitState(id, headrace.Running)
	testkit.Await(t, "its handler", func() bool {
		text, _ := os.ReadFile(filepath.Join(dir, "tasks", string(id), "stdout"))
		return len(text) > 0
	})
	pid := m.supervisor(id)
	q := &wire.VerbRequest{Id: string(id), Grace: 5}
	for silent := false; !silent; { // else the grace was over before its supervisor stood still
		os.Remove(asked)
		os.Remove(goOn)
		answer := make(chan error, 1)
		ctx, tasks := m.ctx(), m.tasks
		go func() { _, err := tasks.Suspend(ctx, q); answer <- err }()
		m.awaitFile(asked)
		syscall.Kill(pid, syscall.SIGSTOP)
		m.write(goOn, "")
		err := <-answer
		if silent = err != nil; silent {
			if !strings.Contains(err.Error(), "does not answer") {
				t.Error(err)
			}
			if got := m.get(id); got.State != "running" || got.Doing != "suspending" || !strings.Contains(got.Reason, "does not answer") {
				t.Errorf("it is %v", got)
			}
		}
		syscall.Kill(pid, syscall.SIGCONT)
		m.awaitState(id, headrace.Suspended)
		if _, err := m.tasks.Resume(m.ctx(), q); err != nil {
			t.Fatal(err)
		}
		m.awaitState(id, headrace.Running)
	}
	m.write(gate, "")
	m.awaitState(id, headrace.Done)
	m.wantCount(id, 2)
}
