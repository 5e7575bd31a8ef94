package member

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"headrace/dfs"
	"headrace/dfs/names"
	"headrace/dfs/peer"
	"headrace/hdfs/ipc"
	"headrace/internal/accept"
	"headrace/quorum"
	"headrace/quorum/link"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// A Node is what takes part: a *dfs.Node.
type Node interface {
	View() *dfs.View
	Changed() <-chan struct{}
	Leads() bool
	Learn(*dfs.View)
	Hear(*dfs.View)
	Silent(*dfs.View)
	Admit(context.Context, dfs.Member) (*dfs.View, uint32, error)
	ChangeRing(context.Context, ring.Event) (*dfs.View, error)
	Deliver(quorum.Message)
	Room() dfs.Room
	// Outdated ends the node: it is older than the version in force.
	Outdated(error)
}

// Config says how a node takes part. The zero value of all but Port works.
type Config struct {
	Port *peer.Port
	// Seeds are addresses of the ports of nodes, HOST:PORT, that are tried besides those that are known.
	Seeds []string
	// Beat is the time between two beats (default 1 s), Wait how long a call waits for somebody to lead (default 20 s).
	Beat, Wait time.Duration
	// Version is what this node understands (default names.Understands()).
	Version uint32
	// HostName is what HDFS's clients know this machine by; "": its address.
	HostName string
	// Patience is the judge's (default ring.DefaultPatience).
	Patience *ring.Patience
	Log      *slog.Logger
}

// A Circle is the ring as a node takes part in it. Its methods may be called from any goroutine.
type Circle struct {
	Config
	link  *link.Link
	raft  net.Listener
	began time.Time

	// Set by Start, which happens before others reach the node.
	node    Node
	self    dfs.Member
	system  *wire.RingFileSystem
	led     map[string]*ipc.Service
	back    func(context.Context, string) (*dfs.View, error)
	started atomic.Bool
	// joining is the name by which this node joins, before it has begun.
	joining atomic.Pointer[string]
	// happening: what was judged is being agreed on.
	happening atomic.Bool
	doubts    *doubts
	nudge     chan struct{}

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	beats  map[string]ring.Beat     // when this node has heard others
	rooms  map[string]dfs.Room      // what those, and this one, have said of their disks
	stored map[string]time.Duration // when they had a disk in use last
	hosts  map[string]string        // and of what their machines are called
	says   map[string]understood    // and of what they understand
	moved  map[string]dfs.Member    // what those say of themselves who beat here while another node leads
	// returning are nodes that are being asked what they still have.
	returning map[string]bool
	deaf      map[string]int // neighbours that have not answered, so many times
	clients   map[target]wireconnect.RingServiceClient
	told      map[string]string // what was last told of refusals
}

// understood is a version that a node has said it understands while this one led, in a term.
type understood struct {
	version uint32
	term    uint64
}

// raftProtocol is spoken on streams with messages of the consensus.
const raftProtocol = "hrquorum/2"

const (
	mostMessage = 64 << 20 // bytes of a call or an answer between nodes
	beatTime    = 2 * time.Second
)

// New returns the part of a node that has not begun to take part.
func New(c Config) *Circle {
	c.Beat, c.Wait = cmp.Or(c.Beat, time.Second), cmp.Or(c.Wait, 20*time.Second)
	c.Version = cmp.Or(c.Version, names.Understands())
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Patience == nil {
		p := ring.DefaultPatience
		c.Patience = &p
	}
	m := &Circle{Config: c, began: time.Now(), nudge: make(chan struct{}, 1), beats: map[string]ring.Beat{}, rooms: map[string]dfs.Room{}, stored: map[string]time.Duration{}, hosts: map[string]string{}, says: map[string]understood{}, moved: map[string]dfs.Member{}, returning: map[string]bool{}, deaf: map[string]int{},
		clients: map[target]wireconnect.RingServiceClient{}, told: map[string]string{}}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	m.raft = c.Port.Stream(raftProtocol)
	m.link = link.New(link.Config{Dial: m.dial, Welcome: m.welcome, Deliver: func(q quorum.Message) {
		if m.started.Load() {
			m.node.Deliver(q)
		}
	}})
	path, h := wireconnect.NewRingServiceHandler(service{m}, connect.WithReadMaxBytes(mostMessage))
	c.Port.Handle(path, m.whenStarted(h))
	c.Port.Handle("/", m.whenStarted(http.NotFoundHandler()))
	return m
}

// Taking says what takes part.
type Taking struct {
	Node   Node
	Self   dfs.Member // with its name
	System dfs.Identity
	// Led are the services whose calls are passed on, by their protocols; Web answers requests of WebHDFS that were.
	Led map[string]*ipc.Service
	// Blocks answers what others ask of this node's blocks; see dfs.Keeper.
	Blocks wireconnect.BlockServiceHandler
	Web    func(w http.ResponseWriter, r *http.Request, user string)
	// Return has a node be back that is heard again, with what it still has; see dfs.Keeper. It may run for several nodes at once.
	Return func(ctx context.Context, node string) (*dfs.View, error)
}

// Start has the node take part, until Close. It is called once.
func (m *Circle) Start(t Taking) {
	m.node, m.self, m.led, m.back = t.Node, t.Self, t.Led, t.Return
	m.self.Version = m.Version
	m.system = &wire.RingFileSystem{Pool: t.System.Pool, Owner: t.System.Owner, Group: t.System.Group, Key: t.System.Key}
	if t.Blocks != nil {
		path, h := wireconnect.NewBlockServiceHandler(t.Blocks, connect.WithReadMaxBytes(mostMessage))
		m.Port.Handle(path, m.whenStarted(h))
	}
	if t.Web != nil {
		m.Port.Handle(webPath, m.whenStarted(m.passedWeb(t.Web)))
	}
	m.doubts = &doubts{self: t.Self.Name, patience: *m.Patience, now: m.now, unreached: map[string]time.Duration{}, reaching: map[string]bool{},
		ping: func(ctx context.Context, to dfs.Member) error {
			_, err := m.client(targetOf(to)).Ping(ctx, &wire.RingPingRequest{})
			return err
		},
		begin: func(f func(context.Context)) { m.running.Go(func() { f(m.ctx) }) }}
	m.started.Store(true)
	m.running.Go(func() { m.link.Serve(&accept.Listener{Listener: m.raft, Name: raftProtocol, Log: m.Log}) })
	m.running.Go(m.keepBeating)
	m.running.Go(m.keepJudging)
}

// whenStarted answers once the node takes part, and those who mean it; before that only whether it is there, as whom it joins asks.
func (m *Circle) whenStarted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !m.started.Load() {
			if as := m.joining.Load(); as != nil && *as == r.Header.Get(nodeHeader) && r.URL.Path == wireconnect.RingServicePingProcedure {
				h.ServeHTTP(w, r)
				return
			}
			http.Error(w, "the node is about to begin", http.StatusServiceUnavailable)
			return
		}
		if err := m.asked(r); err != nil {
			refuse(w, r, err)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Close ends taking part. The port is closed by whoever has opened it.
func (m *Circle) Close() {
	m.cancel()
	m.link.Close()
	m.raft.Close()
	m.running.Wait()
}

var _ dfs.Peers = (*Circle)(nil)

// Send hands a message to another node, or loses it.
func (m *Circle) Send(q quorum.Message) { m.link.Send(q) }

// dial connects to the node of a number, for messages of the consensus.
func (m *Circle) dial(ctx context.Context, number uint32) (net.Conn, error) {
	if !m.started.Load() {
		return nil, errNotStarted
	}
	to, ok := m.node.View().Number(number)
	if !ok {
		return nil, fmt.Errorf("there is no node %d", number)
	}
	m.mu.Lock()
	moved, has := m.moved[to.Name]
	m.mu.Unlock()
	if has {
		if c, err := m.greet(ctx, moved); err == nil {
			return c, nil
		}
	}
	return m.greet(ctx, to)
}

// greet connects to a node where it says that it is.
func (m *Circle) greet(ctx context.Context, to dfs.Member) (net.Conn, error) {
	c, err := m.Port.Dial(ctx, to.PeerAddress(), raftProtocol)
	if err != nil {
		return nil, err
	}
	if err := link.Greet(ctx, c, m.naming(to.Name).hello()); err != nil {
		if errors.Is(err, link.ErrRefused) {
			m.tell(slog.LevelError, "messages "+to.PeerAddress(), "a node is not where it was", "node", to.Name, "at", to.PeerAddress(), "err", err)
		}
		return nil, err
	}
	return c, nil
}

var errNotStarted = fmt.Errorf("the node is about to begin")

func targetOf(m dfs.Member) target { return target{m.PeerAddress(), m.Name} }

// target is where a node is taken to be. One without a name is any of the file system.
type target struct{ address, name string }

// uncompressed has answers come as they are: nodes are near each other, and to pack an answer costs more than all else about a call that is
// passed on.
var uncompressed = connect.WithAcceptCompression("gzip", nil, nil)

// client speaks with the node at an address, which refuses what it is asked if it has another name.
func (m *Circle) client(at target) wireconnect.RingServiceClient {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.clients[at]
	if c == nil {
		if len(m.clients) > 2*ring.MaxNodes { // addresses come and go
			clear(m.clients)
		}
		c = wireconnect.NewRingServiceClient(m.Port.Client(), "https://"+at.address, uncompressed, connect.WithReadMaxBytes(mostMessage), m.meaning(at.name))
		m.clients[at] = c
	}
	return c
}

// Blocks reaches what a node has of blocks; see dfs.Peers.
func (m *Circle) Blocks(of dfs.Member) wireconnect.BlockServiceClient {
	return wireconnect.NewBlockServiceClient(m.Port.Client(), "https://"+of.PeerAddress(), uncompressed, connect.WithReadMaxBytes(mostMessage), m.meaning(of.Name))
}

func toWire(m dfs.Member) *wire.RingMember {
	return &wire.RingMember{Name: m.Name, Number: m.Number, Storage: m.Storage, Host: m.Host, RpcPort: uint32(m.RPC), DataPort: uint32(m.Data),
		WebPort: uint32(m.Web), PeerPort: uint32(m.Peer), Rack: m.Rack, Version: m.Version}
}
