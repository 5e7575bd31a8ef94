package dfs

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// surplus reports whether a copy as a block is to be is surplus at a node.
func (n *Node) surplus(t testing.TB, node string, b meta.Block, ask bool) bool {
	t.Helper()
	c := &wire.BlockCopy{Block: b.ID, Stamp: b.Stamp, Length: b.Size, State: wire.BlockCopy_FINAL}
	r := must[*wire.JudgeResponse](t)(n.Keeper.Service().Judge(t.Context(), &wire.JudgeRequest{Node: node, Copies: []*wire.BlockCopy{c}, Ask: ask}))
	return slices.Contains(r.Surplus, b.ID)
}

// TestOnlyGoodCopyStays: a copy is surplus for certain when a node that is to have one has it, not when that is only up.
func TestOnlyGoodCopyStays(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	defer closeNode(t, n)
	b := write(t, n, "/f", "some bytes")
	if !n.surplus(t, "another", b, true) {
		t.Error("what is here is needed elsewhere")
	}
	if !n.surplus(t, "another", meta.Block{ID: b.ID + 1000}, true) {
		t.Error("what no file has is needed")
	}
	if err := n.Blocks.Delete(block.Block{ID: int64(b.ID), Stamp: b.Stamp}); err != nil {
		t.Fatal(err)
	}
	if !n.surplus(t, "another", b, false) || n.surplus(t, "another", b, true) {
		t.Error("the only copy may be deleted")
	}
}

// judged waits until a node has had all its copies judged once, as it does when it has started.
func judged(t testing.TB, n *Node) {
	t.Helper()
	testkit.Await(t, "the first look at all copies", func() bool {
		n.Keeper.mu.Lock()
		defer n.Keeper.mu.Unlock()
		return len(n.Keeper.fills.has) > 0 // it comes after
	})
}

// TestOldCopies: an old copy is to be replaced from nodes that are up, and from no others: each one that is not takes long to find out.
func TestOldCopies(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour})
	defer closeNode(t, n)
	judged(t, n)
	b := write(t, n, "/f", "some bytes")
	other := Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}
	if _, _, err := n.Admit(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.SetReplication{Path: "/f", Copies: 3}))
	sources := func() []string {
		c := &wire.BlockCopy{Block: b.ID, Stamp: b.Stamp - 1, Length: b.Size, State: wire.BlockCopy_FINAL}
		r := must[*wire.JudgeResponse](t)(n.Keeper.Service().Judge(t.Context(), &wire.JudgeRequest{Node: n.Identity.Node, Copies: []*wire.BlockCopy{c}}))
		if len(r.Stale) != 1 {
			t.Fatalf("%+v", r)
		}
		return r.Stale[0].Nodes
	}
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp, Nodes: []string{n.Identity.Node, other.Name}}}}))
	if got := sources(); !slices.Equal(got, []string{n.Identity.Node, other.Name}) {
		t.Errorf("%v", got)
	}
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp, Nodes: []string{other.Name}}}}))
	must[*View](t)(n.ChangeRing(t.Context(), ring.Down{Node: other.Name}))
	if got := sources(); len(got) > 0 {
		t.Errorf("%v is down and asked", got)
	}
}

// TestWantedCopyStays: a copy of a block that is kept at a node which leaves is not surplus where it is to come, though not noted yet.
func TestWantedCopyStays(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour}) // nothing is noted in between
	defer closeNode(t, n)
	b := write(t, n, "/f", "some bytes")
	other := Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}
	if _, _, err := n.Admit(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp, Nodes: []string{other.Name}}}}))
	if !n.surplus(t, n.Identity.Node, b, false) {
		t.Fatal("a copy is needed that is kept elsewhere")
	}
	must[*View](t)(n.ChangeRing(t.Context(), ring.Drain{Node: other.Name}))
	if n.surplus(t, n.Identity.Node, b, false) {
		t.Error("a copy may be deleted that is to be there")
	}
}

// TestOpenBlocksAreKept: a node is needed for what is being written there.
func TestOpenBlocksAreKept(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	defer closeNode(t, n)
	kept := func(want int) {
		t.Helper()
		if got := must[int](t)(n.Keeper.Kept(n.Identity.Node)); got != want {
			t.Errorf("%d blocks are kept, not %d", got, want)
		}
	}
	kept(0)
	b, w := begin(t, n, "/f", "some bytes")
	kept(1)
	if err := w.Finalize(b.Size); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.AbandonBlock{Path: "/f", Holder: "c", Block: b}))
	kept(0)
}

// TestGoodCopiesCount: a good copy where a block is to be counts also when all nodes that are noted are away, or have lost theirs.
func TestGoodCopiesCount(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Upkeep: time.Hour, Reconcile: time.Hour})
	b := write(t, n, "/f", "some bytes")
	if _, _, err := n.Admit(t.Context(), Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.SetReplication{Path: "/f", Copies: 3}))
	self := n.Identity.Node
	var p *meta.Placed
	n.ask(func(q meta.Query) { p = q.Placed(b.ID) })
	p.Nodes = []string{"another"}
	here := map[uint64]*wire.BlockCopy{b.ID: n.Keeper.copyOf(int64(b.ID))}
	for what, c := range map[string]struct {
		copies census
		down   bool
		want   []string
	}{
		"it does not answer":    {census{self: here}, false, []string{"another", self}},
		"it has lost its copy":  {census{self: here, "another": {b.ID: {Block: b.ID}}}, false, []string{self}},
		"it is down":            {census{self: here}, true, []string{"another", self}},
		"nobody is known to be": {census{}, true, nil},
	} {
		places := n.Places()
		if c.down {
			table, _, err := places.View.Table.Apply(ring.Down{Node: "another"})
			if err != nil {
				t.Fatal(err)
			}
			v := *places.View
			v.Table = table
			places.View = &v
		}
		r := n.Keeper.all.settleOne(places, p, c.copies)
		switch {
		case c.want == nil && r != nil, c.want != nil && r == nil:
			t.Errorf("%s: %+v", what, r)
		case r != nil && !slices.Equal(unique(r.Nodes), unique(c.want)):
			t.Errorf("%s: it is at %v, want %v", what, r.Nodes, c.want)
		}
	}
}

// TestCopyComesBack: a good copy that comes back, as with its disk, counts from then on when nobody is there who counts; it stays when somebody is.
func TestCopyComesBack(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Upkeep: time.Hour, Reconcile: time.Hour})
	judged(t, n)
	b := write(t, n, "/f", "some bytes")
	for _, name := range []string{"another", "third"} {
		if _, _, err := n.Admit(t.Context(), Member{Name: name, Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
			t.Fatal(err)
		}
	}
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp, Nodes: []string{"another"}}}}))
	noted := func() (nodes []string) {
		n.ask(func(q meta.Query) { nodes = unique(slices.Clone(q.Placed(b.ID).Nodes)) })
		return nodes
	}
	n.surplus(t, "third", b, false)
	if got := noted(); !slices.Equal(got, []string{"another"}) {
		t.Errorf("%v", got)
	}
	must[*View](t)(n.ChangeRing(t.Context(), ring.Down{Node: "another"}))
	if n.surplus(t, "third", b, false) {
		t.Error("the only copy that can be read is surplus")
	}
	if got := noted(); !slices.Equal(got, []string{"another", "third"}) {
		t.Errorf("%v have the block", got)
	}
}

// TestFetchedIsNotedSoon: what a node has fetched is noted in the next round, not when the walk over all files comes round again.
func TestFetchedIsNotedSoon(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Upkeep: time.Hour, Reconcile: time.Hour})
	b := write(t, n, "/f", "some bytes")
	if _, _, err := n.Admit(t.Context(), Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
		t.Fatal(err)
	}
	must[meta.Result](t)(n.do(&meta.SetReplication{Path: "/f", Copies: 3}))
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp, Nodes: []string{"another"}}}}))
	var p *meta.Placed
	n.ask(func(q meta.Query) { p = q.Placed(b.ID) })
	k := n.Keeper.all
	k.order(p, n.Identity.Node, []string{"another"}) // it has the block
	testkit.Await(t, "the order to be done", func() bool { k.mu.Lock(); defer k.mu.Unlock(); return len(k.ordered) == 0 })
	k.cursor = 1 << 60 // the walk is elsewhere
	k.settle()
	n.ask(func(q meta.Query) { p = q.Placed(b.ID) })
	if !slices.Contains(p.Nodes, n.Identity.Node) {
		t.Errorf("it is noted at %v", p.Nodes)
	}
}

// TestOnlyCopyIsClosed: the power has taken the note that a block was closed, and none of its bytes. Where there is no other copy this one is closed, if it can be read.
func TestOnlyCopyIsClosed(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir := t.TempDir()
		n := open(t, Config{Dir: dir})
		b, w := begin(t, n, "/f", "some bytes")
		if err := errors.Join(w.Sync(), w.Close()); err != nil { // it is not closed
			t.Fatal(err)
		}
		must[meta.Result](t)(n.do(&meta.Complete{Path: "/f", Holder: "c", Last: &b, Copies: 1}))
		closeNode(t, n)
		if damaged {
			blocks := must[[]string](t)(filepath.Glob(filepath.Join(dir, "blocks", "files", "*", "*.blocks")))
			f := must[*os.File](t)(os.OpenFile(blocks[0], os.O_RDWR, 0))
			all := must[[]byte](t)(io.ReadAll(f))
			must[int](t)(f.WriteAt([]byte("x"), int64(bytes.Index(all, []byte("some bytes")))))
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
		n = open(t, Config{Dir: dir, Upkeep: time.Hour, Reconcile: time.Hour})
		judged(t, n)
		i := must[block.Info](t)(n.Blocks.Stat(int64(b.ID)))
		if closed := i.State == block.Final; closed == damaged {
			t.Errorf("damaged %v: %+v", damaged, i)
		}
		a, err := n.Append(t.Context(), n.root(), "/f", "here")
		if (err != nil) != damaged {
			t.Errorf("damaged %v: %v", damaged, err)
		}
		if err == nil && a.Close() != nil {
			t.Error("the file cannot be closed again")
		}
		closeNode(t, n)
	}
}
