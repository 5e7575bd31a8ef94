package consumer

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// Attempts to connect are firstPause apart, then twice that, and so on up to
// lastPause. Tests shorten them.
var (
	firstPause = 10 * time.Millisecond
	lastPause  = time.Second
)

const (
	// awayAfter is the number of vain attempts, over some seconds, after which
	// Options.Away is told; deniedAfter that after which a socket that may not be
	// used is taken for a fact. A daemon that starts may need a moment to set its
	// rights.
	awayAfter   = 10
	deniedAfter = 15
	// reportAfter is how much is read before it is reported, unless somebody waits
	// for more.
	reportAfter = 1 << 20
)

// session is one connection, as far as it matters what was said on it. The
// client's mu guards it.
type session struct {
	conn *protocol.Conn
	// arenas are those that the daemon may name, mapped all that are mapped.
	arenas map[uint32]*arena
	mapped map[*arena]bool
	// incoming is the unit whose pieces come; at is the end of the last of them.
	incoming *Unit
	at       uint64
	// resend: the unit of Hello is to come again.
	resend bool
	// told is what the daemon has heard.
	told struct {
		position uint64
		whole    bool
		next     bool
		finish   bool
	}
}

var (
	// errCut: a connection ended that nobody had asked to end.
	errCut = errors.New("the connection was cut")
	// errShort: there was too little of something to connect, as when everybody comes back to a daemon at once.
	errShort = errors.New("the machine is short of something")
)

// run keeps the connection until the client is closed or has failed.
func (c *Client) run() {
	defer close(c.ended)
	for tries := 0; c.begin(); {
		welcomed, err := c.connect()
		c.end()
		var se *StreamError
		var pe *ProtocolError
		switch {
		case errors.As(err, &se), errors.As(err, &pe):
			c.fail(err)
			return
		case welcomed:
			tries = 0
		default:
			tries++
		}
		if !temporary(err) && (tries >= deniedAfter || !denied(err)) {
			c.fail(fmt.Errorf("connect to the daemon: %w", err))
			return
		}
		if tries == awayAfter && c.opt.Away != nil {
			c.opt.Away(err)
		}
		c.pause(tries)
	}
}

// begin waits until a connection is wanted; false means never again.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.held && !c.closed {
		c.changed.Wait()
	}
	c.busy = !c.closed
	return c.busy
}

// end lets go of what belongs to a connection.
func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy, c.conn = false, nil
	c.changed.Broadcast()
}

// pause waits before the next attempt, longer each time, until somebody calls.
func (c *Client) pause(tries int) {
	d := min(firstPause<<min(tries, 10), lastPause)
	t := time.NewTimer(d/2 + rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.kick:
	}
}

// temporary tells whether a daemon that starts again may mend an error.
func temporary(err error) bool {
	for _, e := range []error{
		errCut, errShort, unix.ENOENT, unix.ECONNREFUSED, unix.EAGAIN, unix.EINTR, unix.ECONNRESET, unix.EPIPE, unix.ENOTDIR,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// short tells whether connecting failed for want of what there may be again in a moment.
func short(err error) bool {
	return linux.Lacking(err) || errors.Is(err, unix.ENOBUFS) || errors.Is(err, unix.ETIMEDOUT) || errors.Is(err, unix.ECONNABORTED)
}

func denied(err error) bool { return errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) }

// dialSocket connects to a socket whose path may be longer than the kernel's limit.
func dialSocket(path string) (*net.UnixConn, error) {
	short, release, err := linux.SocketPath(path)
	if err != nil {
		return nil, err
	}
	defer release()
	return net.DialUnix("unix", nil, &net.UnixAddr{Name: short, Net: "unix"})
}

// connect connects once and serves the connection until it ends.
func (c *Client) connect() (welcomed bool, err error) {
	sock, err := c.opt.dial(c.path)
	if err != nil && short(err) {
		err = fmt.Errorf("%w: %w", errShort, err)
	}
	if err != nil {
		return false, err
	}
	s := &session{conn: protocol.NewConn(sock), arenas: make(map[uint32]*arena), mapped: make(map[*arena]bool)}
	defer c.drop(s)
	c.mu.Lock()
	if c.held || c.closed {
		c.mu.Unlock()
		return false, errCut
	}
	c.conn = s.conn
	hello := c.hello()
	c.mu.Unlock()
	// An error of the daemon may wait to be read even if this cannot be sent.
	_ = s.conn.Send(hello)
	m, err := s.receive()
	if err != nil {
		return false, err
	}
	w, ok := m.(*protocol.Welcome)
	if !ok {
		return false, unexpected(m)
	}
	if err := c.goLive(s, hello, w); err != nil {
		return false, err
	}
	for {
		c.tell()
		m, err := s.receive()
		if err == nil {
			err = c.accept(s, m)
		}
		if err != nil {
			return true, err
		}
	}
}

// receive returns the next message that is not an error.
func (s *session) receive() (protocol.Message, error) {
	m, err := s.conn.Receive()
	switch {
	case err == nil:
	case errors.Is(err, protocol.ErrMalformed):
		return nil, &ProtocolError{err.Error()}
	default:
		return nil, fmt.Errorf("%w: %w", errCut, err)
	}
	if e, ok := m.(*protocol.Error); ok {
		return nil, &StreamError{e.Text}
	}
	return m, nil
}

func unexpected(m protocol.Message) error {
	return &ProtocolError{fmt.Sprintf("a message that does not belong here (%T)", m)}
}

// goLive makes s the connection that is used.
func (c *Client) goLive(s *session, h *protocol.Hello, w *protocol.Welcome) error {
	if w.Kind != protocol.Records && w.Kind != protocol.Files {
		return &ProtocolError{fmt.Sprintf("a stream of kind %d", w.Kind)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.welcome == nil:
		c.welcome = w
	case c.welcome.Kind != w.Kind || c.welcome.Delimiter != w.Delimiter:
		return &ProtocolError{"the stream's records are not what they were"}
	}
	if c.held || c.closed {
		return errCut
	}
	s.resend = len(h.Units) > 0 && !h.Whole
	s.told.position, s.told.whole = h.Position, h.Whole
	c.results, c.failures = append(c.failures, c.results...), nil
	c.live = s
	c.changed.Broadcast()
	return nil
}

// drop ends a connection. Nobody reads in its memory when it is closed.
func (c *Client) drop(s *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopLending()
	if u := c.unit; u != nil {
		u.pieces, u.skip = nil, 0
		u.ended = u.whole
	}
	s.conn.Close()
	s.conn.Release()
	for a := range s.mapped {
		s.unmap(a)
	}
}

// tell sends what the daemon has not heard. If that fails, the receiving
// goroutine notices, and it is said again on the next connection.
func (c *Client) tell() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.mu.Lock()
	s := c.live
	var news []protocol.Message
	if s != nil {
		news = c.news(s)
	}
	c.mu.Unlock()
	if len(news) > 0 {
		_ = s.conn.Send(news...)
	}
}

// news returns what has to be said on s, and is taken for said. Callers hold mu and
// sending.
func (c *Client) news(s *session) []protocol.Message {
	news := c.results
	for _, m := range c.results {
		if m.(*protocol.Result).Code != 0 {
			c.failures = append(c.failures, m)
		}
	}
	c.results = nil
	if c.finish != nil {
		if !s.told.finish {
			s.told.finish = true
			news = append(news, c.finish)
		}
		return news
	}
	if s.resend { // the daemon has to come back to where we are first
		return news
	}
	if u := c.unit; u != nil && (u.reported > s.told.position || u.whole && !s.told.whole) {
		s.told.position, s.told.whole = u.reported, u.whole
		news = append(news, &protocol.Consumed{Unit: u.id, Bytes: u.reported, Whole: u.whole})
	}
	if c.want && !s.told.next {
		s.told.next = true
		news = append(news, &protocol.Next{})
	}
	return news
}

// accept takes a message of the daemon.
func (c *Client) accept(s *session, m protocol.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.changed.Broadcast()
	switch m := m.(type) {
	case *protocol.Arena:
		return s.addArena(m)
	case *protocol.File:
		return s.addFile(m)
	case *protocol.Drop:
		return s.dropArena(m)
	case *protocol.Unit:
		return c.unitBegins(s, m)
	case *protocol.Piece:
		return c.pieceComes(s, m)
	case *protocol.End:
		return c.unitEnds(s, m)
	case *protocol.EOF:
		if c.finish == nil && (!c.want || !s.told.next) || s.incoming != nil || s.resend {
			return unexpected(m)
		}
		c.want, c.eof, s.told.next = false, true, false
		return nil
	case *protocol.Finished:
		if !s.told.finish {
			return unexpected(m)
		}
		c.done = true
		return nil
	}
	return unexpected(m)
}

func (c *Client) unitBegins(s *session, m *protocol.Unit) error {
	switch {
	case s.incoming != nil:
		return &ProtocolError{fmt.Sprintf("unit %d begins inside of unit %d", m.ID, s.incoming.id)}
	case m.Codec > protocol.Zstd:
		return &ProtocolError{fmt.Sprintf("unit %d has codec %d", m.ID, m.Codec)}
	case s.resend:
		if m.ID != c.unit.id {
			return &ProtocolError{fmt.Sprintf("unit %d comes instead of unit %d", m.ID, c.unit.id)}
		}
		s.resend = false
		s.incoming, s.at = c.unit, s.told.position
	case s.told.next:
		s.told.next, s.told.position, s.told.whole = false, 0, false
		s.incoming, s.at = &Unit{c: c, id: m.ID, path: m.Path, offset: m.Offset, codec: m.Codec}, 0
		if c.finish != nil {
			return nil // it came too late
		}
		c.want = false
		c.unit, c.units = s.incoming, append(c.units, m.ID)
	default:
		return unexpected(m)
	}
	return nil
}

func (c *Client) pieceComes(s *session, m *protocol.Piece) error {
	u := s.incoming
	if u == nil || u.id != m.Unit {
		return unexpected(m)
	}
	a := s.arenas[m.Arena]
	if a == nil || m.Offset > a.end() || uint64(m.Length) > a.end()-m.Offset {
		return &ProtocolError{fmt.Sprintf("a piece of unit %d lies outside of arena %d", m.Unit, m.Arena)}
	}
	s.at += uint64(m.Length)
	if m.Length == 0 || u.whole || c.finish != nil {
		return nil
	}
	a.pieces++
	u.pieces = append(u.pieces, a.piece(m.Offset, m.Length))
	return nil
}

func (c *Client) unitEnds(s *session, m *protocol.End) error {
	u := s.incoming
	if u == nil || u.id != m.Unit {
		return unexpected(m)
	}
	if s.at != m.Bytes {
		return &ProtocolError{fmt.Sprintf("unit %d ends at byte %d and is to have %d", m.Unit, s.at, m.Bytes)}
	}
	s.incoming = nil
	u.ended, u.size, u.unterminated = true, m.Bytes, m.Unterminated
	u.complete()
	return nil
}
