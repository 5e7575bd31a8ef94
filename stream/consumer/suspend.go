package consumer

import (
	"os"
	"os/signal"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// stopTimeout is how long a process that was told to stop runs on, waiting to
	// be stopped, until it takes this for called off. The runtime may hand over the
	// SIGCONT first, if it got both at once.
	stopTimeout = 2 * time.Second
	// contSettle is how long a process that was continued waits before it connects:
	// before a dump the supervisor may continue it for a moment, and one stop may
	// follow another.
	contSettle = 20 * time.Millisecond
)

// suspendable is what has to be put in order before the process is stopped.
type suspendable interface {
	Disconnect()
	Reconnect()
}

// followStops makes c let go of everything when SIGTSTP comes, and take it up
// again after SIGCONT; see the package's documentation. It returns at once.
func followStops(c suspendable) {
	stop, cont := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(cont, unix.SIGCONT)
	signal.Notify(stop, unix.SIGTSTP)
	go func() {
		for {
			select {
			case <-cont:
				continue
			case <-stop:
			}
			c.Disconnect()
			for again := true; again; {
				again = stopped(stop, cont)
			}
			c.Reconnect()
		}
	}()
}

// stopped lets the process be stopped, and returns some time after it was
// continued; again means that it is to be stopped once more. There is nothing to
// let go of.
func stopped(stop, cont <-chan os.Signal) (again bool) {
	// The runtime hands over a SIGCONT from before the stop before the stop itself.
	drain(cont)
	handler := defaultStop()
	called := after(stopTimeout)
	select {
	case <-cont:
	case <-called.off:
	}
	called.cancel.Store(true)
	drain(stop) // what came before the handler was gone has had its effect
	handler.restore()
	// The supervisor may have looked a moment ago, and take the process for ready.
	select {
	case <-stop:
		return true
	case <-after(contSettle).off:
		return false
	}
}

func drain(signals <-chan os.Signal) {
	select {
	case <-signals:
	default:
	}
}

// timeout closes off after a while; see nap.
type timeout struct {
	off    chan struct{}
	cancel atomic.Bool
}

func after(d time.Duration) *timeout {
	t := &timeout{off: make(chan struct{})}
	go func() {
		defer close(t.off)
		for waited := time.Duration(0); waited < d && !t.cancel.Load(); waited += napStep {
			nap()
		}
	}()
	return t
}

// stopAction is an action for SIGTSTP, as the kernel has it.
type stopAction [8]uint64

// defaultStop puts the default action of SIGTSTP in place and returns what was
// there. Package signal cannot: Stop and Reset leave a handler that does nothing,
// which the supervisor would wait for, and Ignore loses a stop that comes then.
func defaultStop() (was stopAction) {
	var stops stopAction // SIG_DFL is 0
	sigaction(&stops, &was)
	return was
}

func (a stopAction) restore() { sigaction(&a, nil) }

func sigaction(set, was *stopAction) {
	// It fails only for arguments that make no sense. 8 is the size of a signal set.
	unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGTSTP),
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(was)), 8, 0, 0)
}
