package stream

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// Serve takes connections of consumers from l, a unix socket, until Close, whatever
// the kernel is short of meanwhile. The user at the other
// end must be the stream's owner or root.
func (e *Engine) Serve(l *accept.Listener) error {
	go func() {
		<-e.ctx.Done()
		l.Close()
	}()
	for {
		conn, err := l.Accept()
		if err != nil {
			if e.ctx.Err() != nil {
				return nil
			}
			return err
		}
		sock := conn.(*net.UnixConn)
		uid, err := peer(sock)
		if err != nil {
			e.cfg.Log.Warn("a stream connection without a known user", "err", err)
			sock.Close()
			continue
		}
		if !l.Reserve.Filled() && !budget.Privileged(uid) {
			sock.Close() // it comes again
			l.Reserve.Filled()
			continue
		}
		e.mu.Lock()
		if e.closed {
			sock.Close()
		} else {
			e.work.Go(func() { e.serveConn(sock, uid) })
		}
		e.mu.Unlock()
	}
}

// peer is the user at the other end.
func peer(sock *net.UnixConn) (uint32, error) {
	cred, err := linux.PeerCredentials(sock)
	if err != nil {
		return 0, err
	}
	return cred.Uid, nil
}

const (
	// helloTimeout is how long a connection may be silent at its beginning.
	helloTimeout = 10 * time.Second
	// maxLinks is how many connections an ordinary user may have, maxLinksOthers all
	// of them together.
	maxLinks, maxLinksOthers = 2 * MaxConsumers, 4 * MaxConsumers
)

// errLater ends a connection without a word: the consumer comes again.
var errLater = errors.New("not now")

func (e *Engine) serveConn(sock *net.UnixConn, uid uint32) {
	l := &link{e: e, uid: uid, conn: protocol.NewServerConn(sock), told: map[uint32]bool{}}
	l.cond = sync.NewCond(&l.mu)
	if err := e.enter(l); err != nil {
		e.cfg.Log.Debug("a stream connection was refused", "user", uid, "err", err)
		sock.Close()
		return
	}
	sock.SetReadDeadline(time.Now().Add(helloTimeout))

	var writer sync.WaitGroup
	writer.Go(l.write)
	c, err := l.hello()
	if err == nil {
		sock.SetReadDeadline(time.Time{})
		err = l.converse(c)
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errLater) {
		l.fail(err.Error())
	}
	if c != nil {
		l.gone(c)
	}
	l.finish()
	writer.Wait()
	l.conn.Close()
	e.mu.Lock()
	delete(e.links, l)
	if !budget.Privileged(uid) {
		e.budget.Give(uid, 1)
	}
	e.trimPool()
	e.mu.Unlock()
}

// enter counts a connection, unless there are too many.
func (e *Engine) enter(l *link) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	if budget.Privileged(l.uid) {
		e.links[l] = true
		return nil
	}
	if err := e.budget.Take(l.uid, 1); err != nil {
		return err
	}
	e.links[l] = true
	return nil
}

// hello reads the first message and finds the consumer.
func (l *link) hello() (*consumer, error) {
	m, err := l.conn.Receive()
	if err != nil {
		return nil, err
	}
	h, ok := m.(*protocol.Hello)
	if !ok {
		return nil, errors.New("the first message has to be Hello")
	}
	if h.Version != protocol.Version {
		return nil, fmt.Errorf("version %d of the protocol is not known here; this daemon speaks %d", h.Version, protocol.Version)
	}
	c, err := l.e.consumer(h, l.uid)
	if err != nil {
		return nil, err
	}
	l.owner = c.s.spec.Owner
	return c, c.attach(l, h)
}

// consumer finds the consumer that h means.
func (e *Engine) consumer(h *protocol.Hello, uid uint32) (*consumer, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.streams[h.Stream]
	if s == nil || uid != 0 && uid != s.spec.Owner.UID {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, h.Stream)
	}
	if h.Consumer >= uint32(len(s.consumers)) {
		return nil, fmt.Errorf("stream %s has %d consumers; there is no number %d", h.Stream, len(s.consumers), h.Consumer)
	}
	if h.Attempt == 0 {
		return nil, errors.New("attempts count from 1")
	}
	return s.consumers[h.Consumer], nil
}

// attach connects l with the attempt of h. That it did is durable before it is
// given anything: an engine that starts again then waits for it.
func (c *consumer) attach(l *link, h *protocol.Hello) error {
	e := c.s.e
	e.mu.Lock()
	err := c.admit(h)
	ended := c.phase == committed && c.attempt == h.Attempt
	if err == nil {
		c.arriving++
	}
	e.mu.Unlock()
	if err != nil {
		return err
	}
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		c.arriving--
	}()
	if !ended {
		if err := c.s.write(entry{verb: attached, consumer: c.index, attempt: h.Attempt}); err != nil {
			e.cfg.Log.Error("record an attempt", "stream", c.s.spec.ID, "err", err)
			return errLater
		}
	}
	return c.arrive(l, h)
}

// arrive connects l with its consumer, if nobody else has come or given it up
// while that was written down.
func (c *consumer) arrive(l *link, h *protocol.Hello) error {
	c.s.e.mu.Lock()
	defer c.s.e.mu.Unlock()
	if l.conn.HungUp() {
		return errLater // another connection may be here already, and know more
	}
	if err := c.admit(h); err != nil {
		return err
	}
	if h.Attempt > c.attempt {
		c.supersede(h.Attempt)
	}
	return c.connect(l, h)
}

// admit tells whether h may attach.
func (c *consumer) admit(h *protocol.Hello) error {
	switch {
	case c.s.err != nil:
		return c.s.err
	case h.Attempt < c.attempt, h.Attempt == c.attempt && (c.phase == over || c.fenced):
		return fmt.Errorf("attempt %d of consumer %d was given up", h.Attempt, c.index)
	case c.finishing:
		return errLater // an earlier connection of it is finishing
	}
	return nil
}

func (c *consumer) connect(l *link, h *protocol.Hello) error {
	s := c.s
	if c.link != nil {
		c.link.close() // a connection that it has lost
		c.unlink()
	}
	wasUnknown := c.phase == unknown
	c.link = l
	l.send(message(s.welcome(c)))
	if c.phase == committed {
		return nil // Finish was recorded; the answer got lost
	}
	if err := c.resume(h); err != nil {
		c.link = nil
		return err
	}
	c.phase = present
	if wasUnknown && s.unknown > 0 {
		s.unknown--
	}
	s.serve()
	return nil
}

func (s *stream) welcome(c *consumer) *protocol.Welcome {
	w := &protocol.Welcome{Bytes: uint64(s.plan.bytes), Units: s.plan.units, Replay: c.committedUnits != nil}
	switch s.spec.Rule.Split {
	case Files:
		w.Kind = protocol.Files
	case Lines:
		w.Delimiter = string(s.spec.Rule.Delimiter)
	}
	return w
}

// converse answers the consumer until it has finished or its connection ends.
func (l *link) converse(c *consumer) error {
	for {
		m, err := l.conn.Receive()
		if err != nil {
			return net.ErrClosed // whatever it was, there is nobody to tell
		}
		switch m := m.(type) {
		case *protocol.Next:
			err = l.locked(c, func() error { return c.next() })
		case *protocol.Consumed:
			err = l.locked(c, func() error { return c.consumed(m) })
		case *protocol.Result:
		case *protocol.Finish:
			if err = c.finish(l, m); err == nil {
				return nil
			}
		default:
			err = fmt.Errorf("message %d is not for the daemon", m.Type())
		}
		if err != nil {
			return err
		}
	}
}

// locked runs f if c still has this connection.
func (l *link) locked(c *consumer, f func() error) error {
	l.e.mu.Lock()
	defer l.e.mu.Unlock()
	if c.link != l {
		return net.ErrClosed
	}
	return f()
}

func (c *consumer) next() error {
	switch {
	case c.phase == committed:
		c.link.send(message(&protocol.EOF{}))
		return nil
	case c.cur != nil:
		return errors.New("it asks for a unit before it has consumed the last one")
	case c.asked:
		return errors.New("it has asked for a unit already")
	}
	if n := len(c.units); n > 0 && c.s.fetches[c.units[n-1]] != nil {
		return errors.New("it asks for a unit while the last one is still on its way")
	}
	c.asked = true
	c.s.waiting = append(c.s.waiting, c)
	c.s.serve()
	return nil
}

// finish ends the attempt durably.
func (c *consumer) finish(l *link, m *protocol.Finish) error {
	e := c.s.e
	e.mu.Lock()
	if c.link != l {
		e.mu.Unlock()
		return net.ErrClosed
	}
	if c.phase == committed {
		e.mu.Unlock()
		l.send(message(&protocol.Finished{}))
		return nil
	}
	c.finishing = true
	rec := entry{verb: finished, consumer: c.index, attempt: c.attempt, code: m.Code, units: slices.Clone(c.units)}
	e.mu.Unlock()

	err := c.s.write(rec)

	e.mu.Lock()
	defer e.mu.Unlock()
	c.finishing = false
	if err != nil {
		if c.doomed {
			attempt := c.attempt
			e.work.Go(func() { c.s.giveUp(c, attempt, "was given up") })
		}
		e.cfg.Log.Error("record the end of an attempt", "stream", c.s.spec.ID, "err", err)
		return errLater
	}
	// The answer goes out before the consumer lets go of the connection.
	l.send(message(&protocol.Finished{}))
	c.close(rec.units, m.Code == 0)
	c.s.serve()
	c.s.afterwards()
	return nil
}

// gone takes note that a connection has ended.
func (l *link) gone(c *consumer) {
	e := l.e
	e.mu.Lock()
	if c.link != l {
		e.mu.Unlock()
		return
	}
	c.unlink()
	if c.phase == committed || e.closed {
		e.mu.Unlock()
		return
	}
	c.phase = away
	attempt := c.attempt
	c.s.afterwards()
	e.mu.Unlock()
	err := c.s.writeIf(func() (entry, bool) {
		e.mu.Lock()
		defer e.mu.Unlock()
		// Not if it is coming back: then it has units that are not on this list.
		still := c.phase == away && c.attempt == attempt && c.arriving == 0
		return entry{verb: left, consumer: c.index, attempt: attempt, units: slices.Clone(c.units)}, still
	})
	if err != nil && !errors.Is(err, ErrUnknown) {
		e.cfg.Log.Error("record the units of a consumer", "stream", c.s.spec.ID, "err", err)
	}
}

// afterwards lets go of memory when nobody is there to read it.
func (s *stream) afterwards() {
	if s.attachedCount() == 0 {
		s.release()
	}
}
