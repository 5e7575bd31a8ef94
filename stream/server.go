package stream

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// Serve takes connections of consumers from l until Close. The user at the other
// end must be the stream's owner or root.
func (e *Engine) Serve(l *net.UnixListener) error {
	go func() {
		<-e.ctx.Done()
		l.Close()
	}()
	for {
		sock, err := l.AcceptUnix()
		if err != nil {
			if e.ctx.Err() != nil {
				return nil
			}
			return err
		}
		uid, err := peer(sock)
		if err != nil {
			e.cfg.Log.Warn("a stream connection without a known user", "err", err)
			sock.Close()
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
	raw, err := sock.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var cerr error
	if err := raw.Control(func(fd uintptr) {
		cred, cerr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return 0, err
	}
	if cerr != nil {
		return 0, cerr
	}
	return cred.Uid, nil
}

const (
	// helloTimeout is how long a connection may be silent at its beginning.
	helloTimeout = 10 * time.Second
	// maxLinks is how many connections an ordinary user may have.
	maxLinks = 2 * MaxConsumers
)

// errLater ends a connection without a word: the consumer comes again.
var errLater = errors.New("not now")

// outgoing is a message on its way. With some goes a descriptor of their own, as
// what it stands for may be closed meanwhile: an Arena takes it along, a File one
// that is opened by it, and a Piece is read from it at its Offset.
type outgoing struct {
	m    protocol.Message
	file *os.File
}

func message(m protocol.Message) outgoing { return outgoing{m: m} }

// link is one connection. The engine's lock guards it, except for conn.
type link struct {
	e      *Engine
	uid    uint32
	conn   *protocol.Conn
	inline bool
	owner  linux.Credentials // of the stream
	// told are the arenas and files that the consumer has been told of.
	told map[uint32]bool

	// queue is sent by a goroutine of its own.
	mu     sync.Mutex
	cond   *sync.Cond
	queue  []outgoing
	ending bool
}

func (e *Engine) serveConn(sock *net.UnixConn, uid uint32) {
	l := &link{e: e, uid: uid, conn: protocol.NewServerConn(sock), told: map[uint32]bool{}}
	l.cond = sync.NewCond(&l.mu)
	if !e.enter(l) {
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
	e.trimPool()
	e.mu.Unlock()
}

// enter counts a connection, unless its user has too many.
func (e *Engine) enter(l *link) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for other := range e.links {
		if other.uid == l.uid {
			n++
		}
	}
	if e.closed || l.uid != 0 && n >= maxLinks {
		return false
	}
	e.links[l] = true
	return true
}

// send queues a message.
func (l *link) send(o outgoing) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending {
		o.drop()
		return
	}
	l.queue = append(l.queue, o)
	l.cond.Signal()
}

func (o outgoing) drop() {
	if o.file != nil {
		o.file.Close()
	}
}

// sendPiece queues a piece and, if need be, what it lies in.
func (l *link) sendPiece(unit uint32, p piece) {
	m := &protocol.Piece{Unit: unit, Length: uint32(p.n)}
	if in := p.slot.input; in != nil {
		m.Arena, m.Offset = in.id, uint64(p.slot.at+int64(p.off))
		l.sendFrom(in, m)
		return
	}
	a := p.slot.a
	if l.inline {
		m.Data = slices.Clone(p.slot.bytes()[p.off:][:p.n])
		l.send(message(m))
		return
	}
	if !l.told[a.id] {
		if !l.sendWith(&protocol.Arena{ID: a.id, Size: uint64(len(a.mem))}, a.file) {
			return
		}
		l.told[a.id] = true
	}
	m.Arena, m.Offset = a.id, uint64(p.slot.off+p.off)
	l.send(message(m))
}

// sendFrom queues a piece that lies in a file.
func (l *link) sendFrom(in *input, m *protocol.Piece) {
	if l.inline {
		m.Arena = 0
		l.sendWith(m, in.File)
		return
	}
	if !l.told[in.id] {
		if !l.sendWith(&protocol.File{ID: in.id, Size: uint64(in.Size), Mtime: uint64(in.Mtime)}, in.File) {
			return
		}
		l.told[in.id] = true
	}
	l.send(message(m))
}

// sendWith queues a message with a descriptor. It fails when there are no more of
// them: then the consumer comes again.
func (l *link) sendWith(m protocol.Message, f *os.File) bool {
	own, err := duplicate(f)
	if err != nil {
		l.e.cfg.Log.Error("share memory or a file with a consumer", "err", err)
		l.close()
		return false
	}
	l.send(outgoing{m, own})
	return true
}

// forget tells the consumer that an arena or a file is gone.
func (l *link) forget(id uint32) {
	if l.told[id] {
		delete(l.told, id)
		l.send(message(&protocol.Drop{ID: id}))
	}
}

// fail queues an error as the last message.
func (l *link) fail(text string) {
	l.send(message(&protocol.Error{Text: text}))
	l.finish()
}

// finish makes the writer end when it has sent everything.
func (l *link) finish() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ending = true
	l.cond.Signal()
}

// close ends the connection at once.
func (l *link) close() {
	l.finish()
	l.conn.Close()
}

// write sends what is queued, in order.
func (l *link) write() {
	for {
		l.mu.Lock()
		for len(l.queue) == 0 && !l.ending {
			l.cond.Wait()
		}
		queue := l.queue
		l.queue = nil
		ending := l.ending
		l.mu.Unlock()
		if err := l.flush(queue); err != nil {
			l.conn.Close() // the reader notices
			l.finish()
			return
		}
		if ending && len(queue) == 0 {
			l.conn.CloseWrite()
			return
		}
	}
}

func (l *link) flush(queue []outgoing) error {
	defer func() {
		for _, o := range queue {
			o.drop()
		}
	}()
	var batch []protocol.Message
	for _, o := range queue {
		m, with := o.m, o.file
		switch of := m.(type) {
		case *protocol.Piece:
			m, with = load(of, o.file), nil
		case *protocol.File:
			f, err := openAgain(o.file, l.owner)
			if err != nil {
				m, with = &protocol.Error{Text: err.Error()}, nil
				break
			}
			defer f.Close()
			with = f
		}
		if with == nil {
			batch = append(batch, m)
			continue
		}
		if err := l.conn.Send(batch...); err != nil {
			return err
		}
		batch = batch[:0]
		if err := l.conn.SendWith(m, with); err != nil {
			return err
		}
	}
	return l.conn.Send(batch...)
}

// load reads the bytes of a piece that is to carry them and does not yet.
func load(p *protocol.Piece, from *os.File) protocol.Message {
	if from == nil {
		return p
	}
	p.Data = make([]byte, p.Length)
	if _, err := from.ReadAt(p.Data, int64(p.Offset)); err != nil {
		return &protocol.Error{Text: fmt.Sprintf("read %s at %d: %v", from.Name(), p.Offset, err)}
	}
	p.Offset = 0
	return p
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
	l.inline = h.Inline
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
	c.stopGrace()
	if wasUnknown && s.unknown > 0 {
		s.unknown--
	}
	s.serve()
	s.changed()
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
	c.code = m.Code
	// The answer goes out before the consumer lets go of the connection.
	l.send(message(&protocol.Finished{}))
	c.close(rec.units, m.Code == 0)
	c.s.serve()
	c.s.afterwards()
	c.s.changed()
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
	c.startGrace()
	c.s.afterwards()
	e.mu.Unlock()
	c.s.changed()
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
