package peer

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"headrace/internal/accept"
)

// Protocols of handlers: for what is short, and for what is long.
const (
	h2 = "h2"
	h1 = "http/1.1"
)

// Limits bound what may come to a port. 0: the default.
type Limits struct {
	// Handshake is how long a stranger has to prove that it is a node (5 s).
	Handshake time.Duration
	// Strangers are connections that have not proved it yet, of all addresses (256) and of one (64).
	Strangers, AddressStrangers int
	// Nodes are those that have, of all addresses (4,096) and of one (1,024).
	Nodes, AddressNodes int
	// End is how long Close waits for handlers (20 s).
	End time.Duration
}

func (l Limits) filled() Limits {
	l.Handshake, l.End = cmp.Or(l.Handshake, 5*time.Second), cmp.Or(l.End, 20*time.Second)
	l.Strangers, l.AddressStrangers = cmp.Or(l.Strangers, 256), cmp.Or(l.AddressStrangers, 64)
	l.Nodes, l.AddressNodes = cmp.Or(l.Nodes, 4096), cmp.Or(l.AddressNodes, 1024)
	return l
}

// A Port is where other nodes come, and by which this one goes to them. Handlers and streams are
// registered before Serve; all else may be called from any goroutine.
type Port struct {
	secret *Secret
	limits Limits
	log    *slog.Logger
	mux    *http.ServeMux
	http   http.Server
	// Requests of client share a connection to each node, those of bulk have one each.
	client, bulk *http.Client

	queues  map[string]*queue // by protocol
	crowds  crowds
	refused refusals

	mu       sync.Mutex
	listener net.Listener
	conns    map[*conn]struct{}
	closed   bool
	running  sync.WaitGroup
	ctx      context.Context
	cancel   context.CancelFunc
}

const (
	headerTime = 10 * time.Second // for a request's header to come in
	idleTime   = 5 * time.Minute  // between requests
	mostHeader = 256 << 10        // bytes: there may be a client's in it
)

// New returns a port, which others reach once Serve is called.
func New(s *Secret, limits Limits, log *slog.Logger) *Port {
	p := &Port{secret: s, limits: limits.filled(), log: cmp.Or(log, slog.New(slog.DiscardHandler)), mux: http.NewServeMux(), queues: map[string]*queue{}, conns: map[*conn]struct{}{}}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.crowds.strangers = accept.Crowd{Most: p.limits.Strangers, MostOfAddress: p.limits.AddressStrangers}
	p.crowds.nodes = accept.Crowd{Most: p.limits.Nodes, MostOfAddress: p.limits.AddressNodes}
	p.Stream(h2)
	p.queues[h1] = p.queues[h2]
	p.http = http.Server{Handler: http.HandlerFunc(p.handle), Protocols: protocols(h1, h2), ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader,
		TLSConfig: s.config(h2, h1), BaseContext: func(net.Listener) context.Context { return p.ctx }, ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug)}
	p.client, p.bulk = newClient(s, h2), newClient(s, h1)
	return p
}

// Handle has requests for a pattern answered, as http.ServeMux has it. Whoever asks is a node.
func (p *Port) Handle(pattern string, h http.Handler) { p.mux.Handle(pattern, h) }

// Stream returns a listener of the connections for a protocol, which Dial makes on the other side. The protocol is
// no longer than 255 bytes, and whoever asked for the listener accepts from it until Close.
func (p *Port) Stream(protocol string) net.Listener {
	q := &queue{conns: make(chan net.Conn), closed: make(chan struct{}), addr: p.Addr}
	p.queues[protocol] = q
	return q
}

// Addr returns where the port is, or nil before Serve.
func (p *Port) Addr() net.Addr {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener == nil {
		return nil
	}
	return p.listener.Addr()
}

// Serve accepts connections until Close, or until the listener fails. It closes the listener.
func (p *Port) Serve(l net.Listener) error {
	defer l.Close()
	p.mu.Lock()
	p.listener = l
	closed := p.closed
	p.mu.Unlock()
	if closed {
		return nil
	}
	config := p.secret.config(slices.Collect(maps.Keys(p.queues))...)
	go p.http.Serve(p.queues[h2])
	listener := accept.Listener{Listener: l, Name: "nodes", Log: p.log}
	for {
		nc, err := listener.Accept()
		if err != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			if p.closed {
				return nil
			}
			return err
		}
		p.begin(nc, config)
	}
}

// begin has a connection proved, and handed over.
func (p *Port) begin(nc net.Conn, config *tls.Config) {
	c := &conn{Conn: nc, port: p, came: time.Now()}
	c.touch()
	stranger := p.crowds.strangers.Enter(nc, c.waiting)
	if stranger == nil { // no place, even if all others leave
		nc.Close()
		return
	}
	if !p.enter(c) {
		p.crowds.strangers.Leave(stranger)
		nc.Close()
		return
	}
	go func() {
		defer p.running.Done()
		t, err := p.prove(c, config)
		p.crowds.strangers.Leave(stranger)
		if err == nil {
			err = p.handOver(c, t)
		} else {
			p.refused.note(p.log, c.RemoteAddr(), err)
		}
		if err != nil {
			c.Close()
		}
	}()
}

func (p *Port) handOver(c *conn, t *tls.Conn) error {
	m := p.crowds.nodes.EnterOf(accept.Remote(c.Conn).Addr(), c.Conn, c.silent) // all nodes may be in one network
	if m == nil {
		p.log.Warn("too many connections of nodes, and all are busy", "from", c.RemoteAddr())
		return errCrowd
	}
	c.member.Store(m)
	return p.queues[t.ConnectionState().NegotiatedProtocol].put(t)
}

var errCrowd = errors.New("too many connections")

// enter notes a connection; false when the port is closed.
func (p *Port) enter(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.conns[c] = struct{}{}
		p.running.Add(1)
	}
	return !p.closed
}

// handle has a request answered, which Close waits for.
func (p *Port) handle(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	closed := p.closed
	if !closed {
		p.running.Add(1)
	}
	p.mu.Unlock()
	if closed {
		http.Error(w, "the node is about to end", http.StatusServiceUnavailable)
		return
	}
	defer p.running.Done()
	p.mux.ServeHTTP(w, r)
}

func (p *Port) left(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// prove shakes hands with a stranger.
func (p *Port) prove(c *conn, config *tls.Config) (*tls.Conn, error) {
	c.SetDeadline(time.Now().Add(p.limits.Handshake))
	t := tls.Server(c, config)
	if err := t.HandshakeContext(p.ctx); err != nil {
		return nil, err
	}
	if t.ConnectionState().NegotiatedProtocol == "" {
		return nil, errors.New("it does not say what it wants")
	}
	return t, c.SetDeadline(time.Time{})
}

// Close ends all connections of nodes and to them, and returns when no handler runs any more; or after some time, if one does not end, because a disk
// does not answer for instance.
func (p *Port) Close() {
	p.mu.Lock()
	p.closed = true
	listener := p.listener
	conns := slices.Collect(maps.Keys(p.conns))
	p.mu.Unlock()
	if listener != nil {
		listener.Close()
	}
	p.cancel()
	for _, q := range p.queues {
		q.Close()
	}
	for _, c := range conns {
		c.Close()
	}
	p.http.Close()
	p.client.CloseIdleConnections()
	ended := make(chan struct{})
	go func() { p.running.Wait(); close(ended) }()
	late := time.NewTimer(p.limits.End)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
		p.log.Error("requests of other nodes have not ended, and are not waited for any more", "after", p.limits.End)
	}
}

// refusals tells of strangers, not more often than logEvery.
type refusals struct {
	mu     sync.Mutex
	told   time.Time
	untold int
}

const logEvery = 10 * time.Second

func (r *refusals) note(log *slog.Logger, from net.Addr, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.untold++
	if now := time.Now(); now.Sub(r.told) >= logEvery {
		log.Warn("whoever came to the port of the nodes was refused", "from", from, "times", r.untold, "err", err)
		r.told, r.untold = now, 0
	}
}
