package proc_test

import (
	"context"
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
	"headrace/internal/crash"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/internal/testkit"
	"headrace/proc"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }

// world is a place for tasks.
type world struct {
	*testing.T
	rt    *proc.Runtime
	base  *cgroup.Base // of its tasks' cgroups; nil: they have none
	store string
	ctx   context.Context
	begun time.Duration // after boot; none of its tasks is older
}

// patience is how long a test may take in its world: the machine may be busy.
const patience = 4 * time.Minute

func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "headrace-world")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, begun: linux.Clock(), store: filepath.Join(dir, "store"), rt: &proc.Runtime{Shim: testkit.Shim(t), Dir: filepath.Join(dir, "tasks")}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w.ctx = ctx
	t.Cleanup(func() {
		defer cancel()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		names, _ := os.ReadDir(w.rt.Dir)
		for _, n := range names {
			if t.Failed() {
				w.showLogs(filepath.Join(w.rt.Dir, n.Name()))
			}
			if err := w.rt.Remove(ctx, headrace.TaskID(n.Name())); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
		w.base.Close()
		os.RemoveAll(dir)
	})
	return w
}

func (w *world) showLogs(dir string) {
	for _, f := range []string{"shim.log", "dump.log", "restore.log", "stdout", "stderr"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err == nil && len(b) > 0 {
			w.Logf("%s/%s:\n%s", filepath.Base(dir), f, b[max(0, len(b)-2500):])
		}
	}
}

// needCheckpoints gives the world CRIU, or skips the test with the reason.
func (w *world) needCheckpoints() *world {
	w.Helper()
	if os.Geteuid() != 0 {
		w.Skip("checkpoints need root")
	}
	c, err := criu.Find()
	if err != nil {
		w.Skipf("checkpoints need CRIU: %v", err)
	}
	w.rt.CRIU = c.Path
	return w
}

func (w *world) spec(id string, argv ...string) proc.Spec {
	return proc.Spec{
		ID: headrace.TaskID(id), Argv: argv, Cwd: "/", Umask: 0o22,
		Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LANG=C.UTF-8", "GO_ON=" + w.goOn()},
		UID: uint32(os.Getuid()), GID: uint32(os.Getgid()),
	}
}

// goOn is a file that commands wait for which must not end before the test has done with them what it is about,
// however slow the machine is: end makes it. They find its name in $GO_ON.
func (w *world) goOn() string { return filepath.Join(filepath.Dir(w.store), "go-on") }

func (w *world) start(s proc.Spec) *proc.Task {
	w.Helper()
	t, err := w.rt.Start(w.ctx, s)
	if err != nil {
		w.Fatal(err)
	}
	return t
}

// counting starts a task that counts, and returns when it has come to three.
func (w *world) counting() (proc.Spec, *proc.Task) {
	w.Helper()
	s := w.spec("count", "python3", "-c", counter)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	return s, task
}

// end has a task end, if it waits for that, and returns how.
func (w *world) end(t *proc.Task) proc.Exit {
	w.Helper()
	w.must(os.WriteFile(w.goOn(), nil, 0o644))
	defer os.Remove(w.goOn())
	select {
	case <-t.Exited():
		return t.Exit()
	case <-w.ctx.Done():
		w.Fatalf("task %s does not end", t.ID)
		return proc.Exit{}
	}
}

func (w *world) log(id headrace.TaskID, name string) string {
	w.Helper()
	b, err := os.ReadFile(filepath.Join(w.rt.TaskDir(id), name))
	if err != nil {
		w.Fatal(err)
	}
	return string(b)
}

// awaitOutput polls until the task's standard output holds the text.
func (w *world) awaitOutput(t *proc.Task, text string) {
	w.Helper()
	w.await("output "+text, func() bool {
		if strings.Contains(w.log(t.ID, "stdout"), text) {
			return true
		}
		select {
		case <-t.Exited():
			w.Fatalf("the task ended before it printed %q: %+v", text, t.Exit())
		default:
		}
		return false
	})
}

func (w *world) await(what string, ok func() bool) {
	w.Helper()
	testkit.Await(w, what, ok)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) stats(t *proc.Task) proc.Stats {
	w.Helper()
	st, err := t.Stats(w.ctx)
	w.must(err)
	return st
}

func TestExit(t *testing.T) {
	w := newWorld(t)
	for i, c := range []struct {
		sh     string
		code   int
		signal int
		out    string
	}{
		{"echo hello; exit 0", 0, 0, "hello\n"},
		{"exit 7", 7, 0, ""},
		{"exit 137", 137, 0, ""},
		{"kill -9 $$", 137, 9, ""},
		{"kill -SEGV $$", 139, 11, ""},
		{"echo $HEADRACE_TASK_ID; umask", 0, 0, "t5\n0022\n"},
	} {
		task := w.start(w.spec(fmt.Sprintf("t%d", i), "/bin/sh", "-c", c.sh))
		e := w.end(task)
		if e.Code != c.code || e.Signal != c.signal || e.Lost || e.StartError != "" {
			t.Errorf("%q ended with %+v, want code %d signal %d", c.sh, e, c.code, c.signal)
		}
		if got := w.log(task.ID, "stdout"); got != c.out {
			t.Errorf("%q printed %q, want %q", c.sh, got, c.out)
		}
		if again, ok, err := w.rt.ExitOf(task.ID); err != nil || !ok || again.Code != c.code {
			t.Errorf("%q: record of the end: %+v, %v, %v", c.sh, again, ok, err)
		}
	}
}

func TestCannotStart(t *testing.T) {
	w := newWorld(t)
	plain := filepath.Join(t.TempDir(), "plain")
	w.must(os.WriteFile(plain, []byte("not a program"), 0o644))
	noShebang := filepath.Join(t.TempDir(), "script")
	w.must(os.WriteFile(noShebang, []byte("echo fine\n"), 0o755))
	for i, c := range []struct {
		argv []string
		cwd  string
		code int
		text string
	}{
		{[]string{"no-such-command"}, "/", 127, "not found in PATH"},
		{[]string{"/no/such/command"}, "/", 127, "no such file"},
		{[]string{plain}, "/", 126, "no permission"},
		{[]string{"true"}, "/no/such/dir", 126, "/no/such/dir"},
		{[]string{noShebang}, "/", 0, ""},
	} {
		s := w.spec(fmt.Sprintf("t%d", i), c.argv...)
		s.Cwd = c.cwd
		e := w.end(w.start(s))
		if e.Code != c.code || !strings.Contains(e.StartError, c.text) || (c.text == "") != (e.StartError == "") {
			t.Errorf("%v in %s: %+v, want code %d and %q", c.argv, c.cwd, e, c.code, c.text)
		}
	}
	s := w.spec("out", "true")
	s.Output = "/no/such/dir/file"
	if e := w.end(w.start(s)); e.Code != 126 || !strings.Contains(e.StartError, s.Output) {
		t.Errorf("output that cannot be opened: %+v", e)
	}
	s = w.spec("in", "true")
	s.Stdin = "/no/such/file"
	if e := w.end(w.start(s)); e.Code != 126 || !strings.Contains(e.StartError, s.Stdin) {
		t.Errorf("input that cannot be opened: %+v", e)
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	w.must(os.WriteFile(in, []byte("from a file\n"), 0o644))
	w.must(os.WriteFile(out, []byte("before\n"), 0o644))
	s := w.spec("t", "/bin/sh", "-c", "cat; echo error >&2; pwd")
	s.Stdin, s.Output, s.Cwd = in, out, "/usr"
	w.end(w.start(s))
	check := func(want string) {
		t.Helper()
		if b, _ := os.ReadFile(out); string(b) != want {
			t.Errorf("output is %q, want %q", b, want)
		}
	}
	check("before\nfrom a file\nerror\n/usr\n")
	w.must(w.rt.Reset(w.ctx, s))
	check("before\n")
	w.end(w.start(s))
	check("before\nfrom a file\nerror\n/usr\n")
}

func TestSuspendResume(t *testing.T) {
	w := newWorld(t)
	// A tree: a shell, a pipeline, a background child, one that ignores SIGTSTP.
	task := w.start(w.spec("t", "/bin/bash", "-c",
		`trap '' TSTP; (while :; do :; done) & p=$!; yes | cat >/dev/null & q=$!; echo ready; sleep 1000 & wait $!`))
	w.awaitOutput(task, "ready")
	for range 3 {
		res, err := task.Suspend(w.ctx, 0)
		w.must(err)
		if res.Processes < 4 {
			t.Errorf("only %d processes were stopped", res.Processes)
		}
		a := w.stats(task)
		if a.State != headrace.Suspended {
			t.Fatalf("state %v", a.State)
		}
		b := w.stats(task)
		if used := b.Usage.User + b.Usage.System - a.Usage.User - a.Usage.System; used != 0 {
			t.Errorf("a suspended tree used %v of processor time", used)
		}
		if b.Usage.Running != a.Usage.Running {
			t.Errorf("the running time of a suspended task grew by %v", b.Usage.Running-a.Usage.Running)
		}
		if _, err := task.Suspend(w.ctx, 0); !errors.Is(err, proc.ErrState) {
			t.Errorf("suspending twice: %v", err)
		}
		w.must(task.Resume(w.ctx))
		w.await("processor time after the resume", func() bool {
			c := w.stats(task)
			return c.Usage.User > b.Usage.User
		})
	}
	w.must(task.Kill(w.ctx, 10*time.Millisecond))
	if e := w.end(task); e.Signal == 0 {
		t.Errorf("ended with %+v", e)
	}
}

func TestSuspendRunsHandlers(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "python3", "-uc", `
import signal, os, time
def stop(s, f):
    time.sleep(0.02); print("closing connections")
    os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGTSTP, stop)
signal.signal(signal.SIGCONT, lambda s, f: print("opening connections"))
print("ready")
while True: time.sleep(0.01)
`))
	w.awaitOutput(task, "ready")
	res, err := task.Suspend(w.ctx, time.Minute)
	w.must(err)
	if out := w.log(task.ID, "stdout"); !strings.Contains(out, "closing") || res.Forced != 0 {
		t.Errorf("the handler had no time: %q, %+v", out, res)
	}
	w.must(task.Resume(w.ctx))
	w.awaitOutput(task, "opening connections")
}

// A handler may run programs: none of them is stopped under it.
func TestSuspendRunsProgramsOfHandlers(t *testing.T) {
	w := newWorld(t)
	const rounds, programs = 3, 40
	task := w.start(w.spec("t", "/bin/bash", "-c", fmt.Sprintf(`
tidy() { for ((i = 0; i < %d; i++)); do /bin/true; done; echo tidy; trap - TSTP; }
for ((;;)); do trap tidy TSTP; echo ready; sleep 1000 & wait $!; wait $!; done`, programs)))
	for round := range rounds {
		w.await("the handler to be set", func() bool { return strings.Count(w.log("t", "stdout"), "ready") == round+1 })
		res, err := task.Suspend(w.ctx, 3*time.Minute)
		w.must(err)
		if n := strings.Count(w.log("t", "stdout"), "tidy"); n != round+1 || res.Forced != 0 {
			t.Fatalf("round %d: the handler has ended %d times, %+v", round, n, res)
		}
		w.must(task.Resume(w.ctx))
		// If the signal was there first, it has not begun to wait when it goes on.
		w.await("the program that it waits for", func() bool {
			for _, p := range w.taskProcesses("t") {
				if p.Comm == "sleep" {
					w.must(unix.Kill(p.PID, unix.SIGTERM))
					return true
				}
			}
			return false
		})
	}
}

// A parent that does not come to stand, for it waits for a processor say, costs its
// child no handler.
func TestSuspendAsksBelowWhatDoesNotStand(t *testing.T) {
	w := newWorld(t).withCgroups(hasFreezer)
	task := w.start(w.spec("t", "/bin/sh", "-c", `python3 -uc '
import signal, os, time
def stop(s, f):
    print("closing")
    os.kill(os.getpid(), signal.SIGSTOP)
signal.signal(signal.SIGTSTP, stop)
print("ready")
while True: time.sleep(0.01)
'; :`))
	w.awaitOutput(task, "ready")
	find := func(comm string) linux.Stat {
		for _, p := range w.taskProcesses("t") {
			if strings.HasPrefix(p.Comm, comm) {
				return p
			}
		}
		t.Fatalf("there is no %s", comm)
		return linux.Stat{}
	}
	held, err := w.base.Make("held", cgroup.Limits{}, nil)
	w.must(err)
	w.must(cgroup.Add(held.Freezer, find("sh").PID))
	frozen, err := held.Freeze()
	if err != nil || !frozen {
		t.Fatalf("frozen %t, %v", frozen, err)
	}
	type outcome struct {
		res proc.SuspendResult
		err error
	}
	ended := make(chan outcome, 1)
	go func() {
		res, err := task.Suspend(w.ctx, time.Minute)
		ended <- outcome{res, err}
	}()
	shell := fmt.Sprintf("/proc/%d/status", find("sh").PID)
	w.await("the stop of the shell, which is pending", func() bool {
		b, err := os.ReadFile(shell)
		w.must(err)
		return !strings.Contains(string(b), "ShdPnd:\t0000000000000000")
	})
	for until := time.Now().Add(300 * time.Millisecond); time.Now().Before(until) && find("python").State != 'T'; {
		time.Sleep(5 * time.Millisecond) // nothing must happen meanwhile
	}
	w.must(held.Thaw())
	got := <-ended
	w.must(got.err)
	if out := w.log("t", "stdout"); !strings.Contains(out, "closing") || got.res.Forced != 0 {
		t.Errorf("the handler was not run: %q, %+v", out, got.res)
	}
	w.must(task.Kill(w.ctx, time.Millisecond))
	w.end(task)
	w.must(held.Remove())
}

func TestSuspendForkStorm(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/bash", "-c", `echo ready; while :; do for i in 1 2 3 4 5; do /bin/true & done; wait; done`))
	w.awaitOutput(task, "ready")
	for range 5 {
		_, err := task.Suspend(w.ctx, 0)
		w.must(err)
		w.must(task.Resume(w.ctx))
	}
	w.must(task.Kill(w.ctx, 10*time.Millisecond))
	w.end(task)
}

// A process that the task itself has stopped stays so after a resume.
func TestResumeKeepsOwnStops(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("own", "/bin/bash", "-c", `sleep 1000 & kill -STOP $!; echo ready $!; while :; do :; done`))
	w.awaitOutput(task, "ready")
	stoppedSleeps := func() (n int) {
		for _, p := range w.taskProcesses("own") {
			if p.State == 'T' {
				n++
			}
		}
		return n
	}
	w.await("the task's own stop", func() bool { return stoppedSleeps() == 1 })
	_, err := task.Suspend(w.ctx, 0)
	w.must(err)
	w.must(task.Resume(w.ctx))
	before := w.stats(task).Usage.User
	w.await("progress", func() bool { return w.stats(task).Usage.User > before })
	if stoppedSleeps() != 1 {
		t.Error("the resume continued a process that the task had stopped")
	}
}

// processes returns all that are not older than the world: the machine may have thousands.
func (w *world) processes() []linux.Stat {
	w.Helper()
	all, err := linux.ProcFS("").All()
	w.must(err)
	return slices.DeleteFunc(all, func(p linux.Stat) bool { return p.Start < w.begun-20*time.Millisecond }) // the kernel counts in hundredths of a second
}

// children returns the processes that a process has started.
func children(pid int) (list []int) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, f := range files {
		b, _ := os.ReadFile(f)
		for _, child := range strings.Fields(string(b)) {
			if n, err := strconv.Atoi(child); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

// taskProcesses returns the processes of a task below its init, with their numbers on
// the machine. They are known by the path of the task's directory too: others on the
// machine may have tasks of the same id.
func (w *world) taskProcesses(id string) (alive []linux.Stat) {
	w.Helper()
	dir := w.rt.TaskDir(headrace.TaskID(id))
	for _, p := range w.processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		env := strings.Split(string(b), "\x00")
		if !linux.Dead(p.State) && slices.Contains(env, proc.TaskIDEnv+"="+id) && slices.Contains(env, proc.ProgressEnv+"="+dir+"/progress") {
			alive = append(alive, p)
		}
	}
	return alive
}

func TestKillTakesTheWholeTree(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("whole", "/bin/bash", "-c",
		`trap '' TERM; setsid bash -c 'trap "" TERM; (setsid sleep 1000 &); exec sleep 1001' & sleep 1002 & echo ready; wait; wait`))
	w.awaitOutput(task, "ready")
	w.await("the tree", func() bool { return len(w.taskProcesses("whole")) >= 4 })
	w.must(task.Kill(w.ctx, 20*time.Millisecond))
	w.end(task)
	if n := len(w.taskProcesses("whole")); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// What a command leaves behind ends with it.
func TestDaemonsEndWithTheCommand(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("left", "/bin/bash", "-c", `setsid sleep 1000 & disown; exit 3`))
	if e := w.end(task); e.Code != 3 {
		t.Errorf("ended with %+v", e)
	}
	if n := len(w.taskProcesses("left")); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

func TestUsageIsComplete(t *testing.T) {
	w := newWorld(t)
	// Processor time of children that nobody waits for counts as well, also of the
	// first one, which still lives when the command ends. That is when all have used
	// theirs: the end of the pipe.
	task := w.start(w.spec("t", "python3", "-c", `
import os, time
alive, held = os.pipe()
for i in range(3):
    if os.fork() == 0:
        if os.fork() == 0:
            end = time.process_time() + 0.2
            while time.process_time() < end: pass
            os.close(held)
            if i == 0: time.sleep(1000)
        os._exit(0)
    os.wait()
os.close(held)
os.read(alive, 1)
`))
	e := w.end(task)
	if got := e.Usage.User + e.Usage.System; got < 600*time.Millisecond || got > 1500*time.Millisecond {
		t.Errorf("accounted for %v of processor time, the task used a little over 600ms", got)
	}
}

func TestProgress(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/sh", "-c", `echo 0.25 > $HEADRACE_PROGRESS_FILE; echo ready; sleep 1000`))
	w.awaitOutput(task, "ready")
	if s := w.stats(task).Share; s != 0.25 {
		t.Errorf("share %v, want 0.25", s)
	}
}

// A task that has a lease on the file in which it says how far it is, is measured all
// the same: opening it would wait until the kernel takes the lease away.
func TestProgressWithALease(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "python3", "-uc", `
import fcntl, os, signal, time
signal.signal(signal.SIGIO, signal.SIG_IGN)
f = open(os.environ["HEADRACE_PROGRESS_FILE"], "r+")
fcntl.fcntl(f, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print("ready")
time.sleep(1000)
`))
	w.awaitOutput(task, "ready")
	ctx, cancel := context.WithTimeout(w.ctx, 40*time.Second) // of a busy machine; the kernel waits for 45 s
	defer cancel()
	if s, err := task.Stats(ctx); err != nil || s.Resident == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// A task that says nothing has done as much as it has read of its input.
func TestProgressFromInput(t *testing.T) {
	w := newWorld(t)
	in := filepath.Join(t.TempDir(), "in")
	w.must(os.WriteFile(in, make([]byte, 1000), 0o644))
	s := w.spec("t", "python3", "-uc", "import os, time; os.read(0, 250); print('ready'); time.sleep(1000)")
	s.Stdin = in
	task := w.start(s)
	w.awaitOutput(task, "ready")
	if share := w.stats(task).Share; share != 0.25 {
		t.Errorf("share %v, want 0.25", share)
	}
}

func TestAttachAfterDaemonRestart(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("t", "/bin/sh", "-c", `echo ready; until [ -e "$GO_ON" ]; do sleep 0.01; done; exit 5`))
	w.awaitOutput(task, "ready")
	task.Close()
	again, err := w.rt.Attach(w.ctx, "t")
	w.must(err)
	if e := w.end(again); e.Code != 5 {
		t.Errorf("ended with %+v", e)
	}
	if _, err := w.rt.Attach(w.ctx, "t"); !errors.Is(err, proc.ErrGone) {
		t.Errorf("attach after the end: %v", err)
	}
	if _, err := w.rt.Attach(w.ctx, "never"); !errors.Is(err, proc.ErrGone) {
		t.Errorf("attach to a task that never was: %v", err)
	}
}

// TestSupervisorWithoutACommandEnds: when the daemon dies between the start of a
// supervisor and its first request, that supervisor ends, and leaves no record of an end.
func TestSupervisorWithoutACommandEnds(t *testing.T) {
	const childEnv = "HEADRACE_TEST_DIES_AT_START"
	if dir := os.Getenv(childEnv); dir != "" { // it leaves nothing of its own behind
		w := &world{T: t, rt: &proc.Runtime{Shim: testkit.Shim(t), Dir: dir}, ctx: t.Context()}
		w.start(w.spec("t", "echo", "text"))
		return
	}
	w := newWorld(t)
	s := w.spec("t", "echo", "text")
	died := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	died.Env = append(os.Environ(), testkit.ShimEnv+"="+w.rt.Shim, childEnv+"="+w.rt.Dir, crash.Env+"=proc.launched")
	out, err := died.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the daemon did not die at its crash point: %v\n%s", err, out)
	}
	w.await("the end of the supervisor", func() bool { return w.findShim("t") == 0 })
	if e, ok, err := w.rt.ExitOf("t"); ok || err != nil {
		t.Errorf("the end of a task that never began is recorded: %+v, %v", e, err)
	}
	w.end(w.start(s))
	if got := w.log("t", "stdout"); got != "text\n" {
		t.Errorf("the next start wrote %q", got)
	}
}

// TestStartOutlivesWhoAsksForIt: a daemon that ends while a start takes long does not end the
// task; the next one has it.
func TestStartOutlivesWhoAsksForIt(t *testing.T) {
	w := newWorld(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	w.must(unix.Mkfifo(pipe, 0o600))
	s := w.spec("t", "echo", "text")
	s.Output = pipe // opened when somebody reads it
	ctx, end := context.WithCancel(w.ctx)
	boot, err := linux.BootID()
	w.must(err)
	asked := make(chan error, 1)
	go func() {
		_, err := w.rt.Start(ctx, s)
		asked <- err
	}()
	w.await("the start", func() bool {
		begun, err := w.rt.Begun(s.ID, boot, 0)
		return err == nil && begun
	})
	end()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("the start: %v, want %v", err, context.Canceled)
	}
	next, err := w.rt.Attach(w.ctx, s.ID)
	w.must(err)
	b, err := os.ReadFile(pipe)
	if string(b) != "text\n" || err != nil {
		t.Errorf("it wrote %q, %v", b, err)
	}
	if e := w.end(next); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}

// shimPID finds the supervisor of a task on the machine.
func (w *world) shimPID(id string) int {
	w.Helper()
	pid := w.findShim(id)
	if pid == 0 {
		w.Fatalf("no supervisor of %s", id)
	}
	return pid
}

// findShim is shimPID that returns 0 when there is none.
func (w *world) findShim(id string) int {
	w.Helper()
	dir := w.rt.TaskDir(headrace.TaskID(id))
	for _, p := range w.processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if strings.Contains(string(b), "supervise\x00-dir\x00"+dir+"\x00") {
			return p.PID
		}
	}
	return 0
}

func TestKilledShimIsReportedAsLost(t *testing.T) {
	w := newWorld(t)
	task := w.start(w.spec("lost", "/bin/bash", "-c", `for n in {1..200}; do sleep 1000 & done; echo ready; wait`))
	w.awaitOutput(task, "ready")
	w.must(unix.Kill(w.shimPID("lost"), syscall.SIGKILL))
	if e := w.end(task); !e.Lost {
		t.Errorf("ended with %+v, want it lost", e)
	}
	if n := len(w.taskProcesses("lost")); n != 0 {
		t.Errorf("%d processes are left, and whoever starts it again would have it twice", n)
	}
}

// TestMachineGoesDown: what an orderly shutdown makes a command do is not its end, whether it
// handles the signal or not: no daemon is to find a record of one.
func TestMachineGoesDown(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		stopped bool
	}{
		"ended by the signal": {command: "echo ready; sleep 1000"},
		"ends in order":       {command: "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"},
		"suspended":           {command: "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done", stopped: true},
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				w := newWorld(t)
				task := w.start(w.spec("down", "/bin/sh", "-c", c.command))
				w.awaitOutput(task, "ready")
				if c.stopped {
					_, err := task.Suspend(w.ctx, 0)
					w.must(err)
				}
				if n := testkit.GoDown(t, w.rt.TaskDir("down")); n < 3 {
					t.Fatalf("it has %d processes, want the supervisor, init and the command", n)
				}
				if e := w.end(task); !e.Lost {
					t.Fatalf("ended with %+v, want it lost", e)
				}
				if e, there, err := w.rt.ExitOf("down"); there || err != nil {
					t.Fatalf("on record is %+v, %v", e, err)
				}
				if n := len(w.taskProcesses("down")); n != 0 {
					t.Fatalf("%d processes are left", n)
				}
			}
		})
	}
}
