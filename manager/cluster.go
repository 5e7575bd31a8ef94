package manager

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"headrace/wire"
)

const (
	maxNodes      = 10_000
	maxContainers = 1_000_000
)

var (
	errNotJoined = errors.New("the node has not joined, or its stream was lost; it is to join again")
	errReplaced  = errors.New("another node has joined with this name; give each node a name of its own with --name")
	errFull      = errors.New("there are too many nodes or containers; no more are taken")
)

// cluster is what is known of the nodes and their containers. Safe for concurrent
// use; mu guards all of it.
type cluster struct {
	cfg    *Config
	counts *counters
	began  time.Time

	mu         sync.Mutex
	nodes      map[string]*node
	containers map[string]*container
	orders     map[uint64]*order
	lastOrder  uint64
	version    uint64
	joined     uint32        // nodes that are not away
	changed    chan struct{} // closed and replaced when the version rises
	stale      bool          // something has changed that the version does not show yet
	shown      *wire.ContainersResponse
	ended      lately            // containers of which their nodes have told that they have ended
	doubts     map[string]*doubt // by the names of containers
	draining   bool
	// applications are those that their scheduler tells of. Replaced, never changed.
	applications map[string]*wire.Application
}

// node is one that has joined since the manager was started.
type node struct {
	name    string
	info    *wire.NodeInfo // of the last report; nil before the first
	stream  *stream        // nil: there is none
	lost    time.Time      // when the stream was lost
	heard   time.Time      // the last report, or when it joined
	away    bool           // nothing is heard of it, or no report yet
	awayMs  int64
	holds   map[string]*container
	claims  []claim
	warned  time.Time // about a container that is elsewhere
	version string
}

// stream is a connection on which a node gets orders.
type stream struct {
	node *node
	// wake has a capacity of 1: there may be orders to send.
	wake chan struct{}
	// over is closed when the stream is to end, for the reason why.
	over chan struct{}
	why  error
	// sent is the number of the last order that was taken for sending.
	sent uint64
}

// claim is memory that was made free for somebody who cannot be seen yet.
type claim struct {
	bytes int64
	until time.Time
}

func newCluster(cfg *Config, counts *counters) *cluster {
	now := time.Now()
	return &cluster{
		cfg: cfg, counts: counts, began: now, draining: cfg.Drain,
		nodes: map[string]*node{}, containers: map[string]*container{}, orders: map[uint64]*order{},
		doubts: map[string]*doubt{}, ended: lately{turned: now},
		lastOrder: uint64(now.UnixMicro()), version: uint64(now.UnixMicro()), changed: make(chan struct{}),
	}
}

// lock takes the mutex; the function it returns shows what has changed meanwhile, and
// gives it back.
func (c *cluster) lock() (unlock func()) {
	c.mu.Lock()
	return func() {
		if c.stale {
			c.stale, c.shown = false, nil
			c.version++
			close(c.changed)
			c.changed = make(chan struct{})
		}
		c.mu.Unlock()
	}
}

// join begins a stream of the node; one that it had before ends.
func (c *cluster) join(name, version string) (*stream, error) {
	defer c.lock()()
	n := c.nodes[name]
	if n == nil {
		if len(c.nodes) >= maxNodes {
			return nil, errFull
		}
		n = &node{name: name, holds: map[string]*container{}, away: true, awayMs: time.Now().UnixMilli()}
		c.nodes[name] = n
	}
	if n.stream != nil {
		c.cfg.Log.Info("a node has joined again, its old stream ends", "node", name)
		n.stream.end(errReplaced)
	} else {
		c.cfg.Log.Info("a node has joined", "node", name, "version", version)
	}
	n.version, n.heard = version, time.Now()
	n.stream = &stream{node: n, wake: make(chan struct{}, 1), over: make(chan struct{})}
	n.stream.poke()
	return n.stream, nil
}

// end is called with the mutex held, once.
func (s *stream) end(why error) {
	s.why = why
	s.node.stream = nil
	s.node.lost = time.Now()
	close(s.over)
}

// poke tells whoever sends that there may be something.
func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// leave is the end of a stream, unless it has been ended already.
func (c *cluster) leave(s *stream, why error) {
	defer c.lock()()
	if s.node.stream != s {
		return
	}
	s.end(why)
	c.cfg.Log.Info("a node's stream has ended", "node", s.node.name, "reason", why)
}

// next are the outstanding orders that have not been sent on s.
func (c *cluster) next(s *stream) []*wire.NodeOrder {
	defer c.lock()()
	if s.node.stream != s {
		return nil
	}
	var all []*wire.NodeOrder
	for _, o := range s.node.outstanding() {
		if o.wire.Number > s.sent {
			all = append(all, o.wire)
		}
	}
	slices.SortFunc(all, func(a, b *wire.NodeOrder) int { return cmp.Compare(a.Number, b.Number) })
	if len(all) > 0 {
		s.sent = all[len(all)-1].Number
	}
	return all
}

// outstanding are the orders that the node has been given and that are not done.
func (n *node) outstanding() []*order {
	var all []*order
	for _, k := range n.holds {
		if k.order != nil {
			all = append(all, k.order)
		}
		if k.paging != nil {
			all = append(all, k.paging)
		}
	}
	return all
}

func (c *cluster) setAway(n *node, away bool) {
	if n.away == away {
		return
	}
	n.away, n.awayMs = away, 0
	c.stale = true
	if away {
		c.joined--
		n.awayMs = time.Now().UnixMilli()
		for _, o := range n.outstanding() {
			c.over(o, "lost")
		}
		n.claims = nil
	} else {
		c.joined++
	}
	for _, k := range n.holds {
		c.show(k)
	}
}

// watch looks after what is over, until stop is closed.
func (c *cluster) watch(stop <-chan struct{}) {
	tick := time.NewTicker(c.cfg.timing.look)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case now := <-tick.C:
			c.look(now)
		}
	}
}

func (c *cluster) look(now time.Time) {
	defer c.lock()()
	t := &c.cfg.timing
	for name, n := range c.nodes {
		switch {
		case n.away && n.stream == nil && now.Sub(n.lost) > t.forget:
			c.forget(name, "it was away for long")
			continue
		case n.stream != nil && now.Sub(n.heard) > t.silent:
			c.cfg.Log.Warn("a node reports no more; it counts as away", "node", name)
			n.stream.end(fmt.Errorf("no report for %v", t.silent))
			c.setAway(n, true)
		case !n.away && n.stream == nil && now.Sub(n.lost) > t.away:
			c.cfg.Log.Warn("a node has not come back; it counts as away", "node", name)
			c.setAway(n, true)
		}
		n.claims = slices.DeleteFunc(n.claims, func(k claim) bool { return now.After(k.until) })
	}
	c.ended.turn(now, t.remember)
	c.forgetDoubts(now)
	for _, o := range c.orders {
		switch {
		case !now.After(o.until):
		case o.of.task.Doing != "":
			o.until = now.Add(t.patience) // it is being done
		default:
			c.cfg.Log.Warn("an order was not carried out in time", "node", o.of.node.name, "container", o.of.id, "verb", o.wire.Verb, "number", o.wire.Number)
			c.fail(o, "its node has not done it in time", "late")
		}
	}
	if c.draining {
		c.goOn(now)
	}
}

func (c *cluster) forget(name, why string) {
	c.cfg.Log.Info("a node is forgotten", "node", name, "reason", why)
	for _, k := range slices.Collect(maps.Values(c.nodes[name].holds)) {
		c.remove(k)
	}
	delete(c.nodes, name)
	c.stale = true
}

// tell is what Containers tells now, and what is closed when there is more.
func (c *cluster) tell() (*wire.ContainersResponse, <-chan struct{}) {
	defer c.lock()()
	if c.shown == nil {
		c.shown = &wire.ContainersResponse{Version: c.version, Nodes: c.joined, Containers: c.list()}
	}
	return c.shown, c.changed
}

// list is all containers by their names.
func (c *cluster) list() []*wire.Container {
	all := make([]*wire.Container, 0, len(c.containers))
	for _, k := range c.containers {
		all = append(all, k.public)
	}
	slices.SortFunc(all, func(a, b *wire.Container) int { return cmp.Compare(a.Id, b.Id) })
	return all
}

// people is what Nodes tells.
func (c *cluster) people() *wire.NodesResponse {
	defer c.lock()()
	res := &wire.NodesResponse{
		Containers: c.list(), Policy: string(c.cfg.Policy.Policy), Version: c.cfg.Version, StartedMs: c.began.UnixMilli(),
		Draining: c.draining,
	}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		n := c.nodes[name]
		res.Nodes = append(res.Nodes, &wire.ManagedNode{Name: name, Info: n.info, AwayMs: n.awayMs})
	}
	return res
}
