package attach

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/crash"
	"headrace/internal/linux"
)

// usageCode is the exit code for a command line that makes no sense.
const usageCode = 2

// Run implements headrace-shim attach: it has a command run as a task, or, when that
// cannot be, becomes the command. It returns the exit code.
func Run(args []string) int {
	var c call
	fl := flag.NewFlagSet("attach", flag.ContinueOnError)
	fl.StringVar(&c.socket, "socket", "", "the daemon's socket for attached tasks")
	fl.StringVar(&c.id, "id", "", "the task's name")
	fl.DurationVar(&c.timeout, "timeout", DefaultTimeout, "how long the daemon may take")
	if err := fl.Parse(args); err != nil {
		return usageCode
	}
	if c.argv = fl.Args(); len(c.argv) == 0 {
		fmt.Fprintln(os.Stderr, "headrace-shim attach: there is no command; give one after --")
		return usageCode
	}
	surviveBrokenOutput()
	line, supervisor, err := c.hand()
	if err == nil {
		crash.Here("attach.ready")
		err = c.waitInPlace(line, supervisor)
		line.Close()
	}
	return alone(c.argv, err)
}

// surviveBrokenOutput keeps this process from dying of SIGPIPE when nobody reads what
// it says on standard error. A program that it executes is not affected.
func surviveBrokenOutput() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// alone becomes the command, without a task.
func alone(argv []string, why error) int {
	fmt.Fprintf(os.Stderr, "headrace-shim attach: %v; the command runs without Headrace\n", why)
	code, err := linux.Become(argv, os.Environ())
	fmt.Fprintf(os.Stderr, "headrace-shim attach: %v\n", err)
	return code
}

// call is one attempt to have a command run as a task.
type call struct {
	socket, id string
	argv       []string
	timeout    time.Duration
	again      bool // see Request
}

// hand hands the command over. It returns this side of the lifeline, on which the
// supervisor waits for go, and the supervisor's pid. After an error the supervisor,
// if there is one, has been let go of and will not run the command.
func (c call) hand() (line *os.File, supervisor int, err error) {
	deadline := time.Now().Add(c.timeout)
	q, pipes, err := c.request()
	if err != nil {
		return nil, 0, err
	}
	conn, err := dial(c.socket, deadline)
	if err != nil {
		return nil, 0, err
	}
	defer conn.Close()
	near, far, err := newLifeline()
	if err != nil {
		return nil, 0, err
	}
	crash.Here("attach.connected")
	err = send(conn, q, append([]int{int(far.Fd())}, pipes...), deadline)
	far.Close()
	if err == nil {
		crash.Here("attach.sent")
		supervisor, err = awaitReady(conn, near, deadline)
	}
	if err != nil {
		near.Close()
		return nil, 0, err
	}
	return near, supervisor, nil
}

// newLifeline makes a lifeline: this side, on which the kernel tells who sends, and
// the supervisor's.
func newLifeline() (near, far *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	near, far = os.NewFile(uintptr(fds[0]), "lifeline"), os.NewFile(uintptr(fds[1]), "lifeline of the supervisor")
	if err := unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		closeAll([]*os.File{near, far})
		return nil, nil, os.NewSyscallError("setsockopt(SO_PASSCRED)", err)
	}
	return near, far, nil
}

// waitInPlace executes this program again, so that it is small and its command line
// tells the supervisor's pid. It returns only on failure; then go was not sent.
func (c call) waitInPlace(line *os.File, supervisor int) error {
	fd := int(line.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	args := []string{"headrace-shim", "attached", "-shim-pid", fmt.Sprint(supervisor), "-id", c.id, "-fd", fmt.Sprint(fd), "-socket", c.socket}
	if c.again {
		args = append(args, "-again")
	}
	err := syscall.Exec("/proc/self/exe", append(append(args, "--"), c.argv...), os.Environ())
	return fmt.Errorf("execute headrace-shim again: %w", err)
}
