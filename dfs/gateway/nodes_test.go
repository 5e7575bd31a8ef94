package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/block"
	"headrace/dfs"
	"headrace/hdfs/ipc"
	"headrace/hdfs/pb"
	"headrace/hdfs/xfer"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// writing returns the nodes that write the last block of a file.
func (c *cluster) writing(path string) (all []*peerNode) {
	c.t.Helper()
	for _, name := range c.located(path).Last.Nodes {
		all = append(all, c.byName(name))
	}
	return all
}

// but returns one of some nodes that neither leads nor is one of others, which are away, so that the names are answered for.
func (c *cluster) but(of []*peerNode, others ...*peerNode) *peerNode {
	c.t.Helper()
	leads := c.leading()
	i := slices.IndexFunc(of, func(p *peerNode) bool { return p != leads && !slices.Contains(others, p) })
	if votes := len(leads.node.Voters()); i < 0 || 2*(len(others)+1) >= votes {
		c.t.Fatalf("of %d nodes, none can be lost beside %d with %d votes", len(of), len(others), votes)
	}
	return of[i]
}

func (c *cluster) put(w *dfs.Writer, from, to int64) {
	c.t.Helper()
	if _, err := w.Write(pattern(from, to)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) close(w *dfs.Writer) {
	c.t.Helper()
	if err := w.Close(); err != nil {
		c.t.Fatal(err)
	}
}

// TestNodesKilledInAWrite: a writer goes on with another node when one of its pipeline is killed, whichever it is, and again.
func TestNodesKilledInAWrite(t *testing.T) {
	c := startCluster(t, 5)
	w := c.create("/f", 3, 1<<20)
	c.put(w, 0, 300_000)
	first := c.but(c.writing("/f"))
	first.kill()
	c.put(w, 300_000, 900_000) // into the same block
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if nodes := c.writing("/f"); len(nodes) != 3 || slices.Contains(nodes, first) {
		t.Errorf("%d nodes write on, the dead one: %v", len(nodes), slices.Contains(nodes, first))
	}
	second := c.but(c.writing("/f"), first)
	second.kill()
	c.put(w, 900_000, 2_500_000) // over two ends of blocks, while nobody has noticed that nodes are dead
	c.close(w)
	c.wantFile("/f", 2_500_000)
	for _, p := range []*peerNode{first, second} {
		c.change(ring.Down{Node: p.name()})
	}
	for _, p := range []*peerNode{first, second} {
		c.change(ring.Out{Node: p.name()})
	}
	c.replicated("/f", 3)
	c.wantFile("/f", 2_500_000)
}

// hanging is the store of a node that takes nothing more once it hangs, and ends nothing.
type hanging struct {
	xfer.Store
	hangs func() bool
	began func() // it hangs, and somebody waits for it
	end   <-chan struct{}
}

func (h hanging) Write(ctx context.Context, q xfer.WriteRequest) (xfer.Writer, error) {
	w, err := h.Store.Write(ctx, q)
	return hangingWriter{w, h}, err
}

type hangingWriter struct {
	xfer.Writer
	hanging hanging
}

func (w hangingWriter) Write(ctx context.Context, offset int64, data, sums []byte) error {
	if w.hanging.hangs() {
		w.hanging.began()
		<-w.hanging.end
	}
	return w.Writer.Write(ctx, offset, data, sums)
}

// patientConn waits for what it reads until the test says that the time is over, however long that takes.
type patientConn struct {
	net.Conn
	mu     sync.Mutex
	asked  time.Duration // the longest that it was to wait
	isOver bool
}

func (c *patientConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = max(c.asked, time.Until(t))
	if c.isOver {
		return nil
	}
	return c.Conn.SetReadDeadline(time.Time{})
}

// over ends its patience.
func (c *patientConn) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isOver = true
	c.Conn.SetReadDeadline(time.Unix(1, 0))
}

func (c *patientConn) wait() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked
}

// TestNodeThatHangs: the node that stands still is left out of a pipeline, and none of those before it, which wait for it: each
// waits longer than the one behind it. That the time is over is said by the test.
func TestNodeThatHangs(t *testing.T) {
	var hung atomic.Pointer[peerNode]
	began, end := make(chan struct{}), make(chan struct{})
	var mu sync.Mutex
	onward := map[*peerNode]*patientConn{} // of the latest pipeline
	c := startCluster(t, 3, func(c *cluster) {
		c.prepare = func(p *peerNode) {
			data := &p.g.data
			data.Store = hanging{data.Store, func() bool { return hung.Load() == p }, sync.OnceFunc(func() { close(began) }), end}
			dial := data.Dial
			data.Dial = func(ctx context.Context, address string) (net.Conn, error) {
				nc, err := dial(ctx, address)
				if err != nil {
					return nil, err
				}
				patient := &patientConn{Conn: nc}
				mu.Lock()
				defer mu.Unlock()
				onward[p] = patient
				return patient, nil
			}
		}
	})
	defer close(end)
	w := c.create("/f", 3, 1<<20)
	c.put(w, 0, 300_000)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	nodes := c.writing("/f")
	mu.Lock()
	first, second := onward[nodes[0]], onward[nodes[1]]
	mu.Unlock()
	hung.Store(nodes[2])
	go func() {
		select {
		case <-began:
			second.over()
		case <-end:
		}
	}()
	c.put(w, 300_000, 600_000)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if left := c.writing("/f"); !slices.Equal(left, nodes[:2]) {
		t.Errorf("%d nodes write on, not the first two", len(left))
	}
	if a, b := first.wait(), second.wait(); b < xfer.PerNode || a < b+xfer.PerNode/2 {
		t.Errorf("the first waits %v for the second, and that %v for the one that hangs", a, b)
	}
	c.close(w)
	c.wantFile("/f", 600_000)
}

// TestNodeKilledInARead: a reader goes on with another copy.
func TestNodeKilledInARead(t *testing.T) {
	c := startCluster(t, 4)
	const n = 8 << 20
	w := c.create("/f", 3, n)
	c.put(w, 0, n)
	c.close(w)
	c.replicated("/f", 3)
	b := c.located("/f").Blocks[0]
	here := c.nodes[0]
	if _, err := here.node.Blocks.Stat(int64(b.ID)); err == nil { // so that it is read elsewhere
		if err := here.node.Blocks.Delete(block.Block{ID: int64(b.ID), Stamp: b.Stamp}); err != nil {
			t.Fatal(err)
		}
	}
	r, err := here.node.OpenFile(meta.Caller{Super: true}, "/f", 0, n)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	read, killed := int64(0), false
	for r.Left() > 0 {
		p, err := r.Next(context.Background())
		if err != nil {
			t.Fatalf("at %d: %v", read, err)
		}
		if string(p) != string(pattern(read, read+int64(len(p)))) {
			t.Fatalf("other bytes at %d", read)
		}
		if read += int64(len(p)); read > 1<<20 && !killed {
			killed = true
			at := c.byName(here.node.Places().Readers(b, c.nodes[0].g.host)[0].Name)
			if at == here {
				at = c.byName(here.node.Places().Readers(b, c.nodes[0].g.host)[1].Name)
			}
			at.kill()
		}
	}
	if read != n || !killed {
		t.Errorf("%d bytes, killed %v", read, killed)
	}
}

// TestNodeComesBack: a node that was down has its copies still, gets those that were changed or made in the meantime, and deletes those
// of files that are gone; one that was out as well.
func TestNodeComesBack(t *testing.T) {
	for _, out := range []bool{false, true} {
		c := startCluster(t, 4)
		for _, path := range []string{"/kept", "/appended", "/deleted"} {
			c.write(path, 3, 4096, 30_000)
			c.replicated(path, 3)
		}
		p := c.nodes[2]
		p.kill()
		c.change(ring.Down{Node: p.name()})
		if out {
			c.change(ring.Out{Node: p.name()})
		}
		c.end(c.extend("/appended"), "/appended", 3, 4096, 30_000, 50_000)
		c.write("/new", 3, 4096, 30_000)
		c.do(&meta.Delete{Path: "/deleted"})
		if out {
			for path := range map[string]bool{"/kept": true, "/appended": true, "/new": true} {
				c.replicated(path, 3)
			}
		}
		p.start()
		c.back(p)
		c.settled()
		sizes := map[string]int64{"/kept": 30_000, "/appended": 50_000, "/new": 30_000}
		known := map[int64]bool{}
		for path, n := range sizes {
			c.replicated(path, 3)
			c.wantFile(path, n)
			for _, b := range c.located(path).Blocks {
				known[int64(b.ID)] = true
			}
		}
		testkit.Await(t, "each node to have what belongs there, and nothing else", func() bool {
			table := c.leader().View().Table
			for _, q := range c.nodes {
				for _, i := range q.node.Blocks.Blocks() {
					if !known[i.ID] {
						return false
					}
				}
				for path := range sizes {
					for _, b := range c.located(path).Blocks {
						i, err := q.node.Blocks.Stat(int64(b.ID))
						if belongs := slices.Contains(table.Targets(b.Segment), q.name()); belongs != (err == nil && i.Stamp == b.Stamp && i.Length == b.Size) {
							return false
						}
					}
				}
			}
			return true
		})
	}
}

// TestDeletedEverywhere: garbage goes from all nodes, and so do copies of which no file knows.
func TestDeletedEverywhere(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/d/f", 3, 4096, 30_000)
	c.write("/kept", 3, 4096, 10_000)
	for i, p := range c.nodes {
		w, err := p.node.Blocks.Create(block.Block{ID: int64(7 + i), Stamp: 1}, 9, 1<<10, false)
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c.do(&meta.Delete{Path: "/d", Recursive: true})
	kept := map[int64]bool{}
	for _, b := range c.located("/kept").Blocks {
		kept[int64(b.ID)] = true
	}
	testkit.Await(t, "copies to be deleted", func() bool {
		for _, p := range c.nodes {
			for _, i := range p.node.Blocks.Blocks() {
				if !kept[i.ID] {
					return false
				}
			}
		}
		return true
	})
	c.wantFile("/kept", 10_000)
}

// damage flips a byte of all blocks that a node has.
func damage(t testing.TB, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "blocks", "files", "*", "*.blocks"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, name := range files {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		const at = 4096 + 64<<10 + 100 // behind header and checksums of the first block
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDamagedCopy: a copy that has decayed is replaced by one from another node, when somebody says that it is bad; and who
// reads does not notice.
func TestDamagedCopy(t *testing.T) {
	c := startCluster(t, 3)
	c.write("/f", 3, 1<<20, 100_000)
	c.replicated("/f", 3)
	p := c.nodes[1]
	b := c.located("/f").Blocks[0]
	damage(t, p.dir)
	r := c.nodes[0].as("root")
	bad := ask[pb.GetBlockLocationsResponseProto](r, "getBlockLocations", r.locationsRequest("/f")).Locations.Blocks[0]
	ask[pb.ReportBadBlocksResponseProto](r, "reportBadBlocks", &pb.ReportBadBlocksRequestProto{Blocks: []*pb.LocatedBlockProto{bad}})
	testkit.Await(t, "the copy to be replaced", func() bool {
		h := xfer.Header(xfer.Block{Pool: p.node.Identity.Pool, ID: b.ID, Stamp: b.Stamp}, "c", p.node.Tokens().Issue(b.ID, pb.AccessModeProto_READ, ""))
		far, err := xfer.Read((&client{s: &p.site, t: t}).connect(), h, 0, b.Size)
		if err != nil {
			return false
		}
		got, err := io.ReadAll(far)
		return err == nil && string(got) == string(pattern(0, 100_000))
	})
	c.wantFile("/f", 100_000)
	// Who reads where it is damaged gets the rest elsewhere.
	damage(t, c.nodes[0].dir)
	c.wantFile("/f", 100_000)
	c.replicated("/f", 3)
}

// TestSurplusOfADamagedCopy: the only good copy stays where it does not belong, while the node that is to have one is there.
func TestSurplusOfADamagedCopy(t *testing.T) {
	c := startCluster(t, 3)
	const n = 100_000
	c.write("/f", 1, 1<<20, n)
	c.replicated("/f", 1)
	b := c.located("/f").Blocks[0]
	holder := c.byName(b.Nodes[0])
	damage(t, holder.dir)
	testkit.Await(t, "the damage to be found", func() bool {
		c.leader().Keeper.Verify(holder.name(), b.ID)
		i, err := holder.node.Blocks.Stat(int64(b.ID))
		return err == nil && i.Damaged
	})
	other := c.nodes[(holder.i+1)%3]
	put := func(b block.Block) {
		w, err := other.node.Blocks.Create(b, 9, n, false)
		if err == nil {
			err = errors.Join(w.Write(pattern(0, n), 0), w.Finalize(n), w.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(block.Block{ID: int64(b.ID), Stamp: b.Stamp})
	put(block.Block{ID: int64(b.ID) + 1000, Stamp: 1}) // of no file
	testkit.Await(t, "what no file has to be deleted", func() bool {
		_, err := other.node.Blocks.Stat(int64(b.ID) + 1000)
		return errors.Is(err, block.ErrNotFound)
	})
	good := func(of *peerNode) bool {
		i, err := of.node.Blocks.Stat(int64(b.ID))
		return err == nil && i.Length == n && !i.Damaged
	}
	if !good(other) && !good(holder) { // that may have been replaced meanwhile, from the other
		t.Error("the only good copy has gone")
	}
}

// TestFewerCopies: copies that are not wanted any more go, and are made again when they are.
func TestFewerCopies(t *testing.T) {
	c := startCluster(t, 4)
	const n = 60_000
	c.write("/f", 3, 16384, n)
	c.replicated("/f", 3)
	for _, copies := range []uint16{1, 3, 2} {
		c.do(&meta.SetReplication{Path: "/f", Copies: copies})
		c.replicated("/f", int(copies))
		for _, b := range c.located("/f").Blocks {
			if len(b.Nodes) != int(copies) && copies < 3 {
				t.Errorf("%d copies, and clients are told of %v", copies, b.Nodes)
			}
		}
		c.wantFile("/f", n)
	}
}

// TestLostDisk: a node that has lost its blocks says so, and gets them again.
func TestLostDisk(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/f", 3, 4096, 60_000)
	c.replicated("/f", 3)
	p := c.nodes[3]
	p.kill()
	blocks := filepath.Join(p.dir, "blocks")
	if err := os.RemoveAll(blocks); err != nil {
		t.Fatal(err)
	}
	if n, err := dfs.Open(dfs.Config{Dir: p.dir, Owner: "root"}); !errors.Is(err, block.ErrNotMounted) || !strings.Contains(err.Error(), "--new-disk") {
		t.Errorf("what may just not be mounted is used: %v, %v", n, err)
	}
	p.fresh = []string{blocks}
	p.start() // before anybody has noticed that it was away
	c.replicated("/f", 3)
	c.settled()
	c.wantFile("/f", 60_000)
}

// TestAllSayLost: all nodes have said that they lost what they have, as they do when a disk is not mounted on each: it can be read, and is held again
// as it was, also where none of them has all.
func TestAllSayLost(t *testing.T) {
	c := startCluster(t, 3)
	c.write("/f", 3, 4096, 60_000)
	c.replicated("/f", 3)
	c.settled()
	for i, b := range c.located("/f").Blocks {
		if err := c.nodes[i%3].node.Blocks.Delete(block.Block{ID: int64(b.ID), Stamp: b.Stamp}); err != nil {
			t.Fatal(err)
		}
	}
	all := make([]uint16, c.leader().View().Table.Segments())
	for s := range all {
		all[s] = uint16(s)
	}
	for _, p := range c.nodes {
		c.change(ring.Lost{Node: p.name(), Segments: all})
	}
	c.wantFile("/f", 60_000)
	c.settled()
	c.replicated("/f", 3)
	c.wantFile("/f", 60_000)
}

// TestOnlyCopyElsewhere: the only copy of a block is where it does not belong any more: it stays, and others are made from it.
func TestOnlyCopyElsewhere(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/f", 3, 4096, 4000)
	c.replicated("/f", 3)
	c.settled()
	b := c.located("/f").Blocks[0]
	targets := c.leader().View().Table.Targets(b.Segment)
	var other *peerNode
	var from *dfs.Node
	for _, p := range c.nodes {
		if slices.Contains(targets, p.name()) {
			from = p.node
		} else {
			other = p
		}
	}
	i, err := from.Blocks.Stat(int64(b.ID))
	if err != nil {
		t.Fatal(err)
	}
	r, err := from.Blocks.Open(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, 0, b.Size)
	if err != nil {
		t.Fatal(err)
	}
	part, err := r.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := other.node.Blocks.Create(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, i.File, i.Capacity, true)
	if err == nil {
		err = errors.Join(w.Write(part.Data, 0), w.Finalize(b.Size), w.Close())
	}
	r.Close()
	for _, p := range c.nodes {
		if p != other {
			err = errors.Join(err, p.node.Blocks.Delete(block.Block{ID: int64(b.ID), Stamp: b.Stamp}))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	c.replicated("/f", 3)
	c.wantFile("/f", 4000)
}

// TestFullNodes: a node that is full is passed over, and one that a client excludes.
func TestFullNodes(t *testing.T) {
	c := startCluster(t, 4)
	full := c.nodes[1]
	c.mu.Lock()
	c.full[full.name()] = true
	c.mu.Unlock()
	w := c.create("/f", 3, 1024)
	for i := range int64(20) {
		c.put(w, i*1000, i*1000+1000)
		if slices.Contains(c.writing("/f"), full) {
			t.Fatal("a full node gets a block")
		}
	}
	c.close(w)
	r := c.nodes[0].as("root")
	id := r.create("/g")
	path := "/g"
	excluded := []*pb.DatanodeInfoProto{}
	for _, p := range c.nodes[1:] {
		excluded = append(excluded, dfs.DataNode(c.leader().View().Members[p.name()]))
	}
	q := &pb.AddBlockRequestProto{Src: &path, ClientName: &r.name, FileId: &id, ExcludeNodes: excluded}
	b := ask[pb.AddBlockResponseProto](r, "addBlock", q).Block
	if len(b.Locs) != 1 || b.Locs[0].Id.GetDatanodeUuid() != c.nodes[0].name() {
		t.Errorf("%v", b.Locs)
	}
	q.ExcludeNodes = append(excluded, dfs.DataNode(c.leader().View().Members[c.nodes[0].name()]))
	q.Previous = b.B
	if e := r.throws("IOException", "addBlock", q); !strings.Contains(e.Message, "could only be written to 0 of the 1 minReplication nodes") {
		t.Error(e)
	}
}

// TestTokensOfAll: a token that the node of the names has issued is good at all nodes, for what it is for; nobody copies without one.
func TestTokensOfAll(t *testing.T) {
	c := startCluster(t, 3)
	c.write("/f", 3, 1<<20, 1000)
	c.write("/g", 3, 1<<20, 1000)
	c.replicated("/f", 3)
	r := c.nodes[0].as("root")
	f, g := r.locations("/f").Blocks[0], r.locations("/g").Blocks[0]
	if len(f.Locs) != 3 {
		t.Fatalf("%d places", len(f.Locs))
	}
	for _, p := range c.nodes {
		at := &client{s: &p.site, t: t, name: "c"}
		if got, err := at.readBlock(f, 0, 1000); err != nil || string(got) != string(pattern(0, 1000)) {
			t.Errorf("%d bytes, %v", len(got), err)
		}
		for name, token := range map[string]*pb.TokenProto{"none": nil, "of another block": g.BlockToken} {
			b := proto.CloneOf(f)
			b.BlockToken = token
			if _, err := at.readBlock(b, 0, 1); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
				t.Errorf("read with %s: %v", name, err)
			}
			h := xfer.Header(extended(f.B), "c", token)
			if err := xfer.Transfer(at.connect(), h, f.Locs[0]); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
				t.Errorf("copied with %s: %v", name, err)
			}
		}
		if err := xfer.Transfer(at.connect(), xfer.Header(extended(f.B), "c", f.BlockToken), f.Locs[0]); status(err) != pb.Status_ERROR_ACCESS_TOKEN {
			t.Errorf("copied with a token to read: %v", err)
		}
	}
}

// TestGoClientOnSeveralNodes: github.com/colinmarc/hdfs, a module of its own in dfs/clienttest, writes and reads with three copies, also when
// one of the nodes is gone.
func TestGoClientOnSeveralNodes(t *testing.T) {
	if testing.Short() {
		t.Skip("modules are not fetched in short tests")
	}
	program := filepath.Join(t.TempDir(), "colinmarc")
	for _, args := range [][]string{{"mod", "download"}, {"build", "-o", program, "."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir, cmd.Env = "../clienttest/testdata/colinmarc", append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
		if out, err := cmd.CombinedOutput(); err != nil && args[0] == "mod" {
			t.Skipf("its modules cannot be had: %v: %s", err, out[max(0, len(out)-500):])
		} else if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c := startCluster(t, 4)
	for round := range 2 {
		out, err := exec.Command(program, c.leading().rpc, "root", "3").CombinedOutput()
		if err != nil || string(out) != "well\n" {
			t.Fatalf("round %d: %v\n%s", round, err, out)
		}
		if round == 0 {
			p := c.but(c.nodes)
			p.kill()
			c.change(ring.Down{Node: p.name()})
		}
	}
}

// TestThreeNeighboursAway: what only they have is named, and is there again with them.
func TestThreeNeighboursAway(t *testing.T) {
	c := startCluster(t, 6)
	c.write("/f", 3, 1024, 100_000)
	c.replicated("/f", 3)
	v := c.leader().View()
	ringOrder := v.Table.Nodes()
	var away []*peerNode
	for i := range ringOrder { // three in a row of which at most two have one of the five seats among the names
		away = nil
		seats := 0
		for d := range 3 {
			n := ringOrder[(i+d)%len(ringOrder)].Name
			if away = append(away, c.byName(n)); v.Seats[n] != 0 {
				seats++
			}
		}
		if seats < 3 {
			break
		}
	}
	lost := map[uint64]bool{}
	for _, b := range c.located("/f").Blocks {
		lost[b.ID] = true
		for _, name := range v.Table.Targets(b.Segment) {
			if !slices.ContainsFunc(away, func(p *peerNode) bool { return p.name() == name }) {
				delete(lost, b.ID)
			}
		}
	}
	if len(lost) == 0 || len(lost) == len(c.located("/f").Blocks) {
		t.Fatalf("%d blocks are only there", len(lost))
	}
	for _, p := range away {
		p.kill()
		c.change(ring.Down{Node: p.name()})
	}
	problems := func() (all []dfs.Problem) {
		c.ask("what is wrong", func(n *dfs.Node) error {
			all = nil
			return n.Problems(meta.Caller{Super: true}, 0, func(p dfs.Problem) bool { all = append(all, p); return true })
		})
		return all
	}
	for _, p := range problems() {
		if !lost[p.Block] || p.Path != "/f" || p.Text != dfs.Missing {
			t.Errorf("%+v", p)
		}
		delete(lost, p.Block)
	}
	if len(lost) > 0 {
		t.Errorf("%d blocks that are missing are not named", len(lost))
	}
	for _, p := range away {
		p.start()
		c.back(p)
	}
	if all := problems(); len(all) > 0 {
		t.Errorf("%d problems, such as %+v", len(all), all[0])
	}
	c.wantFile("/f", 100_000)
}

// TestDrainedNode: a node that is to leave is needed until its only copies are elsewhere, too; then it may go.
func TestDrainedNode(t *testing.T) {
	c := startCluster(t, 4)
	c.write("/one", 1, 1024, 20_000)
	c.write("/three", 3, 1024, 20_000)
	c.replicated("/three", 3)
	p := c.but(c.nodes)
	if n, err := c.leader().Keeper.Kept(p.name()); err != nil || n == 0 {
		t.Fatalf("%d of 20 blocks are kept there, %v", n, err)
	}
	q := &call{Gateway: c.leading().g, by: meta.Caller{User: "root", Super: true}, ctx: t.Context()}
	if err := q.unneeded(p.name()); err == nil || !strings.Contains(err.Error(), "are kept there") {
		t.Errorf("it may go with what is only there: %v", err)
	}
	c.change(ring.Drain{Node: p.name()})
	admin := c.leading().dial("root", ipc.Options{Protocol: RingProtocol, User: ipc.User{Name: "root"}})
	remove := func() error {
		return admin.Call(context.Background(), "Remove", &wire.RingRemoveRequest{Node: p.name()}, &wire.RingChangeResponse{})
	}
	testkit.Await(t, "the node to be needed no longer", func() bool { return remove() == nil })
	p.kill()
	c.wantFile("/one", 20_000)
	c.wantFile("/three", 20_000)
	c.replicated("/three", 3)
}

// TestCopyInTheWay: a node that comes into a pipeline with an older copy of the block gets the new one in its place; one that writes it does not.
func TestCopyInTheWay(t *testing.T) {
	c := startCluster(t, 3)
	b := c.abandoned("/f", []*peerNode{c.nodes[0], c.nodes[1], c.nodes[2]}, 3000, 3000, 1000)
	old := b
	c.repiped(b, c.nodes[0], c.nodes[1])
	b.Stamp = c.located("/f").Last.Stamp
	transfer := func(to *peerNode) error {
		from := &client{s: &c.nodes[0].site, t: t}
		h := xfer.Header(xfer.Block{Pool: c.leader().Identity.Pool, ID: b.ID, Stamp: b.Stamp}, "c", c.leader().Tokens().Issue(b.ID, pb.AccessModeProto_COPY, ""))
		return xfer.Transfer(from.connect(), h, dfs.DataNode(c.leader().View().Members[to.name()]))
	}
	if err := transfer(c.nodes[2]); err != nil {
		t.Fatal(err)
	}
	i, err := c.nodes[2].node.Blocks.Stat(int64(b.ID))
	if err != nil || i.Stamp != b.Stamp || i.Length != 3000 || i.State != block.Writing {
		t.Errorf("%+v, %v; it was of %d", i, err, old.Stamp)
	}
	if err := transfer(c.nodes[1]); err == nil {
		t.Error("a node that writes the block takes a copy of it")
	}
	if err := c.nodes[2].node.Blocks.Complete(i.Block, b.Stamp, 3000); err != nil {
		t.Error(err)
	}
}

// TestNodesComeAndGo: one node after the other is killed and comes back, while files are written, appended to and read. No writer and no reader
// hears of it, and in the end all is there, three times.
func TestNodesComeAndGo(t *testing.T) {
	c := startCluster(t, 5, func(c *cluster) { c.tick = 2 * time.Second }) // it is not about who leads
	leader := c.leading()
	root := meta.Caller{User: "root", Super: true}
	var mu sync.Mutex
	written := map[string]int64{} // closed files
	stop, some := make(chan struct{}), make(chan struct{})
	one := sync.OnceFunc(func() { close(some) })
	var clients sync.WaitGroup
	for i := range 3 {
		clients.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				path := fmt.Sprintf("/w%d/f%d", i, n)
				w, err := leader.node.Create(context.Background(), root, meta.Create{Path: path, Mode: 0o644, Flags: meta.FlagCreate, Parents: true, Replication: 3, BlockSize: 64 << 10}, n%2 == 0)
				size := int64(0)
				for part := 0; err == nil && part < 10; part++ {
					more := int64(1000 + 7919*(n+part)%40_000)
					if _, err = w.Write(pattern(size, size+more)); err == nil && part%3 == 0 {
						err = w.Flush()
					}
					size += more
				}
				if err == nil {
					err = w.Close()
				}
				if err == nil && n%3 == 0 {
					if w, err = leader.node.Append(context.Background(), root, path, "m"); err == nil {
						if _, err = w.Write(pattern(size, size+5000)); err == nil {
							err = w.Close()
						}
						size += 5000
					}
				}
				if err != nil {
					t.Errorf("%s: %v", path, err)
					return
				}
				mu.Lock()
				written[path] = size
				mu.Unlock()
				one()
			}
		})
	}
	clients.Go(func() {
		select {
		case <-stop:
			return
		case <-some:
		}
		for {
			select {
			case <-stop:
				return
			default:
			}
			mu.Lock()
			var path string
			var n int64
			for path, n = range written { // any
				break
			}
			mu.Unlock()
			r, err := leader.node.OpenFile(root, path, 0, 1<<62)
			at := int64(0)
			for err == nil && r.Left() > 0 {
				var p []byte
				if p, err = r.Next(context.Background()); err == nil && string(p) != string(pattern(at, at+int64(len(p)))) {
					err = fmt.Errorf("other bytes at %d", at)
				}
				at += int64(len(p))
			}
			if err == nil && at != n {
				err = fmt.Errorf("%d bytes, not %d", at, n)
			}
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			r.Close()
		}
	})
	random := rand.New(rand.NewPCG(5, 6))
	rounds := 4 // one of each kind, and one more
	if testkit.All() {
		rounds = 8
	}
	for round := range rounds {
		p := c.nodes[random.IntN(len(c.nodes))]
		for p == leader {
			p = c.nodes[random.IntN(len(c.nodes))]
		}
		mu.Lock()
		before := len(written)
		mu.Unlock()
		p.kill()
		if round%2 == 0 {
			c.change(ring.Down{Node: p.name()})
			if round%4 == 0 {
				c.change(ring.Out{Node: p.name()})
			}
		}
		testkit.Await(t, "files to be written without a node", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(written) > before+3 || t.Failed()
		})
		p.start()
		if round%2 == 0 {
			c.back(p)
		}
	}
	close(stop)
	clients.Wait()
	if t.Failed() {
		return
	}
	c.settled()
	for path, n := range written {
		c.replicated(path, 3)
		c.wantFile(path, n)
	}
	c.ask("what is wrong", func(n *dfs.Node) error {
		return n.Problems(root, 0, func(p dfs.Problem) bool { t.Errorf("%+v", p); return true })
	})
	t.Logf("%d files", len(written))
}
