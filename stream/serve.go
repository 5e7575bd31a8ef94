package stream

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/internal/accounts"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/stream/deal"
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
		cred, err := linux.PeerCredentials(sock)
		if err != nil {
			e.cfg.Log.Warn("a stream connection without a known user", "err", err)
			sock.Close()
			continue
		}
		if !l.Reserve.Filled() && !budget.Privileged(cred.Uid) {
			sock.Close() // it comes again
			l.Reserve.Filled()
			continue
		}
		e.mu.Lock()
		if e.closed {
			sock.Close()
		} else {
			e.work.Go(func() { e.serveConn(sock, cred.Uid) })
		}
		e.mu.Unlock()
	}
}

// helloTimeout is how long a connection may be silent at its beginning. Tests shorten it.
var helloTimeout = 10 * time.Second

// conversation is what is said on a connection, after Hello with one consumer of a
// stream.
type conversation struct {
	*link
	e        *Engine
	s        *stream
	consumer uint32
}

func (e *Engine) serveConn(sock *net.UnixConn, uid uint32) {
	c := &conversation{link: newLink(sock, e.cfg.Log), e: e}
	payer, _ := accounts.Here.PayerOf(uid)
	if err := e.enter(c.link, payer); err != nil {
		e.cfg.Log.Debug("a stream connection was refused", "user", uid, "err", err)
		sock.Close()
		return
	}
	sock.SetReadDeadline(time.Now().Add(helloTimeout))
	taken := int64(0)
	c.conn.Bound(func(n int) error {
		err := e.hellos.Take(payer, 2*int64(n)) // the body, and what is made of it
		if err == nil {
			taken += 2 * int64(n)
		}
		return err
	})

	var writer sync.WaitGroup
	writer.Go(c.link.write)
	err := c.hello(uid)
	e.hellos.Give(payer, taken)
	if err == nil {
		sock.SetReadDeadline(time.Time{})
		err = c.converse()
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, deal.ErrLater) {
		c.fail(err.Error())
	}
	if c.s != nil {
		c.gone()
		c.s.keepEnds()
	}
	c.link.finish()
	writer.Wait()
	c.conn.Close()
	e.mu.Lock()
	delete(e.links, c.link)
	e.budget.Give(payer, 1)
	e.scans.Trim()
	e.mu.Unlock()
}

// enter counts a connection, unless there are too many.
func (e *Engine) enter(l *link, uid uint32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return net.ErrClosed
	}
	if err := e.budget.Take(uid, 1); err != nil {
		return err
	}
	e.links[l] = true
	return nil
}

// hello reads the first message and finds the consumer.
func (c *conversation) hello(uid uint32) error {
	m, err := c.conn.Receive()
	if errors.Is(err, protocol.ErrMalformed) {
		return err
	}
	if err != nil { // also if it, or the daemon, stood still for too long, or there is no room: what is said is final
		return deal.ErrLater
	}
	h, ok := m.(*protocol.Hello)
	if !ok {
		return errors.New("the first message has to be Hello")
	}
	if h.Version > protocol.Version {
		c.e.tellNewer(h, uid)
		return deal.ErrLater
	}
	if h.Version != protocol.Version {
		return fmt.Errorf("version %d of the protocol is not known here; this daemon speaks %d", h.Version, protocol.Version)
	}
	s, err := c.e.meant(h, uid)
	if err != nil {
		return err
	}
	c.s, c.consumer, c.owner = s, h.Consumer, s.spec.Owner
	return c.attach(h)
}

// tellNewer says that a user has readers of a newer version, which come again and again: once an hour, and only of who has the
// stream.
func (e *Engine) tellNewer(h *protocol.Hello, uid uint32) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.streams[h.Stream]
	if s == nil || uid != 0 && uid != s.spec.Owner.UID || time.Since(e.newerTold[uid]) < time.Hour {
		return
	}
	e.newerTold[uid] = time.Now()
	e.cfg.Log.Warn("a reader is of a newer version; all such of its user wait for a daemon that is", "user", uid, "version", h.Version)
}

// meant finds the stream that h means, and sees that it has such a consumer.
func (e *Engine) meant(h *protocol.Hello, uid uint32) (*stream, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.awaitsNewer(h.Stream) {
		return nil, deal.ErrLater // a daemon of that version deals it
	}
	s := e.streams[h.Stream]
	if s == nil || uid != 0 && uid != s.spec.Owner.UID {
		return nil, fmt.Errorf("%w: %s", ErrUnknown, h.Stream)
	}
	if h.Consumer >= uint32(len(s.seats)) {
		return nil, fmt.Errorf("stream %s has %d consumers; there is no number %d", h.Stream, len(s.seats), h.Consumer)
	}
	if h.Attempt == 0 {
		return nil, errors.New("attempts count from 1")
	}
	return s, nil
}

// attach connects with the attempt of h. That it did is durable before it is
// given anything: an engine that starts again then waits for it.
func (c *conversation) attach(h *protocol.Hello) error {
	bytes, err := c.s.plan.Measure(h.Units)
	if err != nil {
		return err
	}
	entry, err := c.coming(h)
	if err != nil {
		return err
	}
	_, err = c.s.writeFor(entry)
	defer c.e.mu.Unlock()
	if err != nil {
		c.log.Error("record an attempt", "stream", c.s.spec.ID, "err", err)
		return deal.ErrLater
	}
	return c.arrive(h, bytes)
}

// coming begins to attach. What the consumer has closed is not written down: it may have ended on
// another connection since.
func (c *conversation) coming(h *protocol.Hello) (*deal.Entry, error) {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.conn.HungUp() {
		return nil, deal.ErrLater
	}
	return c.s.deal.Coming(h)
}

// arrive connects with the consumer, if nobody else has come or given it up while
// that was written down.
func (c *conversation) arrive(h *protocol.Hello, bytes int64) error {
	if c.conn.HungUp() {
		return deal.ErrLater // another connection may be here already, and know more
	}
	if err := c.s.deal.Admit(h); err != nil {
		return err
	}
	at := &c.s.seats[c.consumer]
	if had := c.s.deal.Attempt(c.consumer); h.Attempt > had {
		at.dismiss(superseded(h.Attempt, had))
	} else if at.link != nil {
		at.link.close() // a connection that it has lost
		at.clear()
	}
	at.link = c.link
	err := c.s.deal.Attach(h, bytes)
	c.say(c.welcome())
	if err != nil {
		at.clear()
	}
	c.s.Serve()
	return err
}

func (c *conversation) welcome() *protocol.Welcome {
	p := c.s.plan
	w := &protocol.Welcome{Bytes: uint64(p.Bytes), Units: p.Units}
	switch p.Rule.Split {
	case deal.Files:
		w.Kind = protocol.Files
	case deal.Lines:
		w.Delimiter = string(p.Rule.Delimiter)
	}
	return w
}

// converse answers the consumer until it has finished or its connection ends. One that does
// not read what it is told is not listened to: what waits to be sent takes memory and descriptors.
func (c *conversation) converse() error {
	for {
		c.awaitSent()
		m, err := c.conn.Receive()
		if err != nil {
			return net.ErrClosed // whatever it was, there is nobody to tell
		}
		switch m := m.(type) {
		case *protocol.Next:
			err = c.locked(func() error {
				err := c.s.deal.Ask(c.consumer)
				c.s.Serve()
				return err
			})
		case *protocol.Consumed:
			err = c.locked(func() error { return c.s.consumed(c.consumer, m) })
		case *protocol.Result:
		case *protocol.Finish:
			if err = c.end(m.Code); err == nil {
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

// locked runs f if the consumer still has this connection.
func (c *conversation) locked(f func() error) error {
	c.e.mu.Lock()
	defer c.e.mu.Unlock()
	if c.s.seats[c.consumer].link != c.link {
		return net.ErrClosed
	}
	return f()
}

// end ends the attempt; with code 0 durably.
func (c *conversation) end(code int32) error {
	var entry *deal.Entry
	if err := c.locked(func() (err error) {
		if entry, err = c.s.deal.Finishing(c.consumer, code); err == nil && entry == nil {
			c.say(&protocol.Finished{})
		}
		return err
	}); err != nil || entry == nil {
		return err
	}
	doomed, err := c.s.writeFor(entry)
	defer c.e.mu.Unlock()
	if doomed {
		c.e.work.Go(func() { c.e.giveUp(c.s, c.consumer, entry.Attempt, false) })
	}
	if err != nil {
		c.log.Error("record the end of an attempt", "stream", c.s.spec.ID, "err", err)
		return deal.ErrLater
	}
	// The answer goes out before the consumer lets go of the connection.
	c.say(&protocol.Finished{})
	c.s.seats[c.consumer].clear()
	c.s.Serve()
	c.s.afterwards()
	return nil
}

// gone takes note that a connection has ended.
func (c *conversation) gone() {
	leaves := false
	var attempt uint32
	c.locked(func() error {
		c.s.seats[c.consumer].clear()
		c.s.deal.Detach(c.consumer)
		if leaves, attempt = !c.e.closed, c.s.deal.Attempt(c.consumer); leaves {
			c.s.afterwards()
		}
		return nil
	})
	if !leaves {
		return
	}
	err := c.s.write(func() *deal.Entry {
		c.e.mu.Lock()
		defer c.e.mu.Unlock()
		return c.s.deal.Left(c.consumer, attempt)
	})
	if err != nil && !errors.Is(err, ErrUnknown) {
		c.log.Error("record the units of a consumer", "stream", c.s.spec.ID, "err", err)
	}
}
