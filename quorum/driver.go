package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// mostCalls and mostBytes bound what waits for the goroutine. Messages beyond are lost,
	// as they may be anyway.
	mostCalls = 1 << 14
	mostBytes = 64 << 20
)

// Driver is a Node with a goroutine and a clock. Its methods may be called from any
// goroutine.
type Driver struct {
	mu     sync.Mutex
	calls  []*call
	mail   []Message
	bytes  int
	closed bool
	given  chan struct{} // closed when nobody is to wait any more
	began  time.Time     // of the round under way, or the last one

	wake chan struct{}
	done chan struct{}
	err  error // of Close
}

// Drive takes over a node, with that much time between ticks.
func Drive(n *Node, tick time.Duration) *Driver {
	d := &Driver{given: make(chan struct{}), began: time.Now(), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go d.run(n, tick)
	return d
}

func (d *Driver) run(n *Node, tick time.Duration) {
	defer close(d.done)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for busy := false; ; {
		if busy {
			select {
			case <-ticker.C:
				n.Tick()
			default:
			}
		} else {
			select {
			case <-ticker.C:
				n.Tick()
			case <-d.wake:
			}
		}
		d.mu.Lock()
		calls, mail, closed := d.calls, d.mail, d.closed
		d.calls, d.mail, d.bytes, d.began = nil, nil, 0, time.Now()
		d.mu.Unlock()
		if closed {
			d.err = n.Close()
		}
		for _, m := range mail {
			n.Step(m)
		}
		for _, c := range calls {
			c.do(n)
		}
		if closed {
			return
		}
		more, _ := n.Work() // an error stays, and is everybody's answer
		busy = more
	}
}

func (d *Driver) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// call is something that waits for the goroutine.
type call struct{ do func(*Node) }

func (d *Driver) call(f func(*Node)) (*call, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return nil, ErrStopped
	case len(d.calls) >= mostCalls:
		return nil, ErrBusy
	}
	c := &call{f}
	d.calls = append(d.calls, c)
	d.poke()
	return c, nil
}

// takeBack takes a call away that was not begun, and reports whether it was not. One that stayed would take the place of another while a round lasts
// long, though nobody waits for it.
func (d *Driver) takeBack(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.Index(d.calls, c)
	if i >= 0 {
		d.calls = slices.Delete(d.calls, i, i+1)
	}
	return i >= 0
}

// Deliver takes a message from the transport, and does not wait.
func (d *Driver) Deliver(m Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	size := len(m.Payload) + 64
	if d.closed || d.bytes+size > mostBytes {
		return
	}
	d.mail, d.bytes = append(d.mail, m), d.bytes+size
	d.poke()
}

// Still returns for how long no round has begun: more than a tick when the disk of the log, or the machine of a group, does not answer. Such a node
// is heard of by nobody, and leads nothing any more.
func (d *Driver) Still() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Since(d.began)
}

// GiveUp has all who wait for an answer of Propose and Read wait no longer: ErrBusy when nothing was begun, else ErrUncertain.
func (d *Driver) GiveUp() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.given)
	d.given = make(chan struct{})
}

type answer struct {
	bytes []byte
	err   error
}

// ask has the node do something that ends later.
func (d *Driver) ask(ctx context.Context, f func(n *Node, done func([]byte, error))) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	given := d.given
	d.mu.Unlock()
	c := make(chan answer, 1)
	asked, err := d.call(func(n *Node) { f(n, func(b []byte, err error) { c <- answer{b, err} }) })
	if err != nil {
		return nil, err
	}
	select {
	case a := <-c:
		return a.bytes, a.err
	case <-ctx.Done():
		if d.takeBack(asked) {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrUncertain, ctx.Err())
	case <-given:
		if d.takeBack(asked) {
			return nil, ErrBusy
		}
		return nil, ErrUncertain
	}
}

// Propose is Node.Propose. When ctx ends before an answer, the command may take effect if the error is ErrUncertain.
func (d *Driver) Propose(ctx context.Context, group uint64, data []byte) ([]byte, error) {
	return d.ask(ctx, func(n *Node, done func([]byte, error)) { n.Propose(group, data, done) })
}

// Read is Node.Read.
func (d *Driver) Read(ctx context.Context, group uint64) error {
	_, err := d.ask(ctx, func(n *Node, done func([]byte, error)) { n.Read(group, func(err error) { done(nil, err) }) })
	return err
}

// Do calls f with the node, between its rounds.
func (d *Driver) Do(f func(*Node) error) error {
	c := make(chan error, 1)
	if _, err := d.call(func(n *Node) { c <- f(n) }); err != nil {
		return err
	}
	return <-c
}

// Close ends the node.
func (d *Driver) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return errors.New("quorum: closed twice")
	}
	d.closed = true
	d.poke()
	d.mu.Unlock()
	<-d.done
	return d.err
}
