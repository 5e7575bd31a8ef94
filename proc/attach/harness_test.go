package attach_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/attach"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }

// handler is what a daemon does with a connection, which is closed after it.
type handler func(w *world, conn *net.UnixConn)

// started is what came of a request.
type started struct {
	request attach.Request
	peer    attach.Peer
	spec    proc.Spec
	task    *proc.Task // nil with an error
	err     error
}

// world is a daemon that does nothing but run what is attached.
type world struct {
	*testing.T
	ctx     context.Context
	dir     string // for files of tests, everybody's to write in
	socket  string
	rt      *proc.Runtime
	store   string
	started chan started
	begun   time.Duration // after boot; none of its tasks is older
}

// patience is how long a test may take in its world: the machine may be busy.
const patience = 4 * time.Minute

func newWorld(t *testing.T, handle handler) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "headrace-attach")
	if err != nil {
		t.Fatal(err)
	}
	begun := linux.Clock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	w := &world{
		T: t, ctx: ctx, dir: filepath.Join(dir, "files"), socket: filepath.Join(dir, "attach.sock"), store: filepath.Join(dir, "store"),
		rt:      &proc.Runtime{Shim: testkit.Shim(t), Dir: filepath.Join(dir, "tasks")},
		started: make(chan started, 16), begun: begun,
	}
	if c, err := criu.Find(); err == nil {
		w.rt.CRIU = c.Path
	}
	w.must(os.Chmod(dir, 0o755))
	w.must(os.Mkdir(w.dir, 0o777))
	w.must(os.Chmod(w.dir, 0o777))
	t.Cleanup(func() {
		defer cancel()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		tasks, _ := os.ReadDir(w.rt.Dir)
		for _, n := range tasks {
			if t.Failed() {
				w.showLogs(filepath.Join(w.rt.Dir, n.Name()))
			}
			if err := w.rt.Remove(ctx, headrace.TaskID(n.Name())); err != nil {
				t.Errorf("clean up: %v", err)
			}
		}
		os.RemoveAll(dir)
	})
	if handle != nil {
		w.serve(handle)
	}
	return w
}

func (w *world) showLogs(dir string) {
	for _, f := range []string{"shim.log", "dump.log", "restore.log", "stdout", "stderr"} {
		if b, err := os.ReadFile(filepath.Join(dir, f)); err == nil && len(b) > 0 {
			w.Logf("%s/%s:\n%s", filepath.Base(dir), f, b[max(0, len(b)-2500):])
		}
	}
}

func (w *world) serve(handle handler) {
	w.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: w.socket, Net: "unix"})
	w.must(err)
	w.must(os.Chmod(w.socket, 0o666))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			handle(w, conn)
			conn.Close()
		}
	}()
	w.Cleanup(func() { l.Close(); <-done })
}

// run is a daemon as it should be, but one that knows of no checkpoints.
func run(w *world, conn *net.UnixConn) { runOr(w, conn, nil) }

// runOr has again carry out requests for another supervisor; nil: none is given.
func runOr(w *world, conn *net.UnixConn, again func(attach.Request, attach.Files) attach.Reply) {
	q, files, peer, err := attach.Receive(conn)
	if q.Again {
		reply := attach.Reply{Error: "nothing is saved of it"}
		if again != nil {
			reply = again(q, files)
		}
		files.Close()
		attach.Answer(conn, reply)
		return
	}
	s := started{request: q, peer: peer, err: err}
	if err == nil {
		s.spec = q.Spec(peer)
		s.task, s.err = w.rt.StartWith(w.ctx, s.spec, files.Stdio())
		files.Close()
	}
	reply := attach.Reply{}
	if s.err != nil {
		reply.Error = s.err.Error()
	}
	attach.Answer(conn, reply)
	w.started <- s
}

// needCheckpoints skips the test where there is no CRIU, or no right to use it.
func (w *world) needCheckpoints() *world {
	w.Helper()
	if os.Geteuid() != 0 {
		w.Skip("checkpoints need root")
	}
	if w.rt.CRIU == "" {
		_, err := criu.Find()
		w.Skipf("checkpoints need CRIU: %v", err)
	}
	return w
}

// container is a process in whose place a command runs.
type container struct {
	*world
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer // of pipes
	done           chan struct{}
}

// attach starts a command under headrace-shim attach, as the leader of a session,
// with pipes for its output.
func (w *world) attach(argv ...string) *container {
	w.Helper()
	return w.attachWith(nil, argv...)
}

func (w *world) attachWith(change func(*exec.Cmd), argv ...string) *container {
	w.Helper()
	c := &container{world: w, done: make(chan struct{})}
	args := append([]string{"attach", "-timeout", "1m", "-socket", w.socket, "-id", "c1", "--"}, argv...)
	c.cmd = exec.Command(w.rt.Shim, args...)
	c.cmd.Dir, c.cmd.SysProcAttr = w.dir, &syscall.SysProcAttr{Setsid: true}
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/", "LANG=C.UTF-8"}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	if change != nil {
		change(c.cmd)
	}
	c.cmd.WaitDelay = time.Minute // whatever else holds the pipes
	w.must(c.cmd.Start())
	go func() {
		c.cmd.Wait() // how it ended is in ProcessState
		close(c.done)
	}()
	w.Cleanup(func() {
		unix.Kill(-c.cmd.Process.Pid, unix.SIGKILL)
		<-c.done
	})
	return c
}

// task waits until the daemon has started the command.
func (c *container) task() *proc.Task {
	c.Helper()
	s := c.result()
	if s.err != nil {
		c.Fatalf("the daemon did not start the task: %v", s.err)
	}
	return s.task
}

func (w *world) result() started {
	w.Helper()
	select {
	case s := <-w.started:
		return s
	case <-w.ctx.Done():
		w.Fatal("the daemon got no request")
		return started{}
	}
}

// wait returns the exit code as a shell would show it.
func (c *container) wait() int {
	c.Helper()
	select {
	case <-c.done:
	case <-c.ctx.Done():
		c.Fatal("attach does not end")
	}
	return shellCode(c.cmd.ProcessState)
}

func shellCode(st *os.ProcessState) int {
	ws := st.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

func (c *container) signal(sig syscall.Signal) {
	c.Helper()
	c.must(unix.Kill(-c.cmd.Process.Pid, sig))
}

func (w *world) end(t *proc.Task) proc.Exit {
	w.Helper()
	select {
	case <-t.Exited():
		return t.Exit()
	case <-w.ctx.Done():
		w.Fatalf("task %s does not end", t.ID)
		return proc.Exit{}
	}
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

// path returns a file of the test.
func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) read(name string) string {
	b, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(b)
}

// awaitText polls until a file of the test holds the text.
func (w *world) awaitText(name, text string) {
	w.Helper()
	w.await(name+" with "+text, func() bool { return strings.Contains(w.read(name), text) })
}

// processes returns all that are not older than the world: the machine may have thousands.
func (w *world) processes() []linux.Stat {
	w.Helper()
	all, err := linux.ProcFS("").All()
	w.must(err)
	return slices.DeleteFunc(all, func(p linux.Stat) bool { return p.Start < w.begun-20*time.Millisecond }) // the kernel counts in hundredths of a second
}

// left counts the processes of tasks of this world.
func (w *world) left() (n int) {
	for _, p := range w.processes() {
		env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
		if !linux.Dead(p.State) && strings.Contains(string(env), proc.ProgressEnv+"="+w.rt.Dir) {
			n++
		}
	}
	return n
}

func (w *world) awaitNothingLeft() {
	w.Helper()
	w.await("the end of all processes", func() bool { return w.left() == 0 })
}

// supervisor finds the task's supervisor on the machine.
func (w *world) supervisor() int {
	w.Helper()
	for _, p := range w.processes() {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if strings.Contains(string(b), "supervise\x00-dir\x00"+w.rt.Dir) {
			return p.PID
		}
	}
	return 0
}

func (w *world) checkpoint(t *proc.Task) {
	w.Helper()
	_, err := t.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	w.must(err)
}

func (w *world) restore(s proc.Spec) *proc.Task {
	w.Helper()
	t, _, err := w.rt.Restore(w.ctx, s, proc.RestoreOptions{Store: w.store})
	w.must(err)
	return t
}
