package names

import (
	"sync"
	"time"

	"headrace/quorum"
)

// asking has all who ask during one round of asking others share the next one.
type asking struct {
	// read asks whether this node leads.
	read func() error
	// ended is closed when nobody is to wait any more, whatever read does.
	ended <-chan struct{}

	mu      sync.Mutex
	next    *round
	running bool
}

// round is one that has not begun.
type round struct {
	done chan struct{}
	err  error // set before done is closed
}

// ask waits for a round that has begun after it was called. It returns ErrClosed when ended is closed before, and quorum.ErrBusy when late has come.
func (a *asking) ask(late <-chan time.Time) error {
	a.mu.Lock()
	if a.next == nil {
		a.next = &round{done: make(chan struct{})}
	}
	r := a.next
	if !a.running {
		a.running = true
		go a.run()
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-a.ended:
		return ErrClosed
	case <-late:
		return quorum.ErrBusy
	}
}

// run has rounds as long as somebody waits for one.
func (a *asking) run() {
	for {
		a.mu.Lock()
		r := a.next
		a.next, a.running = nil, r != nil
		a.mu.Unlock()
		if r == nil {
			return
		}
		r.err = a.read()
		close(r.done)
	}
}
