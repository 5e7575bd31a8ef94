package manager

import (
	"sync"
	"time"

	"headrace/wire"
)

// cluster is what is known of the nodes and their containers, and what is decided
// about them. A table of something else that nodes report stands beside containers.
// Safe for concurrent use; mu guards all of it.
type cluster struct {
	cfg    *Config
	counts *counters
	began  time.Time

	mu         sync.Mutex
	board      board // of all containers
	aside      board // without those that only run
	members    members
	containers containers
	orders     orders
	doubts     doubts
	finished   lately // applications that have ended for good, as their scheduler has told
	draining   bool
}

// board is what callers of Containers are told, and the version of that. There are two, since in a
// large cluster there is always one that begins or ends, and few callers want to know.
type board struct {
	first   uint64 // the version it has begun with
	version uint64
	changed chan struct{} // closed and replaced when the version rises
	stale   bool          // something has changed that the version does not show yet
	shown   *shown        // what is told of all; nil: it is to be made
}

// shown is what callers of Containers are told. The first who wants it puts it in order, with the cluster not
// locked: others decide about containers meanwhile.
type shown struct {
	res   *wire.ContainersResponse
	order sync.Once
}

func (s *shown) inOrder() *wire.ContainersResponse {
	s.order.Do(func() { byName(s.res.Containers) })
	return s.res
}

func newCluster(cfg *Config, counts *counters) *cluster {
	now := time.Now()
	c := &cluster{
		cfg: cfg, counts: counts, began: now, draining: cfg.Drain, doubts: doubts{},
		board:   newBoard(now),
		aside:   newBoard(now),
		members: members{log: cfg.Log, timing: &cfg.timing, all: map[string]*node{}},
	}
	c.containers = containers{
		log: cfg.Log, timing: &cfg.timing, board: &c.board, aside: &c.aside,
		all: map[string]*container{}, byApplication: map[string]map[*container]struct{}{}, on: map[*node]*holding{}, ended: lately{rotated: now},
	}
	c.orders = orders{
		log: cfg.Log, timing: &cfg.timing, counts: counts, containers: &c.containers,
		all: map[uint64]*order{}, last: uint64(now.UnixMicro()),
	}
	return c
}

// lock takes the mutex; the function it returns shows what has changed meanwhile, and
// gives it back.
func (c *cluster) lock() (unlock func()) {
	c.mu.Lock()
	return func() {
		c.board.publish()
		c.aside.publish()
		c.mu.Unlock()
	}
}

func newBoard(now time.Time) board {
	first := uint64(now.UnixMicro())
	return board{first: first, version: first, changed: make(chan struct{})}
}

// publish raises the version if something has changed.
func (b *board) publish() {
	if b.stale {
		b.stale, b.shown = false, nil
		b.version++
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// join begins a stream of the node.
func (c *cluster) join(q *wire.JoinRequest) (*stream, error) {
	defer c.lock()()
	return c.members.join(q)
}

// leave ends a stream.
func (c *cluster) leave(s *stream, why error) {
	defer c.lock()()
	c.members.leave(s, why)
}

// next returns the outstanding orders that have not been sent on s.
func (c *cluster) next(s *stream) []*wire.NodeOrder {
	defer c.lock()()
	return c.orders.next(s)
}

// report enters what is true on a node, and returns what it is to keep.
func (c *cluster) report(r *wire.NodeReport) (*wire.NodeReportResponse, error) {
	defer c.lock()()
	now := time.Now()
	n, back, err := c.members.report(r, now)
	if err != nil {
		return nil, err
	}
	if back {
		c.containers.back(n)
	}
	gone, err := c.containers.report(n, r.Tasks, now)
	for _, k := range gone {
		c.orders.end(k, "ended")
	}
	for _, res := range r.Results {
		c.orders.result(n, res)
	}
	for _, p := range r.Progress {
		c.counts.progress.WithLabelValues(c.containers.progress(p, now)).Inc()
	}
	c.freeSuspended(n, now)
	c.counts.reports.Inc()
	return &wire.NodeReportResponse{Promised: c.containers.promised(n)}, err
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
			c.expire(now)
		}
	}
}

func (c *cluster) expire(now time.Time) {
	defer c.lock()()
	lost, forgotten := c.members.expire(now)
	for _, n := range forgotten {
		c.forget(n, "it was away for long")
	}
	for _, n := range lost {
		for k := range c.containers.of(n) {
			c.orders.end(k, "lost")
		}
		c.containers.lost(n)
	}
	c.containers.expire(now)
	c.doubts.forget(now, c.cfg.timing.remember)
	c.orders.expire(now)
	if c.draining {
		c.goOn(now)
	}
}

func (c *cluster) forget(n *node, why string) {
	c.members.forget(n, why)
	c.containers.forget(n)
}

// forgetAway forgets the node of that name, if it is away.
func (c *cluster) forgetAway(name string) error {
	defer c.lock()()
	n, err := c.members.absent(name)
	if err == nil {
		c.forget(n, "a person asked for it")
	}
	return err
}

// enter notes the applications that there are, and those that have ended for good, as their scheduler tells.
func (c *cluster) enter(applications map[string]*wire.Application, ended []string) {
	defer c.lock()()
	c.containers.enter(applications)
	for _, name := range ended {
		c.finished.add(name, maxEnded)
	}
	for name := range applications { // whatever has been said of it before
		c.finished.remove(name)
	}
}

// endedOf returns those of some applications of which their scheduler has told that they have ended for good.
func (c *cluster) endedOf(applications []string) (ended []string) {
	defer c.lock()()
	for _, name := range applications {
		if c.finished.has(name) {
			ended = append(ended, name)
		}
	}
	return ended
}

// tell returns what Containers tells now, of all or of one application, with aside without those that only run, and what is
// closed when there is more.
func (c *cluster) tell(application string, aside bool) (*wire.ContainersResponse, <-chan struct{}) {
	all, changed := c.pick(application, aside)
	return all.inOrder(), changed
}

// pick collects what tell returns. Of one application it takes no longer where there are many others.
func (c *cluster) pick(application string, aside bool) (*shown, <-chan struct{}) {
	defer c.lock()()
	b := c.boardOf(aside)
	all := b.shown
	if all == nil || application != "" {
		all = &shown{res: &wire.ContainersResponse{Version: b.version, Nodes: c.members.here, Containers: c.containers.list(application, aside)}}
	}
	if application == "" {
		b.shown = all
	}
	return all, b.changed
}

// boardOf returns what callers are told of all containers, or of those that are put aside.
func (c *cluster) boardOf(aside bool) *board {
	if aside {
		return &c.aside
	}
	return &c.board
}

// told reports whether a version can be of an answer of this manager, 0 of none.
func (c *cluster) told(version uint64, aside bool) bool {
	defer c.lock()()
	b := c.boardOf(aside)
	return version == 0 || b.first <= version && version <= b.version
}

// people returns what Nodes tells.
func (c *cluster) people() *wire.NodesResponse {
	unlock := c.lock()
	res := &wire.NodesResponse{
		Nodes: c.members.list(), Containers: c.containers.list("", false), Policy: string(c.cfg.Policy.Policy),
		Version: c.cfg.Version, StartedMs: c.began.UnixMilli(), Draining: c.draining,
	}
	unlock()
	byName(res.Containers)
	return res
}
