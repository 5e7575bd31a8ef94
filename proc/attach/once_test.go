package attach_test

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/testkit"
	"headrace/proc"
	"headrace/proc/attach"
)

// once is a command that tells how often it has run.
var once = []string{"/bin/bash", "-c", "echo ran >> runs; exit 3"}

func (w *world) runs() int { return strings.Count(w.read("runs"), "ran\n") }

// short makes attach give up early.
func short(cmd *exec.Cmd) { within(cmd, 300*time.Millisecond) }

// within makes attach give up after a time.
func within(cmd *exec.Cmd, limit time.Duration) {
	cmd.Args[slices.Index(cmd.Args, "-timeout")+1] = limit.String()
}

// Where there is no daemon, or none that is any good, the command runs alone, and
// one line says why.
func TestWithoutHelp(t *testing.T) {
	for name, c := range map[string]struct {
		handle handler
		why    string
	}{
		"no socket":             {nil, "no such file"},
		"closes at once":        {func(*world, *net.UnixConn) {}, ""},
		"closes after the size": {func(_ *world, conn *net.UnixConn) { conn.Read(make([]byte, 4)) }, ""},
		"closes after the request": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			files.Close()
		}, "closed"},
		"forgets the lifeline only": {func(w *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			files.Close()
			conn.Read(make([]byte, 1))
		}, "went away"},
		"refuses": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			attach.Answer(conn, attach.Reply{Error: "nobody announced c1"})
			files.Close()
		}, "refused: nobody announced c1"},
		"answers nonsense": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			conn.Write([]byte{0, 0, 0, 3, 'x', 'y', 'z'})
			files.Close()
		}, ""},
		"announces too much": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			conn.Write([]byte{255, 255, 255, 255})
			conn.Read(make([]byte, 1))
			files.Close()
		}, "more than"},
		"says nothing": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			conn.Read(make([]byte, 1))
			files.Close()
		}, "in time"},
		"does not even read": {func(w *world, conn *net.UnixConn) {
			for w.runs() == 0 && w.ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}, "in time"},
		"takes it and says no more": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			attach.Answer(conn, attach.Reply{})
			conn.Read(make([]byte, 1))
			files.Close()
		}, "in time"},
		"nonsense on the lifeline": {func(_ *world, conn *net.UnixConn) {
			_, files, _, _ := attach.Receive(conn)
			files.Lifeline.WriteString(`{"exit":0}` + "\n")
			conn.Read(make([]byte, 1))
			files.Close()
		}, "before the start"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.handle)
			limit := short
			if c.why != "in time" {
				limit = nil
			}
			a := w.attachWith(limit, once...)
			if code := a.wait(); code != 3 || w.runs() != 1 {
				t.Errorf("code %d after %d runs; %s", code, w.runs(), &a.stderr)
			}
			said := a.stderr.String()
			if strings.Count(said, "\n") != 1 || !strings.Contains(said, c.why) || !strings.HasSuffix(said, "the command runs without Headrace\n") {
				t.Errorf("said %q, want one line with %q", said, c.why)
			}
		})
	}
}

// Nobody reads standard error: attach has something to say, but must not die of it,
// and the command must not survive what it would have died of.
func TestBrokenOutput(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		code   int
	}{"silent": {"exit 3", 3}, "speaking": {"while :; do echo x >&2 || exit 4; done", 128 + int(unix.SIGPIPE)}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			r, broken, err := os.Pipe()
			w.must(err)
			r.Close()
			defer broken.Close()
			a := w.attachWith(func(cmd *exec.Cmd) { cmd.Stderr = broken }, "/bin/bash", "-c", c.script)
			if code := a.wait(); code != c.code {
				t.Errorf("code %d, want %d", code, c.code)
			}
		})
	}
	t.Run("lost", func(t *testing.T) {
		w := newWorld(t, run)
		r, broken, err := os.Pipe()
		w.must(err)
		defer broken.Close()
		a := w.attachWith(func(cmd *exec.Cmd) { cmd.Stderr = broken }, "/bin/bash", "-c", "echo > ready; exec sleep 1000")
		w.awaitText("ready", "\n")
		a.task()
		r.Close()
		w.must(unix.Kill(w.supervisor(), unix.SIGKILL))
		if code := a.wait(); code != 137 {
			t.Errorf("code %d", code)
		}
	})
}

// A daemon that starts the task when attach has given up starts nothing.
func TestTooLate(t *testing.T) {
	testkit.Longer(t, 300*time.Millisecond, func(limit time.Duration) error { return tooLate(t, limit) })
}

// tooLate fails if attach has given up before it has asked for anything.
func tooLate(t *testing.T, limit time.Duration) error {
	gone := make(chan struct{})
	w := newWorld(t, func(w *world, conn *net.UnixConn) {
		q, files, peer, err := attach.Receive(conn)
		w.started <- started{request: q, peer: peer, err: err}
		if err != nil {
			return
		}
		if err := os.WriteFile(w.path("received"), nil, 0o644); err != nil {
			t.Error(err)
		}
		<-gone
		_, err = w.rt.StartWith(w.ctx, q.Spec(peer), files.Stdio())
		files.Close()
		w.started <- started{err: err}
	})
	a := w.attachWith(func(cmd *exec.Cmd) {
		within(cmd, limit)
		cmd.Stdout, cmd.Stderr = nil, nil // else the daemon holds their pipes
	}, "/bin/bash", "-c", "until [ -e received ]; do sleep 0.01; done; "+once[2]) // it is there while the daemon asks who has called
	if s := w.result(); s.err != nil {
		return s.err
	}
	if code := a.wait(); code != 3 || w.runs() != 1 {
		t.Errorf("code %d after %d runs", code, w.runs())
	}
	close(gone)
	if s := w.result(); !errors.Is(s.err, proc.ErrAbandoned) {
		t.Errorf("the start: %v, want %v", s.err, proc.ErrAbandoned)
	}
	w.awaitNothingLeft()
	if w.runs() != 1 {
		t.Errorf("the command ran %d times", w.runs())
	}
	return nil
}

// heldOnce returns a container to be held, and both ends of its lifeline.
func (w *world) heldOnce() (spec proc.Spec, near, far *os.File) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	w.must(err)
	spec = attach.Request{ID: "c1", Argv: once, Cwd: w.dir}.Spec(attach.Peer{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())})
	return spec, os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
}

// A supervisor does not wait for go for ever.
func TestNoGo(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	t.Parallel()
	w := newWorld(t, nil)
	spec, near, far := w.heldOnce()
	defer near.Close()
	_, err := w.rt.StartWith(w.ctx, spec, proc.Stdio{Lifeline: far})
	far.Close()
	if !errors.Is(err, proc.ErrAbandoned) || w.runs() != 0 {
		t.Errorf("%v after %d runs, want %v", err, w.runs(), proc.ErrAbandoned)
	}
	if _, err := near.WriteString(`{"go":true}` + "\n"); err == nil {
		t.Error("the supervisor still listens")
	}
}

// Who has a supervisor held, or start a command, does not wait longer for the word of the other end than it has patience, and leaves
// nothing of it.
func TestHeldWithoutAnswer(t *testing.T) {
	for what, ask := range map[string]func(*proc.Runtime, context.Context, proc.Spec, proc.Stdio) (*proc.Task, error){
		"hold": (*proc.Runtime).Hold, "start": (*proc.Runtime).StartWith,
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			spec, near, far := w.heldOnce()
			defer near.Close()
			rt := proc.Runtime{Shim: w.rt.Shim, Dir: w.rt.Dir, Patience: time.Second}
			_, err := ask(&rt, w.ctx, spec, proc.Stdio{Lifeline: far})
			far.Close()
			if !errors.Is(err, proc.ErrNoAnswer) || w.runs() != 0 {
				t.Errorf("%v after %d runs, want %v", err, w.runs(), proc.ErrNoAnswer)
			}
			w.awaitNothingLeft()
		})
	}
}

// A command whose other end has said go may take longer to start than there is patience. On a busy machine the word of the other end
// may take as long, too, which counts.
func TestStartsSlowly(t *testing.T) {
	t.Parallel()
	for tries := 1; ; tries++ {
		err := startsSlowly(t)
		if err == nil {
			return
		}
		if !errors.Is(err, proc.ErrNoAnswer) || tries == 5 {
			t.Fatal(err)
		}
	}
}

func startsSlowly(t *testing.T) error {
	w := newWorld(t, nil)
	spec, near, far := w.heldOnce()
	defer near.Close()
	defer far.Close()
	spec.Output = w.path("fifo") // the start waits until somebody reads it, or five seconds
	w.must(unix.Mkfifo(spec.Output, 0o600))
	if _, err := near.WriteString(`{"go":true}` + "\n"); err != nil {
		t.Fatal(err)
	}
	rt := proc.Runtime{Shim: w.rt.Shim, Dir: w.rt.Dir, Patience: 3 * time.Second}
	task, err := rt.StartWith(w.ctx, spec, proc.Stdio{Lifeline: far})
	if err != nil {
		return err
	}
	far.Close()
	w.read("fifo")
	if e := w.end(task); e.Code != 3 || w.runs() != 1 {
		t.Errorf("ended with %+v after %d runs", e, w.runs())
	}
	return nil
}

// A daemon that ends while the other end has not said go does not end the supervisor: the
// command starts when it says so.
func TestDaemonEndsBeforeGo(t *testing.T) {
	w := newWorld(t, nil)
	spec, near, far := w.heldOnce()
	defer near.Close()
	defer far.Close()
	ctx, end := context.WithCancel(w.ctx)
	asked := make(chan error, 1)
	go func() {
		_, err := w.rt.StartWith(ctx, spec, proc.Stdio{Lifeline: far})
		asked <- err
	}()
	if _, err := near.Read(make([]byte, 1<<10)); err != nil { // ready
		t.Fatal(err)
	}
	end()
	if err := <-asked; !errors.Is(err, context.Canceled) {
		t.Errorf("the start: %v, want %v", err, context.Canceled)
	}
	next, err := w.rt.Attach(w.ctx, spec.ID)
	w.must(err)
	if _, err := near.WriteString(`{"go":true}` + "\n"); err != nil {
		t.Fatal(err)
	}
	<-next.Exited()
	if e := next.Exit(); e.Code != 3 || w.runs() != 1 {
		t.Errorf("ended with %+v after %d runs", e, w.runs())
	}
}

// Whoever dies when, the command runs once or, after go, at most once; if attach
// lives it runs, or attach says that it was killed.
func TestCrashes(t *testing.T) {
	for _, c := range []struct {
		point string
		// code of attach; runs at least and at most
		code, least, most int
	}{
		{"attach.connected", 137, 0, 0},
		{"attach.sent", 137, 0, 0},
		{"attach.ready", 137, 0, 0},
		{"attach.go", 137, 0, 1},
		{"shim.before-ready", 3, 1, 1},
		{"shim.go", 137, 0, 0},
		{"shim.started", 137, 0, 1},
	} {
		t.Run(c.point, func(t *testing.T) {
			w := newWorld(t, run)
			if strings.HasPrefix(c.point, "shim.") {
				t.Setenv(crash.Env, c.point) // supervisors get this process's environment
			}
			a := w.attachWith(func(cmd *exec.Cmd) {
				if strings.HasPrefix(c.point, "attach.") {
					cmd.Env = append(cmd.Env, crash.Env+"="+c.point)
				}
			}, "/bin/bash", "-c", "echo ran >> runs; "+map[bool]string{true: "exit 3", false: "sleep 1000"}[c.code == 3])
			if code := a.wait(); code != c.code {
				t.Errorf("code %d, want %d; %s", code, c.code, &a.stderr)
			}
			w.awaitNothingLeft()
			if n := w.runs(); n < c.least || n > c.most {
				t.Errorf("%d runs, want %d to %d", n, c.least, c.most)
			}
			w.await("the end of the supervisor", func() bool { return w.supervisor() == 0 })
		})
	}
}

// The supervisor dies between ready and go. Attach finds out before it has sent go,
// or afterwards; it cannot know which when it learns of it.
func TestCrashOfReadySupervisor(t *testing.T) {
	w := newWorld(t, run)
	t.Setenv(crash.Env, "shim.ready")
	a := w.attach(once...)
	code := a.wait()
	if runs := w.runs(); !(code == 3 && runs == 1 || code == 137 && runs == 0) {
		t.Errorf("code %d after %d runs", code, runs)
	}
	w.awaitNothingLeft()
}

// TestStartsWithoutAMark: who has let go of its command does not fail for what nobody reads of it, such as where the disk is
// full.
func TestStartsWithoutAMark(t *testing.T) {
	w := newWorld(t, run)
	w.must(os.MkdirAll(filepath.Join(w.rt.TaskDir("c1"), "begun"), 0o755))
	c := w.attach(once...)
	if code := c.wait(); code != 3 || w.runs() != 1 {
		t.Errorf("code %d after %d runs; %s", code, w.runs(), &c.stderr)
	}
}
