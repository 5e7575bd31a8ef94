package consumer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// killGrace is how long a command that was told to end may take. Tests shorten it.
var killGrace = 5 * time.Second

// startError is a command that could not be started, with the exit code that a
// shell would give.
type startError struct {
	code int
	err  error
}

func (e *startError) Error() string { return e.err.Error() }

// command is a process that was started, the leader of a process group of its
// own. It uses no pidfd, which os.Process would: fewer kinds of descriptors for
// a checkpoint to meet.
type command struct {
	pid int
	// exited is closed when the process has ended; its number still is its own until
	// reap.
	exited chan struct{}

	mu     sync.Mutex
	reaped bool
}

// startCommand starts argv with a descriptor as standard input, and this process's
// standard output and error.
func startCommand(argv, env []string, stdin uintptr) (*command, error) {
	path := argv[0]
	if !strings.Contains(path, "/") {
		found, err := exec.LookPath(path)
		switch {
		case err == nil, errors.Is(err, exec.ErrDot):
			path = found
		case errors.Is(err, os.ErrPermission):
			return nil, &startError{126, fmt.Errorf("%s: no permission to execute it", path)}
		default:
			return nil, &startError{127, fmt.Errorf("%s: command not found in PATH=%s", path, os.Getenv("PATH"))}
		}
	}
	attr := &syscall.ProcAttr{
		Env: env, Files: []uintptr{stdin, 1, 2}, Sys: &syscall.SysProcAttr{Setpgid: true},
	}
	pid, err := syscall.ForkExec(path, argv, attr)
	if errors.Is(err, syscall.ENOEXEC) { // a script without #!, as a shell would run it
		pid, err = syscall.ForkExec("/bin/sh", append([]string{"/bin/sh", path}, argv[1:]...), attr)
	}
	switch {
	case err == nil:
	case errors.Is(err, syscall.ENOENT):
		return nil, &startError{127, fmt.Errorf("%s: no such file (or its interpreter is missing)", argv[0])}
	case errors.Is(err, syscall.EACCES):
		return nil, &startError{126, fmt.Errorf("%s: no permission to execute it", argv[0])}
	default:
		return nil, &startError{126, fmt.Errorf("%s: %w", argv[0], err)}
	}
	c := &command{pid: pid, exited: make(chan struct{})}
	go c.awaitExit()
	return c, nil
}

// awaitExit waits for the end of the process without reaping it.
func (c *command) awaitExit() {
	for unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
	close(c.exited)
}

// signal sends a signal to the command's process group.
func (c *command) signal(sig syscall.Signal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reaped {
		_ = unix.Kill(-c.pid, sig) // it may have ended, or be another user's by now
	}
}

// reap waits for the end and returns the exit code, 128 and the signal for a
// process that a signal has ended.
func (c *command) reap() int {
	<-c.exited
	c.mu.Lock()
	defer c.mu.Unlock()
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.pid, &ws, 0, nil)
		if err != syscall.EINTR {
			break
		}
	}
	c.reaped = true
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// end ends the command's process group: TERM, and KILL for what is left when the
// command has ended or the grace is over.
func (c *command) end() int {
	c.signal(unix.SIGTERM)
	for waited := time.Duration(0); waited < killGrace; waited += napStep {
		select {
		case <-c.exited:
			waited = killGrace
		default:
			nap()
		}
	}
	c.signal(unix.SIGKILL)
	return c.reap()
}

// napStep is the length of a nap.
const napStep = 10 * time.Millisecond

// nap sleeps a little. The kernel counts the time from now on, so that nothing
// waits for the clock of an earlier boot after a restore.
func nap() {
	ts := unix.NsecToTimespec(int64(napStep))
	_ = unix.Nanosleep(&ts, nil) // a signal may cut it short
}
