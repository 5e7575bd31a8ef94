package shim

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/control"
)

// supervisor answers the daemon, for one task.
type supervisor struct {
	task *task
	// knows is set when the daemon has said what to do.
	knows atomic.Bool
}

// supervise runs the supervisor. File descriptor 3 gets one
// line when requests are answered, and is closed by the daemon when it has said what
// to do.
func supervise(args []string) error {
	fl := flag.NewFlagSet("supervise", flag.ContinueOnError)
	dir := fl.String("dir", "", "the task's directory")
	criu := fl.String("criu", "", "path of CRIU")
	var stdio [3]int
	fl.IntVar(&stdio[0], "stdin", -1, "descriptor of a pipe to be standard input")
	fl.IntVar(&stdio[1], "stdout", -1, "descriptor of a pipe to be standard output")
	fl.IntVar(&stdio[2], "stderr", -1, "descriptor of a pipe to be standard error")
	lifelineFD := fl.Int("lifeline", -1, "descriptor of the lifeline of an attached task")
	stallLimit := fl.Duration("stall-limit", 0, "how long CRIU may make no progress; 0: a minute")
	isolated := fl.Bool("isolated", false, "this is pid 1 of a new pid and mount namespace")
	if err := fl.Parse(args); err != nil {
		return err
	}
	// Whatever else was open in the daemon must not reach the task: a file of
	// another mount namespace could not be dumped.
	if err := unix.CloseRange(errorFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return os.NewSyscallError("close_range (Linux 5.11 or later)", err)
	}
	if *isolated {
		if err := privateProc(); err != nil {
			return err
		}
	}
	if err := os.Chdir(*dir); err != nil {
		return err
	}
	lock, err := lockDir()
	if err != nil {
		return err
	}
	defer lock.Close()
	s := &supervisor{task: newTask(*dir, *isolated)}
	t := s.task
	if t.criu, t.stallLimit = *criu, *stallLimit; t.stallLimit <= 0 {
		t.stallLimit = defaultStallLimit
	}
	if err := t.stdio.take(stdio); err != nil {
		return err
	}
	if t.lifeline, err = takeLifeline(*lifelineFD); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", err)
	}
	// Best effort: without the right to lower it, the kernel may pick us.
	os.WriteFile("/proc/self/oom_score_adj", []byte("-999"), 0)
	s.handleSignals()
	return s.serve()
}

// serve answers requests until the end of the task is recorded.
func (s *supervisor) serve() error {
	t := s.task
	listener, err := control.Listen()
	if err != nil {
		return fmt.Errorf("listen on %s: %w", filepath.Join(t.home.dir, control.SocketName), err)
	}
	go s.onLeash(os.NewFile(errorFD, "leash"))
	t.lifeline.watch(t.deliver, t.abandon)

	failed := make(chan error, 1)
	server := control.NewServer(s.handle)
	go func() { failed <- server.Serve(context.Background(), listener) }()
	select {
	case <-t.life.over:
		t.lifeline.end(t.life.howEnded())
		if err := t.processes.group.is().Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		// Whoever waits for the end gets the answer before the socket closes; the
		// record is on disk already.
		server.Drain(opPatience)
		return nil
	case err := <-failed:
		return err
	}
}

// onLeash says that requests are answered, and ends a supervisor whose daemon goes
// away before it has said what to do: the next daemon starts another one, or none. An
// attached task's goes by its lifeline.
func (s *supervisor) onLeash(leash *os.File) {
	fmt.Fprintln(leash, "ready")
	io.Copy(io.Discard, leash)
	leash.Close()
	if s.task.lifeline == nil && !s.knows.Load() {
		s.task.dismiss()
	}
}

// privateProc gives this mount namespace a /proc that shows the task's pid
// namespace. Mounts made on the host later still appear here where they are made below shared ones.
func privateProc() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return fmt.Errorf("detach mounts: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc for the task: %w", err)
	}
	return nil
}

// lockDir makes sure that there is one supervisor for a directory.
func lockDir() (*os.File, error) {
	f, err := linux.LockFile(lockFile, os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, linux.ErrLocked) {
		return nil, fmt.Errorf("another supervisor has this task: %w", err)
	}
	return f, err
}

// handleSignals keeps terminal signals away from the task. A SIGTERM ends it, but is no end
// of its own: whoever wants that asks for it. It comes to everything on a machine that
// goes down in order, to the command as well.
func (s *supervisor) handleSignals() {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTSTP)
	go func() {
		for range ch {
		}
	}()
	signal.Notify(s.task.life.cutOff, syscall.SIGTERM)
	term := make(chan os.Signal, 1)
	signal.Notify(term, syscall.SIGTERM)
	go func() {
		for range term {
			go s.task.kill(proc.DefaultKillGrace)
		}
	}()
}

// handle carries out one request of the daemon.
func (s *supervisor) handle(_ context.Context, op string, args json.RawMessage) (any, error) {
	result, err := s.do(op, args)
	if err != nil {
		return nil, &control.Error{Kind: proc.KindName(err), Text: err.Error()}
	}
	return result, nil
}

func (s *supervisor) do(op string, args json.RawMessage) (any, error) {
	var a struct {
		Grace   time.Duration `json:"grace"`
		ForUser bool          `json:"for_user"`
		Bytes   int64         `json:"bytes"`
	}
	if len(args) > 0 {
		if err := json.Unmarshal(args, &a); err != nil {
			return nil, err
		}
	}
	switch op {
	case "start", "hold", "restore":
		s.knows.Store(true)
	}
	t := s.task
	switch op {
	case "start":
		return nil, notNow(t.start())
	case "hold":
		return nil, t.hold()
	case "heard":
		t.lifeline.heard()
		return nil, nil
	case "restore":
		res, err := with(args, t.restore)
		return res, notNow(err)
	case "suspend":
		return t.suspend(a.Grace)
	case "resume":
		return nil, t.resume()
	case "checkpoint":
		return with(args, t.checkpoint)
	case "kill":
		if a.ForUser {
			t.life.killedForUser()
		}
		return nil, t.kill(a.Grace)
	case "dismiss":
		return nil, t.dismiss()
	case "pageout":
		return t.pageOut(a.Bytes)
	case "pagein":
		return t.pageIn()
	case "stats":
		return t.stats()
	case "ping":
		return nil, nil
	}
	return nil, fmt.Errorf("unknown operation %q (is the supervisor older than the daemon?)", op)
}

// notNow gives an error of no other kind that of a shortage, if it is one: the daemon, which gets
// only its text, tries again.
func notNow(err error) error {
	if linux.Lacking(err) && proc.KindName(err) == "" {
		return fmt.Errorf("%w: %w", proc.ErrNotNow, err)
	}
	return err
}

// with does something with the options that args are.
func with[O, R any](args json.RawMessage, do func(O) (R, error)) (any, error) {
	var o O
	if err := json.Unmarshal(args, &o); err != nil {
		return nil, err
	}
	return do(o)
}
