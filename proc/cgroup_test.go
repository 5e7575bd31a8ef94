package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/proc"
)

// withCgroups gives the world's tasks cgroups of their own, or skips the test with
// the reason. have are the controllers that it needs.
func (w *world) withCgroups(have func(cgroup.Group) bool) *world {
	w.Helper()
	w.must(os.MkdirAll(w.rt.Dir, 0o711)) // a base is named after the directory itself
	base, err := cgroup.Open(w.rt.Dir)
	if base == nil {
		w.Skip(err)
	}
	probe, err := base.Make("probe", cgroup.Limits{Memory: 1 << 30}, nil)
	w.must(probe.Remove())
	w.base = base
	if !have(probe) {
		w.Skipf("the cgroups here are %+v, %v", probe, err)
	}
	w.rt.Cgroups = base
	w.rt.Problem = func(id headrace.TaskID, err error) {
		if err != nil {
			w.Errorf("task %s: %v", id, err)
		}
	}
	return w
}

func anyGroup(g cgroup.Group) bool              { return len(g.Dirs()) > 0 }
func hasMemory(g cgroup.Group) bool             { return g.Memory != "" }
func hasFreezer(g cgroup.Group) bool            { return g.Freezer != "" }
func hasPIDs(g cgroup.Group) bool               { return g.PIDs != "" }
func (w *world) groupOf(id string) cgroup.Group { return w.rt.Cgroups.Find(id) }

func (w *world) taskPIDs(id string) (pids []int) {
	w.Helper()
	for _, p := range w.taskProcesses(id) {
		pids = append(pids, p.PID)
	}
	return pids
}

// inGroup reports whether all of a task, and not its supervisor, is in its cgroup.
func (w *world) inGroup(id string) bool {
	for _, dir := range w.groupOf(id).Dirs() {
		in, err := cgroup.Members(dir)
		w.must(err)
		members := fmt.Sprint(in)
		for _, pid := range w.taskPIDs(id) {
			if !strings.Contains(members, strconv.Itoa(pid)) {
				return false
			}
		}
		if strings.Contains(members, strconv.Itoa(w.shimPID(id))) {
			w.Errorf("the supervisor is in %s", dir)
		}
	}
	return true
}

func TestCgroupOfATask(t *testing.T) {
	w := newWorld(t).withCgroups(anyGroup)
	s := w.spec("t", "/bin/sh", "-c", "(sleep 1000 &); sleep 1000 & echo ready; wait")
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.await("all of it in its cgroup", func() bool { return len(w.taskPIDs("t")) >= 3 && w.inGroup("t") })
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	w.must(task.Kill(w.ctx, time.Millisecond))
	w.end(task)
	w.await("the end of the cgroup", func() bool { return len(w.groupOf("t").Dirs()) == 0 })

	s.ID = "lost"
	task = w.start(s)
	w.awaitOutput(task, "ready")
	w.must(syscall.Kill(w.shimPID("lost"), syscall.SIGKILL))
	w.end(task)
	w.await("the end of the cgroup of a lost task", func() bool { return len(w.groupOf("lost").Dirs()) == 0 })
}

// TestRestoreOfWhatWasFrozen: a suspended task whose supervisor was killed while nobody saw it leaves its cgroup frozen. It
// is restored all the same.
func TestRestoreOfWhatWasFrozen(t *testing.T) {
	w := newWorld(t).needCheckpoints().withCgroups(hasFreezer)
	s, task := w.counting()
	w.checkpoint(task)
	task.Close() // who is connected ends what is left
	task = w.restore(s, proc.RestoreOptions{})
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	task.Close()
	w.endShim("count")
	w.end(w.restore(s, proc.RestoreOptions{RanOn: true}))
	w.checkCounter("count")
}

// TestCgroupOfWhatForks: a task whose processes are gone before they can be moved, and have forked
// others, is in its cgroup all the same.
func TestCgroupOfWhatForks(t *testing.T) {
	w := newWorld(t).withCgroups(anyGroup)
	if os.Geteuid() != 0 {
		t.Skip("without namespaces of its own a task cannot be stopped at once")
	}
	task := w.start(w.spec("forks", "/usr/bin/python3", "-uc", `
import os, time
for _ in range(2):
    if os.fork() == 0:
        until = time.monotonic() + 2.5
        while time.monotonic() < until:
            if os.fork():
                os._exit(0)
        print("through")
        time.sleep(1000)
time.sleep(1000)`))
	w.await("the end of the forks", func() bool { return strings.Count(w.log("forks", "stdout"), "through") == 2 })
	w.await("all of it in its cgroup", func() bool { return len(w.taskPIDs("forks")) == 3 && w.inGroup("forks") })
	before := w.stats(task)
	if before.State != headrace.Running || before.Processes != 3 {
		t.Errorf("it is %+v", before)
	}
	for _, p := range w.taskProcesses("forks") {
		if p.State == 'T' {
			t.Errorf("process %d is stopped", p.PID)
		}
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
}

// A task that somebody else has put in a cgroup stays there, and gets its own in
// the other hierarchies.
func TestCgroupOfAnotherScheduler(t *testing.T) {
	w := newWorld(t).withCgroups(hasPIDs)
	own, err := linux.CgroupDirs(os.Getpid())
	w.must(err)
	at, ok := own["pids"]
	if !ok {
		t.Skip("the pids controller is not of version 1 here")
	}
	dir := filepath.Join(at, "headrace-test-"+filepath.Base(filepath.Dir(w.rt.Dir)))
	w.must(os.Mkdir(dir, 0o755))
	w.Cleanup(func() {
		w.await("removal", func() bool { return os.Remove(dir) == nil })
	})
	s := w.spec("t", "sleep", "1000")
	s.Cgroups = []string{dir}
	task := w.start(s)
	w.await("the foreign cgroup", func() bool { in, _ := cgroup.Members(dir); return len(in) >= 2 })
	if g := w.groupOf("t"); g.PIDs != "" || g.Dirs() == nil {
		t.Errorf("its cgroup is %+v", g)
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
	w.end(task)
}

// otherUser is an account that is neither root nor this one's.
const otherUser = 65534

// contAsUser sends SIGCONT to all of a task as its user.
func (w *world) contAsUser(id string) {
	w.Helper()
	pids := w.taskPIDs(id)
	if len(pids) == 0 {
		w.Fatal("no processes")
	}
	args := []string{"-CONT"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	cmd := exec.Command("/bin/kill", args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, err := cmd.CombinedOutput()
	// init is root's
	if err != nil && !strings.Contains(string(out), "not permitted") {
		w.Fatalf("kill -CONT: %v: %s", err, out)
	}
}

// tick is what a process may be found to have used for being woken and frozen again: the
// kernel counts in ticks.
const tick = 10 * time.Millisecond

func (w *world) cpu(t *proc.Task) time.Duration {
	u := w.stats(t).Usage
	return u.User + u.System
}

// Its user cannot continue a suspended task: not for a moment where there is a
// freezer, else for less than a second, whether somebody looks at it or not.
func TestSuspendedStaysSo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("tasks of other users need root")
	}
	for _, frozen := range []bool{true, false} {
		t.Run(fmt.Sprintf("freezer=%v", frozen), func(t *testing.T) {
			w := newWorld(t)
			if frozen {
				w.withCgroups(hasFreezer)
			}
			s := w.spec("t", "/bin/sh", "-c", "echo ready; while :; do :; done")
			s.UID, s.GID = otherUser, otherUser
			task := w.start(s)
			w.awaitOutput(task, "ready")
			best := time.Hour
			for nth := 0; nth < 3 || !frozen && best > time.Second && nth < 20; nth++ { // a busy machine may take that long, not always
				_, err := task.Suspend(w.ctx, 0)
				w.must(err)
				before := w.cpu(task)
				began := time.Now()
				w.contAsUser("t")
				if frozen {
					time.Sleep(100 * time.Millisecond) // in which it would run
				} else {
					w.await("its second stop", func() bool {
						return !slices.ContainsFunc(w.taskProcesses("t"), func(p linux.Stat) bool { return !linux.Stopped(p.State) })
					})
					w.await("it to be counted", func() bool { return w.stats(task).Continued > nth })
					best = min(best, time.Since(began))
					if st := w.stats(task); st.Continued != nth+1 || st.State != headrace.Suspended {
						t.Errorf("it is %+v", st)
					}
					before = w.cpu(task)
					time.Sleep(50 * time.Millisecond)
				}
				if after := w.cpu(task); after-before > tick {
					t.Errorf("it has used %v of processor time while it was suspended", after-before)
				}
				w.must(task.Resume(w.ctx))
				before = w.cpu(task)
				w.await("progress", func() bool { return w.cpu(task) > before })
			}
			if !frozen && best > time.Second {
				t.Errorf("it was stopped again after %v", best)
			}
		})
	}
}

// seize traces a process, as its user may, while then runs, which begins before it returns.
func seize(t *testing.T, pid int, then func()) {
	t.Helper()
	seizeWith(t, pid, 0, then)
}

// seizeWith is seize with options of ptrace.
func seizeWith(t *testing.T, pid, options int, then func()) {
	t.Helper()
	seized, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		linux.OnOwnThread(func() error { // which is the tracer
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, uintptr(options), 0, 0)
			if errno != 0 {
				seized <- os.NewSyscallError("ptrace", errno)
				return nil
			}
			seized <- nil
			then()
			return nil
		})
	}()
	if err := <-seized; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { <-ended })
}

// keepStopsAway keeps every signal from a process that does not end it, until it does.
func keepStopsAway(t *testing.T, pid int) {
	t.Helper()
	seize(t, pid, func() {
		for {
			var ws unix.WaitStatus
			if _, err := unix.Wait4(pid, &ws, unix.WALL, nil); err == unix.EINTR {
				continue
			} else if err != nil || ws.Exited() || ws.Signaled() {
				return
			}
			unix.PtraceCont(pid, 0)
		}
	})
}

// A tracer keeps SIGSTOP from a task. Where there is a freezer it is suspended all the
// same; else it runs on, and the reason says so, unless it was looked at in the moments
// between.
func TestSuspendOfTraced(t *testing.T) {
	for _, frozen := range []bool{true, false} {
		t.Run(fmt.Sprintf("freezer=%v", frozen), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if frozen {
				w.withCgroups(hasFreezer)
			}
			task := w.start(w.spec("t", "/bin/sh", "-c", "echo ready; while :; do :; done"))
			w.awaitOutput(task, "ready")
			pids := w.taskPIDs("t")
			keepStopsAway(t, pids[len(pids)-1])
			_, err := task.Suspend(w.ctx, 0)
			if !frozen {
				for err == nil {
					w.must(task.Resume(w.ctx))
					_, err = task.Suspend(w.ctx, 0)
				}
				if !errors.Is(err, proc.ErrNotStopped) || !strings.Contains(err.Error(), "a tracer (gdb, strace) keeps it away") {
					t.Errorf("suspend: %v", err)
				}
			} else {
				w.must(err)
				before := w.cpu(task)
				time.Sleep(100 * time.Millisecond) // in which it would run
				if after := w.cpu(task); after-before > tick {
					t.Errorf("it has used %v of processor time while it was suspended", after-before)
				}
				w.must(task.Resume(w.ctx))
			}
			before := w.cpu(task)
			w.await("progress", func() bool { return w.cpu(task) > before })
			w.must(task.Kill(w.ctx, time.Millisecond))
		})
	}
}

// pidsMax is what pids.max of a task's group says: where all that counts is one directory, Headrace's own process in the task counts too.
func pidsMax(g cgroup.Group, pids int) string {
	if !g.SeparatePIDs() {
		pids += 16
	}
	return strconv.Itoa(pids)
}

// A suspended and locked task is dumped, also when its user has tried to continue
// it, and is in its cgroup with its limits when it is back.
func TestCheckpointOfLocked(t *testing.T) {
	w := newWorld(t).needCheckpoints().withCgroups(hasFreezer)
	s := w.spec("t", "/usr/bin/python3", "-uc", "b = bytearray(30 << 20)\nfor i in range(10000000): print(i, flush=True); import time; time.sleep(.005)")
	s.Memory, s.PIDs = 64<<20, 5
	task := w.start(s)
	w.awaitOutput(task, "\n3\n")
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	for _, pid := range w.taskPIDs("t") {
		w.must(syscall.Kill(pid, syscall.SIGCONT))
	}
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	before := len(w.log("t", "stdout"))
	w.await("progress", func() bool { return len(w.log("t", "stdout")) > before })
	if !w.inGroup("t") {
		t.Error("it is not in its cgroup after the restore")
	}
	if g := w.groupOf("t"); g.PIDs != "" {
		if b, _ := os.ReadFile(filepath.Join(g.PIDs, "pids.max")); strings.TrimSpace(string(b)) != pidsMax(g, 5) {
			t.Errorf("pids.max is %q after the restore", b)
		}
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
}

// removeGroup removes the cgroup of a checkpointed task, as somebody's clean-up would.
func (w *world) removeGroup(id string) {
	w.Helper()
	dirs := w.groupOf(id).Dirs()
	if len(dirs) == 0 {
		w.Fatal("the task has no cgroup")
	}
	for _, dir := range dirs {
		w.must(os.Remove(dir))
	}
}

// A task whose cgroup was removed while it was checkpointed gets it anew, with its
// limits.
func TestRestoreWithoutCgroup(t *testing.T) {
	for _, memoryFirst := range []bool{false, true} {
		t.Run(fmt.Sprintf("memoryFirst=%v", memoryFirst), func(t *testing.T) {
			w := newWorld(t).needCheckpoints().withCgroups(anyGroup)
			w.rt.MemoryFirst = memoryFirst
			s := w.spec("count", "python3", "-c", counter)
			s.Memory, s.PIDs = 64<<20, 57
			task := w.start(s)
			w.awaitOutput(task, "\n3 ")
			before := w.groupOf("count")
			w.checkpoint(task)
			w.removeGroup("count")
			task = w.restore(s, proc.RestoreOptions{})
			_, err := task.Suspend(w.ctx, 0)
			w.must(err)
			if after := w.groupOf("count"); after != before || !w.inGroup("count") {
				t.Errorf("after the restore its cgroup is %+v, and it is in it: %v; before, %+v", after, w.inGroup("count"), before)
			}
			if before.PIDs != "" {
				if b, err := os.ReadFile(filepath.Join(before.PIDs, "pids.max")); strings.TrimSpace(string(b)) != pidsMax(before, 57) {
					t.Errorf("pids.max is %q after the restore, %v", b, err)
				}
			}
			w.must(task.Resume(w.ctx))
			if e := w.end(task); e.Code != 9 {
				t.Errorf("ended with %+v, want code 9", e)
			}
			w.checkCounter("count")
		})
	}
}

// A task may have files of another cgroup open, which is gone when it comes back: of the daemon's, in which it was started.
func TestRestoreWithFileOfAnotherCgroup(t *testing.T) {
	w := newWorld(t).needCheckpoints().withCgroups(anyGroup)
	other, err := w.base.Make("other", cgroup.Limits{}, nil)
	w.must(err)
	w.Cleanup(func() { w.must(other.Remove()) })
	open := "kept = ["
	for _, dir := range other.Dirs() {
		open += fmt.Sprintf("open(%q), ", filepath.Join(dir, "cgroup.procs"))
	}
	s := w.spec("count", "python3", "-c", open+"]\n"+counter)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	w.checkpoint(task)
	w.must(other.Remove())
	if e := w.end(w.restore(s, proc.RestoreOptions{})); e.Code != 9 {
		t.Errorf("ended with %+v, want code 9", e)
	}
	w.checkCounter("count")
}

// No process of ours in a task has a file of a cgroup open: it may be another when the
// task comes back, or none.
func TestNoFileOfACgroup(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/sh", "-c", "echo ready; exec sleep 1000"))
	w.awaitOutput(task, "ready")
	command, err := linux.ProcFS("").Stat(w.taskPIDs("t")[0])
	w.must(err)
	for _, pid := range []int{command.PID, command.PPID} { // init is above it
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(open) == 0 {
			t.Fatalf("process %d has no descriptors, %v", pid, err)
		}
		for _, fd := range open {
			if to, err := os.Readlink(fd); err == nil && strings.Contains(to, "/cgroup/") {
				t.Errorf("process %d has %s open", pid, to)
			}
		}
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
}

// TestOutsideOfItsCgroup: what cannot be put into its cgroup runs, and says so.
func TestOutsideOfItsCgroup(t *testing.T) {
	w := newWorld(t).withCgroups(anyGroup)
	in := w.start(w.spec("in", "/bin/sh", "-c", "echo ready; exec sleep 1000"))
	w.awaitOutput(in, "ready")
	w.await("all of it in its cgroup", func() bool { return w.inGroup("in") })
	if st := w.stats(in); st.Outside != "" {
		t.Errorf("of what is in its cgroup: %s", st.Outside)
	}
	var dirs []string
	w.rt.Problem = func(id headrace.TaskID, err error) { // somebody removes what was just made
		w.must(err)
		dirs = w.groupOf(string(id)).Dirs()
		w.removeGroup(string(id))
	}
	out := w.start(w.spec("out", "/bin/sh", "-c", "echo ready; exec sleep 1000"))
	w.awaitOutput(out, "ready")
	for _, dir := range dirs {
		w.await("what is said of "+dir, func() bool { return strings.Contains(w.stats(out).Outside, "it is not in its cgroup "+dir+": ") })
	}
	for _, task := range []*proc.Task{in, out} {
		w.must(task.Kill(w.ctx, time.Millisecond))
	}
}

// Where the cgroup cannot be made anew the task goes on without, and says so, as its
// supervisor's log does.
func TestRestoreWhereNoCgroupCanBe(t *testing.T) {
	w := newWorld(t).needCheckpoints().withCgroups(anyGroup)
	s, task := w.counting()
	w.checkpoint(task)
	w.removeGroup("count")
	w.rt.Cgroups = nil // a daemon without the rights
	task = w.restore(s, proc.RestoreOptions{})
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	if st := w.stats(task); !strings.Contains(st.Outside, ": it was removed") {
		t.Errorf("after the restore it is said of its cgroup: %q", st.Outside)
	}
	w.must(task.Resume(w.ctx))
	if e := w.end(task); e.Code != 9 {
		t.Errorf("ended with %+v, want code 9", e)
	}
	w.checkCounter("count")
	if said := w.log("count", "shim.log"); !strings.Contains(said, "goes on without its cgroup") {
		t.Errorf("the log says %q", said)
	}
}

func TestMemoryLimit(t *testing.T) {
	w := newWorld(t).withCgroups(hasMemory)
	const waits = "import os, time\nwhile not os.path.exists(os.environ['GO_ON']): time.sleep(0.01)\n"
	s := w.spec("t", "python3", "-c", waits+"b = bytearray(400 << 20); print(len(b))")
	s.Memory = 64 << 20
	task := w.start(s)
	w.await("all of it in its cgroup", func() bool { return w.inGroup("t") })
	if e := w.end(task); !e.OutOfMemory || e.Signal != 9 {
		t.Errorf("ended with %+v", e)
	}
	s = w.spec("fits", "python3", "-c", "b = bytearray(40 << 20); print(len(b))")
	s.Memory = 64 << 20
	if e := w.end(w.start(s)); e.OutOfMemory || e.Code != 0 {
		t.Errorf("what fits ended with %+v", e)
	}
}

func TestPIDsLimit(t *testing.T) {
	w := newWorld(t).withCgroups(hasPIDs)
	s := w.spec("t", "/bin/bash", "-c", "until [ -e $GO_ON ]; do sleep 0.02; done; for i in {1..40}; do sleep 1000 & done; wait")
	s.PIDs = 16
	task := w.start(s)
	w.await("all of it in its cgroup", func() bool { return w.inGroup("t") })
	w.must(os.WriteFile(w.goOn(), nil, 0o644))
	w.await("the limit", func() bool { return strings.Contains(w.log("t", "stderr"), "Resource temporarily unavailable") })
	w.must(task.Kill(w.ctx, time.Millisecond))
}

func TestIOWeight(t *testing.T) {
	w := newWorld(t).withCgroups(anyGroup)
	w.rt.Problem = nil // where there is no weight the task runs all the same
	s := w.spec("t", "/bin/bash", "-c", "echo ready; read x < <(sleep 1000)")
	s.IOWeight = 300
	task := w.start(s)
	w.awaitOutput(task, "ready")
	w.await("all of it in its cgroup", func() bool { return w.inGroup("t") })
	g := w.groupOf("t")
	files, err := filepath.Glob(filepath.Join(g.IO, "*.weight"))
	w.must(err)
	if g.IO == "" || len(files) == 0 {
		t.Skipf("the kernel has no I/O weight for cgroups here: %+v", g)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		w.must(err)
		switch got := strings.TrimPrefix(strings.TrimSpace(string(b)), "default "); filepath.Base(file) {
		case "io.weight":
			if got != "300" {
				t.Errorf("%s is %q", file, got)
			}
		case "io.bfq.weight", "blkio.bfq.weight":
			if got != "118" { // 100 + 200 * 900 / 9900
				t.Errorf("%s is %q", file, got)
			}
		}
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
}

// Memory that processes share counts once, and is at most the peak.
func TestMemoryAddsUp(t *testing.T) {
	for _, group := range []bool{true, false} {
		t.Run(fmt.Sprintf("cgroup=%v", group), func(t *testing.T) {
			w := newWorld(t)
			if group {
				w.withCgroups(hasMemory)
			}
			s := w.spec("t", "python3", "-uc", `
import os, time
while not os.path.exists(os.environ["GO_ON"]): time.sleep(0.01)
b = bytearray(60 << 20)
for i in range(20):
    if os.fork() == 0: time.sleep(1000)
print("ready")
time.sleep(1000)
`)
			if group { // without a limit it has no memory cgroup
				s.Memory = 1 << 30
			}
			task := w.start(s)
			if group {
				w.await("all of it in its cgroup", func() bool { return w.inGroup("t") })
			}
			w.must(os.WriteFile(w.goOn(), nil, 0o644))
			w.awaitOutput(task, "ready")
			st := w.stats(task)
			if st.Resident < 60<<20 || st.Resident > 150<<20 || st.Resident > st.Usage.MaxResident {
				t.Errorf("%d bytes are resident, peak %d, of 60 MB that 21 processes share", st.Resident, st.Usage.MaxResident)
			}
		})
	}
}

// TestCPUShare: the kernel has the share of the processors that was asked for, for all of the task.
func TestCPUShare(t *testing.T) {
	w := newWorld(t).withCgroups(func(g cgroup.Group) bool { return g.CPU != "" })
	for id, share := range map[string]struct {
		cpus           float64
		weight, shares string
	}{"two": {2, "200", "2048"}, "half": {0.5, "50", "512"}} {
		s := w.spec(id, "/bin/sh", "-c", "sleep 1000 & echo ready; wait")
		s.CPUs = share.cpus
		task := w.start(s)
		w.awaitOutput(task, "ready")
		w.await("all of it in its cgroup", func() bool { return w.inGroup(id) })
		dir := w.groupOf(id).CPU
		got, err := os.ReadFile(filepath.Join(dir, "cpu.weight"))
		want := share.weight
		if errors.Is(err, os.ErrNotExist) {
			got, err = os.ReadFile(filepath.Join(dir, "cpu.shares"))
			want = share.shares
		}
		if err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("%v CPUs are a share of %q, %v, want %s", share.cpus, got, err, want)
		}
		w.must(task.Kill(w.ctx, time.Millisecond))
	}
}

// TestCgroupsBelowThatOfATask: what a task has made below its cgroup, and left when it was killed, neither keeps
// it from being started again nor from being removed.
func TestCgroupsBelowThatOfATask(t *testing.T) {
	w := newWorld(t).withCgroups(anyGroup)
	s := w.spec("t", "/bin/sh", "-c", "echo ready; sleep 1000")
	for range 2 {
		task := w.start(s)
		w.awaitOutput(task, "ready")
		for _, dir := range w.groupOf("t").Dirs() {
			w.must(os.MkdirAll(filepath.Join(dir, "below", "deep"), 0o755))
		}
		w.must(syscall.Kill(w.shimPID("t"), syscall.SIGKILL)) // which has then not removed anything
		w.end(task)
		w.must(w.rt.Reset(w.ctx, s))
	}
	w.must(w.rt.Remove(w.ctx, "t"))
	if left := w.groupOf("t").Dirs(); len(left) > 0 {
		t.Errorf("%v are still there", left)
	}
}
