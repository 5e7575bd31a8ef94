package consumer

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// stopTimeout is how long a process that was told to stop runs on, waiting to
	// be stopped, until it takes this for called off.
	stopTimeout = 2 * time.Second
	// contSettle is how long a process that was continued waits before it connects:
	// before a dump the supervisor may continue it for a moment.
	contSettle = 10 * time.Millisecond
)

// suspendable is what has to be put in order before the process is stopped.
type suspendable interface {
	Disconnect()
	Reconnect()
}

// stops follows SIGTSTP and SIGCONT. A process that is started while it waits to
// be stopped would ignore SIGTSTP; holding mu keeps that away.
type stops struct{ mu sync.Mutex }

// follow makes c let go of everything when SIGTSTP comes, and take it up again
// after SIGCONT; see the package's documentation. It returns at once.
func (s *stops) follow(c suspendable) {
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
			s.await(stop, cont)
			c.Reconnect()
		}
	}()
}

// await tells the supervisor, by having no handler, that it may stop the
// process, and waits until it has and has continued it. When it returns a stop is
// heard of again, and there is nothing yet to let go of.
func (s *stops) await(stop chan<- os.Signal, cont <-chan os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	signal.Ignore(unix.SIGTSTP) // signal.Stop would leave the handler in place
	awaitCont(cont)
	signal.Notify(stop, unix.SIGTSTP)
}

// awaitCont waits until the process was stopped and continued. The runtime may
// hand over SIGCONT before a SIGTSTP that was sent earlier; so it also returns
// when nobody has stopped the process.
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
