package ipc

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"golang.org/x/sync/semaphore"

	"headrace/internal/accept"
)

// ErrClosed is what Serve returns after the server was closed.
var ErrClosed = errors.New("the server is closed")

// A Server serves protocols to Hadoop's clients. Set its fields before Serve.
type Server struct {
	// Protocols are the handlers, by the Java name of a protocol's interface, such as
	// org.apache.hadoop.hdfs.protocol.ClientProtocol.
	Protocols map[string]Handler
	// Impersonate says whether a user may act for another, from an address; an error is the
	// reason why not. Without it nobody may.
	Impersonate func(ctx context.Context, u User, from netip.Addr) error
	// Prove says whether a connection is of who it says it is of (User.Real where that is given),
	// whose end is near; an error is the reason why not. Without it everybody is believed.
	Prove func(user string, near, far netip.AddrPort) error
	// Unproved are protocols whose clients say a name that is nobody's: their connections are not proved, and may call no other
	// protocol. Their handlers must allow anybody everything.
	Unproved map[string]bool
	Limits   Limits
	Log      *slog.Logger

	once   sync.Once
	crowd  accept.Crowd
	memory *memory
	large  *semaphore.Weighted
	ctx    context.Context
	cancel context.CancelFunc

	mu        sync.Mutex
	conns     map[*conn]struct{}
	listeners map[net.Listener]struct{}
	closing   bool
	running   sync.WaitGroup // connections
	crew      crew
}

func (s *Server) init() {
	s.once.Do(func() {
		s.Limits = s.Limits.filled()
		s.crowd = accept.Crowd{Most: s.Limits.Connections, MostOfAddress: s.Limits.AddressConnections}
		s.memory = newMemory(s.Limits)
		s.large = semaphore.NewWeighted(s.Limits.Large)
		s.conns = map[*conn]struct{}{}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		s.listeners, s.crew.jobs = map[net.Listener]struct{}{}, make(chan func())
		if s.Log == nil {
			s.Log = slog.New(slog.DiscardHandler)
		}
	})
}

// Serve accepts connections, until Close or Shutdown, or until the listener fails. It closes
// the listener. It may be called with several listeners, at the same time.
func (s *Server) Serve(l net.Listener) error {
	s.init()
	defer l.Close()
	if !s.listen(l, true) {
		return ErrClosed
	}
	defer s.listen(l, false)
	listener := accept.Listener{Listener: l, Name: "Hadoop RPC", Log: s.Log}
	for {
		c, err := listener.Accept()
		if err != nil {
			if s.isClosing() {
				return ErrClosed
			}
			return err
		}
		s.begin(c)
	}
}

// listen notes that a listener is there, or no longer; false when the server is closing.
func (s *Server) listen(l net.Listener, there bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !there {
		delete(s.listeners, l)
	} else if !s.closing {
		s.listeners[l] = struct{}{}
	}
	return !s.closing
}

func (s *Server) isClosing() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closing
}

// begin serves a connection in the background, unless there are too many.
func (s *Server) begin(nc net.Conn) {
	c := newConn(s)
	if c.net = s.crowd.Enter(nc, c.idleSince); c.net == nil {
		s.Log.Info("too many connections, and all are busy", "from", nc.RemoteAddr())
		nc.Close()
		return
	}
	c.near, _ = netip.ParseAddrPort(nc.LocalAddr().String())
	c.r.Reset(c.net)
	if !s.member(c, true) {
		nc.Close()
		s.crowd.Leave(c.net)
		return
	}
	go func() {
		defer s.member(c, false)
		defer s.crowd.Leave(c.net)
		c.serve()
	}()
}

// member notes that a connection is there, or no longer; false when the server is closing.
func (s *Server) member(c *conn, there bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !there:
		delete(s.conns, c)
		s.running.Done()
	case s.closing:
		return false
	default:
		s.conns[c] = struct{}{}
		s.running.Add(1)
	}
	return true
}

// close stops listening, and calls f for all connections.
func (s *Server) close(f func(*conn)) {
	s.init()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for l := range s.listeners {
		l.Close()
	}
	for c := range s.conns {
		f(c)
	}
}

// Close ends everything at once, and returns when all handlers have returned.
func (s *Server) Close() error {
	s.close(func(c *conn) { c.net.Close() })
	s.cancel()
	s.wait()
	return nil
}

// wait waits for all connections to end, and sends home who rests.
func (s *Server) wait() {
	s.running.Wait()
	s.crew.end()
}

// Shutdown takes no more calls, and returns when those that have begun are answered. When ctx
// ends before, the rest ends at once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.close((*conn).drain)
	done := make(chan struct{})
	go func() { s.wait(); close(done) }()
	select {
	case <-done:
		s.cancel()
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), s.Close())
	}
}
