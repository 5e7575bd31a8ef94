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
	// be stopped, until it takes this for called off.
	stopTimeout = 2 * time.Second
	// contSettle is how long a process that was continued waits before it connects:
	// before a dump the supervisor may continue it for a moment.
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
			// The runtime hands over a SIGCONT from before this stop before the stop itself.
			select {
			case <-cont:
			default:
			}
			c.Disconnect()
			handler := defaultStop()
			awaitCont(cont)
			select {
			case <-stop: // came before what has just been waited for
			default:
			}
			// From here on a stop is heard of again; there is nothing yet to let go of.
			handler.restore()
			c.Reconnect()
		}
	}()
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

// awaitCont waits until the process was stopped and continued. The runtime may
// have handed over a SIGCONT before a SIGTSTP that was sent earlier, if it got
// both at once; so it also returns when nobody has stopped the process.
func awaitCont(cont <-chan os.Signal) {
	var continued atomic.Bool
	calledOff := make(chan struct{})
	go func() {
		defer close(calledOff)
		for waited := time.Duration(0); waited < stopTimeout && !continued.Load(); waited += napStep {
			nap()
		}
	}()
	select {
	case <-cont:
	case <-calledOff:
	}
	continued.Store(true)
	for waited := time.Duration(0); waited < contSettle; waited += napStep {
		nap()
	}
}
