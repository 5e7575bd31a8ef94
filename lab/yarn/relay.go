package yarn

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// A relay is between the node daemons and the manager, and counts what goes over their
// connections, both ways.
type relay struct {
	listener net.Listener
	to       func() (net.Conn, error)
	bytes    atomic.Int64

	mu   sync.Mutex
	open map[net.Conn]bool // both ends of each connection; nil when it is over
	all  sync.WaitGroup
}

// startRelay listens on a port of its own and connects by to.
func startRelay(listener net.Listener, to func() (net.Conn, error)) *relay {
	r := &relay{listener: listener, to: to, open: map[net.Conn]bool{}}
	r.all.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return // it is closed
			}
			r.all.Go(func() { r.serve(from) })
		}
	})
	return r
}

func (r *relay) serve(from net.Conn) {
	defer from.Close()
	to, err := r.to()
	if err != nil {
		return // there is no manager: who asks finds it out in the same way
	}
	defer to.Close()
	if !r.add(from, to) {
		return
	}
	defer r.remove(from, to)
	var both sync.WaitGroup
	pass := func(to, from net.Conn) {
		io.Copy(to, io.TeeReader(from, counter{&r.bytes}))
		// The other direction has nobody to talk to any more, either.
		to.Close()
		from.Close()
	}
	both.Go(func() { pass(to, from) })
	both.Go(func() { pass(from, to) })
	both.Wait()
}

func (r *relay) add(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.open == nil {
			return false
		}
		r.open[c] = true
	}
	return true
}

func (r *relay) remove(conns ...net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		delete(r.open, c)
	}
}

// close ends all connections. Nil is fine.
func (r *relay) close() error {
	if r == nil {
		return nil
	}
	err := r.listener.Close()
	r.mu.Lock()
	for c := range r.open {
		c.Close()
	}
	r.open = nil
	r.mu.Unlock()
	r.all.Wait()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// counter counts what is written to it.
type counter struct{ n *atomic.Int64 }

func (c counter) Write(b []byte) (int, error) {
	c.n.Add(int64(len(b)))
	return len(b), nil
}
