package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"headrace/block"
	"headrace/dfs"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/ring"
)

// do has something done once, whoever leads.
func (c *cluster) do(op meta.Op) (r meta.Result) {
	c.t.Helper()
	m := meta.Command{Client: "test", Call: c.calls.Add(1), Caller: meta.Caller{User: "root", Super: true}, Op: op}
	c.ask(fmt.Sprintf("%T", op), func(n *dfs.Node) (err error) { r, err = n.Propose(context.Background(), m); return err })
	return r
}

// abandoned makes a file whose writer has gone, with so many bytes of its only block at each node.
func (c *cluster) abandoned(path string, nodes []*peerNode, bytes ...int64) meta.Block {
	c.t.Helper()
	var names []string
	for _, p := range nodes {
		names = append(names, p.name())
	}
	f := c.do(&meta.Create{Path: path, Mode: 0o644, Holder: "c", Flags: meta.FlagCreate, Parents: true, Replication: 3, BlockSize: 1 << 20}).(*meta.Status)
	b := c.do(&meta.AddBlock{Path: path, ID: f.ID, Holder: "c", Segment: 7, Nodes: names}).(*meta.Allocated).Block
	for i, n := range bytes {
		w, err := nodes[i].node.Blocks.Create(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, f.ID, 1<<20, false)
		if err == nil {
			err = errors.Join(w.Write(pattern(0, n), 0), w.Flush(), w.Close())
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
	return b
}

// repiped has nodes go on with a block under a new generation.
func (c *cluster) repiped(b meta.Block, nodes ...*peerNode) {
	c.t.Helper()
	next := c.do(&meta.NewStamp{Block: b, Holder: "c"}).(*meta.Allocated).Block
	var names []string
	for _, p := range nodes {
		w, err := p.node.Blocks.Recover(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, next.Stamp, 0, 1<<20)
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			c.t.Fatal(err)
		}
		names = append(names, p.name())
	}
	c.do(&meta.UpdatePipeline{Holder: "c", Old: b, New: meta.Block{ID: b.ID, Stamp: next.Stamp}, Nodes: names})
}

// astray makes a file whose writer has gone, with so many bytes at a node that is not among those that are noted.
func (c *cluster) astray(path string, n int64) {
	c.t.Helper()
	targets := c.leader().View().Table.Targets(7)
	has := c.byName(targets[0])
	b := c.abandoned(path, []*peerNode{has}, n)
	next := c.do(&meta.NewStamp{Block: b, Holder: "c"}).(*meta.Allocated).Block
	w, err := has.node.Blocks.Recover(block.Block{ID: int64(b.ID), Stamp: b.Stamp}, next.Stamp, n, n)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.do(&meta.UpdatePipeline{Holder: "c", Old: b, New: meta.Block{ID: b.ID, Stamp: next.Stamp, Size: n}, Nodes: targets[1:2]})
}

// recovered has a file closed, and wants so many bytes in it, everywhere.
func (c *cluster) recovered(path string, n int64) {
	c.t.Helper()
	testkit.Await(c.t, path+" to be closed", func() bool {
		closed := bool(*c.do(&meta.RecoverLease{Path: path, Holder: "d"}).(*meta.Flag))
		c.leader().Wake()
		return closed
	})
	c.wantFile(path, n)
	c.replicated(path, 3)
	c.wantFile(path, n)
}

// TestRecoveryOnThreeNodes: a block whose writer has gone gets the length that the nodes of its last pipeline have in common. A node with an
// older generation, or none, has no say, and gets a copy.
func TestRecoveryOnThreeNodes(t *testing.T) {
	c := startCluster(t, 4)
	three := c.nodes[:3]
	c.abandoned("/alike", three, 5000, 5000, 5000)
	c.abandoned("/shorter", three, 5000, 4000, 5000)
	c.abandoned("/missing", three, 5000, 4500)
	c.repiped(c.abandoned("/older", three, 6000, 5500, 3000), three[0], three[1])
	c.abandoned("/elsewhere", c.nodes[1:], 700, 800, 900) // the node that leads has no copy
	c.astray("/astray", 900)
	for path, n := range map[string]int64{"/astray": 900, "/alike": 5000, "/shorter": 4000, "/missing": 4500, "/older": 5500, "/elsewhere": 700} {
		c.recovered(path, n)
	}
	// Of a block that nobody has there is nothing, and the file is closed without it.
	c.abandoned("/nothing", three)
	testkit.Await(t, "the file to be closed", func() bool {
		defer c.leader().Wake()
		return bool(*c.do(&meta.RecoverLease{Path: "/nothing", Holder: "d"}).(*meta.Flag))
	})
	c.wantFile("/nothing", 0)
}

// TestRecoveryWaits: while the only node that wrote the block last is away, the block is left as it is, also when it is not expected back.
func TestRecoveryWaits(t *testing.T) {
	c := startCluster(t, 4)
	p := c.but(c.nodes)
	b := c.abandoned("/f", []*peerNode{p, c.leading()}, 900, 700)
	c.repiped(b, p)
	p.kill()
	c.do(&meta.RecoverLease{Path: "/f", Holder: "d"})
	for _, e := range []ring.Event{nil, ring.Down{Node: p.name()}, ring.Out{Node: p.name()}} {
		if e != nil {
			c.change(e)
		}
		tried := c.warned.Load()
		testkit.Await(t, "the recovery to be tried", func() bool { return c.warned.Load() > tried+2 })
		if c.located("/f").LastComplete {
			t.Fatalf("after %T it is closed without the node that has it", e)
		}
	}
	p.start()
	c.back(p)
	c.recovered("/f", 900)
}

// TestAllKilled: all nodes are killed at once, while a file is written. What was flushed is there.
func TestAllKilled(t *testing.T) {
	c := startCluster(t, 3)
	w := c.create("/f", 3, 1<<20)
	c.put(w, 0, 200_000)
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	c.put(w, 200_000, 210_000)
	for _, p := range c.nodes {
		p.kill()
	}
	for _, p := range c.nodes {
		p.reopen()
	}
	for _, p := range c.nodes {
		p.readmit()
	}
	testkit.Await(t, "the file to be closed", func() bool {
		defer c.leader().Wake()
		return bool(*c.do(&meta.RecoverLease{Path: "/f", Holder: "d"}).(*meta.Flag))
	})
	if n := c.located("/f").Size; n < 200_000 {
		t.Errorf("%d bytes are left", n)
	}
	c.wantFile("/f", c.located("/f").Size)
	c.replicated("/f", 3)
}
