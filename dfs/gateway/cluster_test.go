package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"headrace/dfs"
	"headrace/internal/testkit"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
	"headrace/ring"
	"headrace/wire/wireconnect"
)

// cluster is several nodes with gateways. What they say to each other goes by plain HTTP and by calls here.
type cluster struct {
	t      testing.TB
	nodes  []*peerNode
	upkeep time.Duration
	// memory is the time between two looks at what is in memory: often has it be short.
	memory time.Duration
	// tick makes another node lead when the one that does has stood still for twenty of it: all share the processors of a busy machine.
	tick time.Duration
	// prepare is for what a test wants to be otherwise.
	prepare func(*peerNode)
	// begin is for what it wants of a node's disks.
	begin func(*peerNode)

	warned atomic.Int64 // how often a block could not be recovered
	calls  atomic.Int64 // of do

	mu   sync.Mutex
	full map[string]bool
}

// hearing is the log of a cluster.
type hearing struct {
	slog.Handler
	c *cluster
}

func (h hearing) Enabled(context.Context, slog.Level) bool { return true }

func (h hearing) Handle(ctx context.Context, r slog.Record) error {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "what" && a.Value.String() == "recover a block" {
			h.c.warned.Add(1)
		}
		return true
	})
	return h.Handler.Handle(ctx, r)
}

// peerNode is one of them. All that is of a life of it ends with kill.
type peerNode struct {
	site
	c      *cluster
	i      int
	number uint32
	self   dfs.Member
	dir    string
	fresh  []string // disks that are lost
	disks  []string // if not the one below dir
	fs     vfs.FS   // in which they are
	alive  bool
	peer   *http.Server
	// admitted: the ring knows where it is.
	admitted bool
	ended    chan error
}

func startCluster(t testing.TB, n int, change ...func(*cluster)) *cluster {
	t.Helper()
	c := &cluster{t: t, upkeep: 50 * time.Millisecond, memory: time.Second, tick: 300 * time.Millisecond, full: map[string]bool{}, prepare: func(*peerNode) {}}
	for _, f := range change {
		f(c)
	}
	for i := range n {
		c.nodes = append(c.nodes, &peerNode{c: c, i: i, dir: t.TempDir()})
	}
	if c.begin != nil {
		for _, p := range c.nodes {
			c.begin(p)
		}
	}
	for _, p := range c.nodes {
		p.start()
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() { // beats
		defer close(done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			c.tell()
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-done
		for i := len(c.nodes) - 1; i >= 0; i-- {
			if c.nodes[i].alive {
				c.nodes[i].kill()
			}
		}
	})
	c.settled()
	votes := min(n, 5)
	if n == 4 {
		votes = 3
	}
	testkit.Await(t, "as many votes as there should be", func() bool { return len(c.leader().Voters()) == votes })
	return c
}

// often is for tests of what is in memory.
func often(c *cluster) { c.memory = 50 * time.Millisecond }

// ask asks the node that leads until it has answered as such: all may have stood still for so long that another one leads now.
func (c *cluster) ask(what string, f func(*dfs.Node) error) {
	c.t.Helper()
	var err error
	testkit.Await(c.t, "an answer to "+what, func() bool {
		err = f(c.leader())
		_, other := errors.AsType[*dfs.NotLeader](err)
		return !other && !errors.Is(err, dfs.ErrUncertain) && !errors.Is(err, quorum.ErrBusy)
	})
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
}

// leading is the node that leads the names, waited for.
func (c *cluster) leading() (p *peerNode) {
	c.t.Helper()
	testkit.Await(c.t, "a node to lead", func() bool {
		p = c.leadsNow()
		return p != nil && p.node.Query(meta.Caller{}, func(meta.Query) error { return nil }) == nil
	})
	return p
}

func (c *cluster) leadsNow() *peerNode {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.nodes {
		if p.alive && p.node.Leads() {
			return p
		}
	}
	return nil
}

func (c *cluster) leader() *dfs.Node { return c.leading().node }

// send hands a message to a node that is alive.
func (c *cluster) send(m quorum.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.nodes {
		if p.alive && p.number == m.To.Node() {
			p.node.Deliver(m)
		}
	}
}

// tell gives all nodes the leader's view.
func (c *cluster) tell() {
	leads := c.leadsNow()
	if leads == nil {
		return
	}
	v := leads.node.View()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.nodes {
		if p.alive && p != leads {
			p.node.Learn(v)
		}
	}
}

// Blocks implements dfs.Peers. Nothing is packed, as between real nodes (package member).
func (c *cluster) Blocks(m dfs.Member) wireconnect.BlockServiceClient {
	return wireconnect.NewBlockServiceClient(http.DefaultClient, fmt.Sprintf("http://%s:%d", m.Host, m.Peer), connect.WithAcceptCompression("gzip", nil, nil))
}

// Room implements dfs.Peers.
func (c *cluster) Room(node string) (dfs.Room, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.full[node] {
		return dfs.Room{Capacity: 1 << 40, Remaining: 1 << 30}, true
	}
	return dfs.Room{Capacity: 1 << 40, Remaining: 1 << 39}, true
}

func (p *peerNode) name() string { return p.node.Identity.Node }

// start begins a life of a node, and tells the ring where it is.
func (p *peerNode) start() {
	p.c.t.Helper()
	p.reopen()
	p.readmit()
}

// readmit tells the ring where a node is that knows the ring.
func (p *peerNode) readmit() {
	p.c.t.Helper()
	if p.admitted {
		return
	}
	p.admitted = true
	p.admit(p.self, nil)
}

// reopen begins a life of a node.
func (p *peerNode) reopen() {
	t, c := p.c.t, p.c
	t.Helper()
	m := meta.DefaultConfig()
	m.MinBlockSize = 512
	host := fmt.Sprintf("127.0.1.%d", 11+p.i)
	on := func() net.Listener {
		l, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	rpc, data, peer := on(), on(), on()
	self := dfs.Member{Host: host, RPC: uint16(port(rpc)), Data: uint16(port(data)), Peer: uint16(port(peer)), Rack: "/default-rack"}
	log := slog.New(hearing{slog.DiscardHandler, c})
	if os.Getenv("HEADRACE_TEST_LOG") != "" {
		log = slog.New(hearing{slog.NewTextHandler(os.Stderr, nil).WithAttrs([]slog.Attr{slog.String("node", host)}), c})
	}
	config := dfs.Config{Dir: p.dir, Owner: "root", Meta: &m, Upkeep: c.upkeep, ScrubRate: -1, Reconcile: time.Second, Memory: c.memory, Tick: c.tick, Self: self, NewDisks: p.fresh, Send: c.send, Peers: c, Log: log}
	config.Disks, config.FS, config.Run = p.disks, p.fs, c.t.TempDir()
	p.admitted = false
	if p.i > 0 && p.number == 0 {
		who, err := dfs.Prepare(config)
		if err != nil {
			t.Fatal(err)
		}
		self.Name, self.Storage = who.Node, who.Storage
		p.admit(self, &config)
		p.admitted = true
	}
	node, err := dfs.Open(config)
	if err != nil {
		t.Fatal(err)
	}
	p.site = site{t: t, node: node, rpc: rpc.Addr().String(), data: data.Addr().String()}
	p.g = New(Config{Node: node, Host: host, Trust: true, Log: log, Groups: func(string) []string { return nil }})
	c.prepare(p)
	p.peer = &http.Server{}
	mux := http.NewServeMux()
	mux.Handle(wireconnect.NewBlockServiceHandler(node.Keeper.Service()))
	p.peer.Handler = mux
	p.ended = make(chan error, 2)
	go func() { p.ended <- p.g.Serve(rpc, data) }()
	go func() {
		if err := p.peer.Serve(peer); !errors.Is(err, http.ErrServerClosed) {
			p.ended <- err
			return
		}
		p.ended <- nil
	}()
	c.mu.Lock()
	p.admitted = p.admitted || p.number == 0 // the first one of all founds the ring
	p.alive, p.number = true, max(1, p.number)
	c.mu.Unlock()
	self.Name, self.Storage = node.Identity.Node, node.Identity.Storage
	p.self = self
}

// admit tells the ring where a node is, and a new one of the ring.
func (p *peerNode) admit(self dfs.Member, config *dfs.Config) {
	p.c.t.Helper()
	testkit.Await(p.c.t, "a node to be admitted", func() bool {
		leader := p.c.leader()
		v, number, err := leader.Admit(context.Background(), self)
		if err == nil && config != nil {
			config.Invitation = leader.Identity.Invitation(v)
		}
		p.c.mu.Lock()
		p.number = number
		p.c.mu.Unlock()
		return err == nil
	})
}

// kill ends a node at once: connections are cut, and what it was asked is not answered.
func (p *peerNode) kill() {
	p.c.t.Helper()
	p.c.mu.Lock()
	p.alive = false
	p.c.mu.Unlock()
	p.peer.Close()
	p.g.close()
	for range 2 {
		if err := <-p.ended; err != nil {
			p.c.t.Error(err)
		}
	}
	if err := p.node.Close(); err != nil {
		p.c.t.Error(err)
	}
}

// change has something happen to the ring.
func (c *cluster) change(e ring.Event) {
	c.t.Helper()
	testkit.Await(c.t, "the ring to change", func() bool {
		_, err := c.leader().ChangeRing(context.Background(), e)
		return err == nil
	})
}

// back notes that a node is there again.
func (c *cluster) back(p *peerNode) {
	c.t.Helper()
	testkit.Await(c.t, "a node to be back", func() bool {
		_, err := c.leader().Keeper.Return(context.Background(), p.name())
		return err == nil
	})
}

// settled waits until everything is where it belongs.
func (c *cluster) settled() {
	c.t.Helper()
	lacks := ""
	defer func() {
		if c.t.Failed() {
			c.t.Log(lacks)
		}
	}()
	testkit.Await(c.t, "the ring to be filled", func() bool {
		c.tell()
		t := c.leader().View().Table
		for s := range uint16(t.Segments()) {
			if !t.Settled(s) {
				lacks = fmt.Sprintf("epoch %d, segment %d belongs to %v and is held by %v; nodes %+v", t.Epoch(), s, t.Targets(s), t.Holders(s), t.Nodes())
				return false
			}
		}
		return true
	})
}

// copies counts the good copies of the blocks of a file on nodes that are alive.
func (c *cluster) copies(path string) (all []int) {
	c.t.Helper()
	for _, b := range c.located(path).Blocks {
		n := 0
		for _, p := range c.nodes {
			if !p.alive {
				continue
			}
			if i, err := p.node.Blocks.Stat(int64(b.ID)); err == nil && i.State.String() == "final" && i.Stamp == b.Stamp && i.Length == b.Size && !i.Damaged {
				n++
			}
		}
		all = append(all, n)
	}
	return all
}

func (c *cluster) located(path string) (l *meta.Located) {
	c.t.Helper()
	c.ask("the blocks of "+path, func(n *dfs.Node) error {
		return n.Query(meta.Caller{Super: true}, func(q meta.Query) (err error) { l, err = q.Blocks(path, 0, 1<<62); return err })
	})
	return l
}

// replicated waits until each block of a file has so many copies, and it is not kept any more where they are.
func (c *cluster) replicated(path string, copies int) {
	c.t.Helper()
	testkit.Await(c.t, fmt.Sprintf("%d copies of %s", copies, path), func() bool {
		for _, n := range c.copies(path) {
			if n != copies {
				return false
			}
		}
		for _, b := range c.located(path).Blocks {
			if len(b.Nodes) > 0 && copies == 3 {
				return false
			}
		}
		return true
	})
}

// create opens a file by a node's own writer, as WebHDFS does.
func (c *cluster) create(path string, copies uint16, blockSize int64) *dfs.Writer {
	c.t.Helper()
	var w *dfs.Writer
	c.ask("create "+path, func(n *dfs.Node) (err error) { // in the place of one that may have been made
		w, err = n.Create(context.Background(), meta.Caller{User: "root", Super: true},
			meta.Create{Path: path, Mode: 0o644, Flags: meta.FlagCreate | meta.FlagOverwrite, Parents: true, Replication: copies, BlockSize: blockSize, Machine: "127.0.0.1"}, false)
		return err
	})
	return w
}

// extend opens a file at its end, as create does.
func (c *cluster) extend(path string) (w *dfs.Writer) {
	c.t.Helper()
	c.ask("append to "+path, func(n *dfs.Node) (err error) {
		w, err = n.Append(context.Background(), meta.Caller{User: "root", Super: true}, path, "127.0.0.1")
		return err
	})
	return w
}

// write makes a file of a pattern.
func (c *cluster) write(path string, copies uint16, blockSize, n int64) {
	c.t.Helper()
	c.end(c.create(path, copies, blockSize), path, copies, blockSize, 0, n)
}

// end writes the rest of a file of a pattern, and closes it. When the node of the writer cannot ask the others, as after it has stood still for long, the file is
// written again as a whole, by one that can.
func (c *cluster) end(w *dfs.Writer, path string, copies uint16, blockSize, from, to int64) {
	c.t.Helper()
	c.ask("writing "+path, func(*dfs.Node) error {
		if w == nil {
			c.t.Logf("%s is written again as a whole", path)
			w, from = c.create(path, copies, blockSize), 0
		}
		w.Write(pattern(from, to)) // Close returns what was wrong
		err := w.Close()
		w = nil
		return err
	})
}

// wantFile wants a file of a pattern, by the reader of any node that has the names.
func (c *cluster) wantFile(path string, n int64) {
	c.t.Helper()
	var r *dfs.Reader
	c.ask("open "+path, func(n *dfs.Node) (err error) {
		r, err = n.OpenFile(meta.Caller{User: "root", Super: true}, path, 0, 1<<62)
		return err
	})
	defer r.Close()
	want, at := pattern(0, n), int64(0)
	for r.Left() > 0 {
		p, err := r.Next(context.Background())
		if err != nil {
			c.t.Fatalf("%s at %d: %v", path, at, err)
		}
		if at+int64(len(p)) > n || string(p) != string(want[at:at+int64(len(p))]) {
			c.t.Fatalf("%s has other bytes from %d on", path, at)
		}
		at += int64(len(p))
	}
	if at != n {
		c.t.Errorf("%s has %d bytes, not %d", path, at, n)
	}
}

// byName finds a node.
func (c *cluster) byName(name string) *peerNode {
	for _, p := range c.nodes {
		if p.name() == name {
			return p
		}
	}
	c.t.Fatalf("no node %s", name)
	return nil
}

// TestThreeCopies: files have as many copies as they want, where their segments belong.
func TestThreeCopies(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/three", 3, 4096, 40_000)
	c.write("/one", 1, 4096, 20_000)
	c.write("/many", 10, 4096, 20_000)
	c.replicated("/three", 3)
	c.replicated("/one", 1)
	c.replicated("/many", 3)
	for path, n := range map[string]int64{"/three": 40_000, "/one": 20_000, "/many": 20_000} {
		c.wantFile(path, n)
	}
	for _, b := range c.located("/three").Blocks {
		for _, name := range c.leader().View().Table.Targets(b.Segment) {
			if _, err := c.byName(name).node.Blocks.Stat(int64(b.ID)); err != nil {
				t.Errorf("block %d belongs to %s: %v", b.ID, name, err)
			}
		}
	}
}
