package proc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/proc"
)

// brokenCRIUs do everything but their work. Each tells first that it runs.
var brokenCRIUs = map[string]struct {
	script string
	limit  time.Duration // its stall limit: it must be ended; else it ends by itself
}{
	"hangs":                            {"sleep 1000", 2 * time.Second},
	"hangs with children of its own":   {"setsid sh -c 'sleep 1000 & setsid sleep 1000 & wait' & wait", 2 * time.Second},
	"stops itself":                     {"kill -STOP $$; sleep 1000", 2 * time.Second},
	"computes for ever":                {"while :; do :; done", 400 * time.Millisecond}, // which it may ten times as long
	"dies by a signal":                 {"kill -SEGV $$", 0},
	"dies and leaves children behind":  {"setsid sleep 1000 & setsid sh -c 'sleep 1000 & wait' & sleep 0.1; kill -KILL $$", 0},
	"fails and leaves children behind": {"setsid sleep 1000 & sleep 0.1; exit 1", 0},
}

// withEach tries all of them at once, not so many as are parallel else: most of the time they wait for what
// a broken CRIU is given to put things in order.
func withEach(t *testing.T, try func(t *testing.T, script string, limit time.Duration)) {
	var all sync.WaitGroup
	for name, c := range brokenCRIUs {
		all.Go(func() { t.Run(name, func(t *testing.T) { try(t, c.script, c.limit) }) })
	}
	all.Wait()
}

// withCRIU has the next supervisors run a script instead of CRIU, and returns the file
// that is there when it has run.
func (w *world) withCRIU(script string) (begun string) {
	w.Helper()
	dir := w.TempDir()
	begun = filepath.Join(dir, "begun")
	w.rt.CRIU = filepath.Join(dir, "criu")
	w.must(os.WriteFile(w.rt.CRIU, fmt.Appendf(nil, "#!/bin/sh\n: >%s\n%s\n", begun, script), 0o755))
	return begun
}

// endShim ends a supervisor, so that the next one is a new one.
func (w *world) endShim(id headrace.TaskID) {
	w.Helper()
	w.must(unix.Kill(w.shimPID(string(id)), syscall.SIGKILL))
	w.await("the end of the shim", func() bool { _, err := w.rt.Attach(w.ctx, id); return errors.Is(err, proc.ErrGone) })
}

// onlyTheTask checks that nothing runs below the supervisor but the task: init, and as
// many processes as it has itself.
func (w *world) onlyTheTask(id headrace.TaskID, processes int) {
	w.Helper()
	shim := w.shimPID(string(id))
	var left []string
	entries, err := filepath.Glob("/proc/[0-9]*/status")
	w.must(err)
	ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid_for_children", shim))
	w.must(err)
	for _, e := range entries {
		dir := filepath.Dir(e)
		if got, err := os.Readlink(dir + "/ns/pid"); err != nil || got != ns || dir == fmt.Sprintf("/proc/%d", shim) {
			continue
		}
		if b, err := os.ReadFile(dir + "/cmdline"); err == nil && len(b) > 0 {
			left = append(left, strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	if len(left) != processes {
		w.Errorf("%d processes run, want %d: %q", len(left), processes, left)
	}
}

// A CRIU that hangs at a dump, or dies in the middle, is ended with all that it has
// started; the task goes on.
func TestDumpThatMakesNoProgress(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, script string, limit time.Duration) {
		w := newWorld(t).needCheckpoints()
		w.rt.StallLimit = limit
		w.withCRIU(script)
		task := w.start(w.spec("calm", "/bin/sh", "-c", "read x </proc/self/stat; while :; do sleep 0.01; echo x; done"))
		w.awaitOutput(task, "x\n")
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		if err == nil || errors.Is(err, proc.ErrStalled) != (limit > 0) {
			t.Errorf("the dump: %v", err)
		}
		before := strings.Count(w.log("calm", "stdout"), "x")
		w.awaitOutput(task, strings.Repeat("x\n", before+10))
		_, err = task.Suspend(w.ctx, 0)
		w.must(err)
		w.onlyTheTask("calm", w.stats(task).Processes+1)
	})
}

// The same at a restore: nothing is left of it, the checkpoint is as good as before,
// and the real CRIU brings the task back.
func TestRestoreThatMakesNoProgress(t *testing.T) {
	t.Parallel()
	withEach(t, func(t *testing.T, script string, limit time.Duration) {
		w := newWorld(t).needCheckpoints()
		real := w.rt.CRIU
		s, task := w.counting()
		w.checkpoint(task)
		task.Close()
		w.endShim("count")
		w.rt.StallLimit = limit
		w.withCRIU(script)
		_, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
		if err == nil || errors.Is(err, proc.ErrStalled) != (limit > 0) || errors.Is(err, proc.ErrNoImage) {
			t.Errorf("the restore: %v", err)
		}
		w.onlyTheTask("count", 0)
		w.endShim("count")
		w.rt.CRIU, w.rt.StallLimit = real, 0
		w.end(w.restore(s, proc.RestoreOptions{}))
		w.checkCounter("count")
	})
}

// TestRestoreInAShortage: what CRIU had too little of may be there the next time.
func TestRestoreInAShortage(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	real := w.rt.CRIU
	s, task := w.counting()
	w.checkpoint(task)
	task.Close()
	w.endShim("count")
	w.withCRIU(`echo "Error (criu/cr-restore.c:1): Can't fork for 1000: Resource temporarily unavailable" >&2
exit 1`)
	if _, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store}); !errors.Is(err, proc.ErrNotNow) {
		t.Errorf("the restore: %v, want ErrNotNow", err)
	}
	w.endShim("count")
	w.rt.CRIU = real
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
}

// A kill ends what is being done to a task, without waiting for its limits, which are longer than the test may take.
func TestKillOfWhatHangs(t *testing.T) {
	t.Parallel()
	const hangs = "setsid sleep 1000 & sleep 1000"
	t.Run("dump", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).needCheckpoints()
		w.rt.StallLimit = time.Hour
		begun := w.withCRIU(hangs)
		task := w.start(w.spec("t", "sleep", "1000"))
		failed := make(chan error, 1)
		go func() {
			_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
			failed <- err
		}()
		w.await("the dump", func() bool { _, err := os.Stat(begun); return err == nil })
		w.killed(task)
		if err := <-failed; !errors.Is(err, proc.ErrGone) {
			t.Errorf("the dump: %v", err)
		}
	})
	t.Run("restore", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t).needCheckpoints()
		s := w.spec("t", "sleep", "1000")
		w.checkpoint(w.start(s))
		w.endShim("t")
		w.rt.StallLimit = time.Hour
		begun := w.withCRIU(hangs)
		go w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
		w.await("the restore", func() bool { _, err := os.Stat(begun); return err == nil })
		shim := w.shimPID("t")
		w.must(w.rt.End(w.ctx, "t"))
		w.await("the end of the namespace", func() bool { return unix.Kill(shim, 0) != nil })
	})
	t.Run("suspend with a long grace", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		task := w.start(w.spec("t", "/bin/sh", "-c", "trap : TSTP; echo ready; while :; do sleep 0.1; done"))
		w.awaitOutput(task, "ready")
		failed := make(chan error, 1)
		go func() { _, err := task.Suspend(w.ctx, time.Hour); failed <- err }()
		w.killed(task)
		if err := <-failed; err == nil {
			t.Error("it was suspended")
		}
	})
	t.Run("kill with a long grace", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		task := w.start(w.spec("t", "/bin/sh", "-c", "trap 'echo told' TERM; echo ready; while :; do sleep 0.1; done"))
		w.awaitOutput(task, "ready")
		first := make(chan error, 1)
		go func() { first <- task.Kill(w.ctx, time.Hour) }()
		w.awaitOutput(task, "told")
		longer := make(chan error, 1)
		go func() { longer <- task.Kill(w.ctx, 2*time.Hour) }()
		w.killed(task)
		w.must(<-first)
		w.must(<-longer)
	})
	t.Run("start that waits for a pipe", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := w.spec("waits-for-a-pipe", "true")
		s.Output = filepath.Join(t.TempDir(), "fifo")
		w.must(unix.Mkfifo(s.Output, 0o600))
		ctx, cancel := context.WithCancel(w.ctx)
		failed := make(chan error, 1)
		go func() { _, err := w.rt.Start(ctx, s); failed <- err }()
		w.await("the supervisor", func() bool { return len(w.taskProcesses("waits-for-a-pipe")) > 0 })
		cancel()
		if err := <-failed; err == nil {
			t.Error("it has started")
		}
		w.must(w.rt.End(w.ctx, "waits-for-a-pipe")) // until then it is left to its supervisor
		if n := len(w.taskProcesses("waits-for-a-pipe")); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
	t.Run("task with a tracer that stands still", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		task := w.start(w.spec("traced", "/bin/sh", "-c", "sleep 1000 & echo ready; wait"))
		w.awaitOutput(task, "ready")
		for _, pid := range w.taskPIDs("traced") {
			seize(t, pid, func() { <-t.Context().Done() }) // before the clean-up
		}
		w.killed(task)
	})
	t.Run("tracer that keeps it from ending", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if os.Geteuid() != 0 {
			t.Skip("tasks of other users need root")
		}
		s := w.spec("kept", "/bin/sh", "-c", "echo ready; exec sleep 1000")
		s.UID, s.GID = otherUser, otherUser
		task := w.start(s)
		w.awaitOutput(task, "ready")
		w.traceAsUser(w.taskPIDs("kept")[0], unix.PTRACE_O_TRACEEXIT)
		w.killed(task)
	})
	t.Run("tracer of what is in a namespace of its own", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		if os.Geteuid() != 0 {
			t.Skip("tasks of other users need root")
		}
		s := w.spec("nested", "unshare", "-Ur", "--pid", "--fork", "sleep", "1000")
		s.UID, s.GID = otherUser, otherUser
		task := w.start(s)
		within := func() int {
			for _, p := range w.taskProcesses("nested") {
				if p.Comm == "sleep" {
					return p.PID
				}
			}
			return 0
		}
		w.await("the namespace", func() bool {
			select {
			case <-task.Exited():
				t.Skipf("users may not make namespaces here: %+v, %s", task.Exit(), w.log("nested", "stderr"))
			default:
			}
			return within() != 0
		})
		w.traceAsUser(within(), unix.PTRACE_O_TRACEEXIT)
		w.killed(task)
	})
	t.Run("supervisor that stands still", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		task := w.start(w.spec("stands-still", "sleep", "1000"))
		w.must(unix.Kill(w.shimPID("stands-still"), unix.SIGSTOP))
		if err := task.KillWithin(w.ctx, time.Millisecond, time.Second); err != nil {
			t.Error(err)
		}
		if e := w.end(task); !e.Lost {
			t.Errorf("ended with %+v", e)
		}
		if n := len(w.taskProcesses("stands-still")); n != 0 {
			t.Errorf("%d processes are left", n)
		}
	})
}

// TestKillOfWhatDoesNotEnd: a kill says that something does not end, and does not wait for that. The end is told when nothing runs any more.
func TestKillOfWhatDoesNotEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	for what, c := range map[string]struct {
		stands bool
		says   string
		end    proc.Exit
	}{
		"with its supervisor":           {false, "(cat)", proc.Exit{Code: 137, Signal: 9}},
		"with a supervisor that stands": {true, "the supervisor is still there", proc.Exit{Code: 137, Signal: 9, Lost: true}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			dir := t.TempDir()
			asked, fail := testkit.LostFS(t, dir)
			task := w.start(w.spec("waits", "cat", filepath.Join(dir, "file")))
			select {
			case <-asked:
			case <-w.ctx.Done():
				t.Fatal("it does not ask for the file")
			}
			patience := time.Minute
			if c.stands {
				w.stands("waits")
				patience = time.Second
			}
			if err := task.KillWithin(w.ctx, time.Millisecond, patience); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the kill: %v, want %q", err, c.says)
			}
			select {
			case <-task.Exited():
				t.Errorf("its end was told while something of it was left: %+v", task.Exit())
			default:
			}
			if n := len(w.taskProcesses("waits")); n == 0 {
				t.Error("nothing is left of it")
			}
			fail()
			e := w.end(task)
			if e.Code != c.end.Code || e.Signal != c.end.Signal || e.Lost != c.end.Lost {
				t.Errorf("ended with %+v", e)
			}
			if n := len(w.taskProcesses("waits")); n != 0 {
				t.Errorf("%d processes are left", n)
			}
		})
	}
}

// stands has a supervisor stand still, until the function is called that it returns.
func (w *world) stands(id headrace.TaskID) (goOn func()) {
	w.Helper()
	pid := w.shimPID(string(id))
	w.must(unix.Kill(pid, unix.SIGSTOP))
	w.await("it to stand still", func() bool { p, err := linux.ProcFS("").Stat(pid); return err == nil && linux.Stopped(p.State) })
	return func() { w.must(unix.Kill(pid, unix.SIGCONT)) }
}

// TestSupervisorThatStandsStill: whoever asks a supervisor for something, and gets no answer, is told so. What was asked is done, once, when
// the supervisor goes on, also in the middle of it.
func TestSupervisorThatStandsStill(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	told := make(chan error, 1000)
	w.rt.Patience, w.rt.Silent = time.Second, func(_ headrace.TaskID, err error) { told <- err }
	until := func(what string, is func(error) bool) {
		t.Helper()
		for {
			select {
			case err := <-told:
				if is(err) {
					return
				}
				t.Logf("%s: it is told %v", what, err) // on a busy machine
			case <-w.ctx.Done():
				t.Fatalf("%s: nobody is told", what)
			}
		}
	}
	real, dir := w.rt.CRIU, w.TempDir()
	at, goOn := filepath.Join(dir, "at"), filepath.Join(dir, "go-on")
	w.rt.CRIU = filepath.Join(dir, "criu")
	w.must(os.WriteFile(w.rt.CRIU, fmt.Appendf(nil, "#!/bin/sh\n: >%s\nuntil [ -e %s ]; do sleep 0.02; done\nexec %s \"$@\"\n", at, goOn, real), 0o755))
	s, task := w.counting()
	quiet := &proc.Runtime{Shim: w.rt.Shim, Dir: w.rt.Dir, Patience: time.Second}
	attach := func() { // it gives up
		defer w.stands("count")()
		if _, err := quiet.Attach(w.ctx, "count"); !errors.Is(err, proc.ErrNoAnswer) {
			t.Errorf("attach: %v", err)
		}
	}
	attach()
	restored := task
	for _, c := range []struct {
		what string
		in   bool // in the middle of it, else before
		ask  func() error
		then headrace.TaskState
	}{
		{"suspend", false, func() error { _, err := task.Suspend(w.ctx, time.Millisecond); return err }, headrace.Suspended},
		{"pageout", false, func() error { _, err := task.PageOut(w.ctx, 1<<20); return err }, headrace.Suspended},
		{"resume", false, func() error { return task.Resume(w.ctx) }, headrace.Running},
		{"pagein", false, func() error { _, err := task.PageIn(w.ctx); return err }, headrace.Running},
		{"checkpoint", false, func() error { _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); return err }, headrace.Checkpointed},
		{"restore", false, func() (err error) {
			restored, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
			return err
		}, headrace.Running},
		{"checkpoint", true, func() error { _, err := restored.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); return err }, headrace.Checkpointed},
		{"restore", true, func() (err error) {
			restored, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
			return err
		}, headrace.Running},
	} {
		os.Remove(at)
		os.Remove(goOn)
		answer := make(chan error, 1)
		ask := func() { go func() { answer <- c.ask() }() }
		if c.in {
			ask()
			w.await("CRIU", func() bool { _, err := os.Stat(at); return err == nil })
		}
		goes := w.stands("count")
		if !c.in {
			ask()
		}
		until(c.what+", asked of nobody", func(err error) bool {
			return errors.Is(err, proc.ErrNoAnswer) && strings.Contains(err.Error(), c.what+" task count: ")
		})
		w.must(os.WriteFile(goOn, nil, 0o600))
		goes()
		until(c.what+", when it goes on", func(err error) bool { return err == nil })
		if err := <-answer; err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		if st := w.stats(restored); st.State != c.then {
			t.Errorf("after %s it is %v", c.what, st.State)
		}
	}
	w.end(restored)
	w.checkCounter("count")
}

// traceAsUser has a process of the other user trace another, and take no note of what becomes
// of that.
func (w *world) traceAsUser(pid, options int) {
	w.Helper()
	tracer := exec.Command("/usr/bin/python3", "-uc", `
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(0x4206, int(sys.argv[1]), None, int(sys.argv[2])) != 0: # PTRACE_SEIZE
    sys.exit("ptrace: error %d" % ctypes.get_errno())
print("has it")
sys.stdin.read()`, fmt.Sprint(pid), fmt.Sprint(options))
	tracer.Dir = "/"
	tracer.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: otherUser, Gid: otherUser}}
	out, _ := testkit.Converse(w, tracer)
	if said, err := out.ReadString('\n'); err != nil || said != "has it\n" {
		w.Skipf("users may not trace their processes here: %q, %v", said, err)
	}
}

// haltsAfterDump has CRIU say, by a file that is there then, that it has dumped and let the task go, and wait for another
// file before it ends.
func (w *world) haltsAfterDump() (dumped, goOn string) {
	w.Helper()
	real := w.rt.CRIU
	goOn = filepath.Join(w.TempDir(), "go")
	dumped = w.withCRIU("")
	w.must(os.WriteFile(w.rt.CRIU, fmt.Appendf(nil, `#!/bin/sh
[ $1 = dump ] || exec %s "$@"
%[1]s "$@"
code=$?
: >%s
until [ -e %s ]; do sleep 0.02; done
exit $code
`, real, dumped, goOn), 0o755))
	return dumped, goOn
}

// TestKillThatGaveUp: a kill comes while the processes of a checkpoint that is committed take long to end, and says that they
// do not. When they have ended after all, the task has.
func TestKillThatGaveUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	dumped, goOn := w.haltsAfterDump()
	task := w.start(w.spec("slow-to-end", "/bin/sh", "-c", "echo ready; exec sleep 1000"))
	w.awaitOutput(task, "ready")
	go task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	w.await("the dump", func() bool { _, err := os.Stat(dumped); return err == nil })
	command := w.taskProcesses("slow-to-end")[0]
	released := make(chan struct{})
	release := sync.OnceFunc(func() { close(released) })
	seizeWith(t, command.PID, unix.PTRACE_O_TRACEEXIT, func() { <-released })
	t.Cleanup(release)
	w.must(os.WriteFile(goOn, nil, 0o600))
	w.await("the end of init", func() bool { _, err := linux.ProcFS("").Stat(command.PPID); return linux.Gone(err) })
	if err := task.Kill(w.ctx, time.Millisecond); err == nil {
		t.Fatal("it was killed while its tracer held it")
	}
	release()
	if e := w.end(task); e.Signal != int(unix.SIGKILL) || e.Lost {
		t.Errorf("ended with %+v", e)
	}
}

// A tracer that comes when CRIU has let the task go, and takes no note of its end, does not keep
// the checkpoint from coming to an end; one of the task's user does not keep it from a restore.
func TestTracerThatComesWhileCheckpointed(t *testing.T) {
	for _, user := range []uint32{0, otherUser} {
		t.Run(fmt.Sprint("of user ", user), func(t *testing.T) {
			t.Parallel()
			if user != 0 {
				needSysResource(t)
			}
			w := newWorld(t).needCheckpoints()
			dumped, goOn := w.haltsAfterDump()
			s := w.spec("traced", "/bin/sh", "-c", "echo ready; while :; do sleep 0.1; done")
			s.UID, s.GID = user, user
			task := w.start(s)
			w.awaitOutput(task, "ready")
			done := make(chan error, 1)
			go func() {
				_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
				done <- err
			}()
			w.await("the dump", func() bool { _, err := os.Stat(dumped); return err == nil })
			pid := slices.Min(w.taskPIDs("traced"))
			if user == 0 {
				seize(t, pid, func() { <-t.Context().Done() }) // before the clean-up
			} else {
				w.traceAsUser(pid, 0)
			}
			w.must(os.WriteFile(goOn, nil, 0o600))
			select {
			case err := <-done:
				w.must(err)
			case <-w.ctx.Done():
				t.Fatal("the checkpoint does not come to an end")
			}
			if user == 0 {
				w.killed(task)
				return
			}
			if _, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store}); err == nil {
				t.Error("its pid was free")
			}
			w.restore(s, proc.RestoreOptions{})
		})
	}
}

// killed kills a task, without giving its supervisor up.
func (w *world) killed(task *proc.Task) {
	w.Helper()
	w.must(task.Kill(w.ctx, time.Millisecond))
	if e := w.end(task); e.Signal == 0 {
		w.Errorf("ended with %+v", e)
	}
}

// A supervisor that nobody needs goes, and only that; the task can be restored by
// another.
func TestDismiss(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	s, task := w.counting()
	if err := task.Dismiss(w.ctx); !errors.Is(err, proc.ErrState) {
		t.Errorf("of a running task: %v, want ErrState", err)
	}
	w.checkpoint(task)
	w.must(task.Dismiss(w.ctx))
	w.must(task.Dismiss(w.ctx))
	w.end(task)
	if _, ok, err := w.rt.ExitOf("count"); ok || err != nil {
		t.Errorf("an end was recorded: %v", err)
	}
	w.end(w.restore(s, proc.RestoreOptions{}))
	w.checkCounter("count")
}

// The real CRIU, stopped in the middle of a dump, with its hands in the task's
// processes: it is ended, and the task goes on, or is known to be lost.
func TestRealCRIUStopsInTheMiddle(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	w.rt.StallLimit = 2 * time.Second
	real := w.rt.CRIU
	w.withCRIU(fmt.Sprintf(`[ $1 != dump ] || ( (sleep 0.$(($$ %% 10))5; kill -STOP $$) & ) # twice: CRIU does not expect children
exec %s "$@"`, real))
	s := w.spec("count", "python3", "-c", "import time\nmemory = bytearray(b'x' * (200 << 20))\nfor n in range(1 << 30): print(n, flush=True); time.sleep(0.01)")
	task := w.start(s)
	for range 5 {
		w.awaitOutput(task, "\n1\n")
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store, Full: true})
		t.Log(err)
		if err == nil {
			_, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
			for errors.Is(err, proc.ErrStalled) { // the machine may be that busy
				_, _, err = w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
			}
			w.must(err)
			continue
		}
		if !errors.Is(err, proc.ErrStalled) {
			t.Fatalf("the dump: %v", err)
		}
		lines := strings.Count(w.log("count", "stdout"), "\n")
		goesOn := func() bool { return strings.Count(w.log("count", "stdout"), "\n") > lines+5 }
		w.await("its going on, or its end", func() bool {
			select {
			case <-task.Exited():
				return true
			default:
				return goesOn()
			}
		})
		if !goesOn() {
			if e := w.end(task); !e.Lost {
				t.Errorf("ended with %+v, and it is not lost", e)
			}
			return
		}
	}
}
