package dfs

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestNoRoomNoFetch: for a block for which there is no room nobody is asked.
func TestNoRoomNoFetch(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	source := Member{Name: "source", Storage: "s", Host: "127.0.0.1", Data: uint16(l.Addr().(*net.TCPAddr).Port), RPC: 1, Peer: 1}
	if _, _, err := n.Admit(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	l.Close() // who is asked refuses
	w := &wire.WantedBlock{Block: 1, Stamp: 1, Length: 1 << 60, Capacity: 1 << 60, File: 1}
	if err := n.Keeper.fetch(t.Context(), w, []string{source.Name}); !errors.Is(err, block.ErrFull) {
		t.Error(err)
	}
	w.Length, w.Capacity = 1<<20, 1<<20
	if err := n.Keeper.fetch(t.Context(), w, []string{source.Name}); err == nil || errors.Is(err, block.ErrFull) {
		t.Error(err)
	}
}

// counted are other nodes of which none is there; it counts how often one is asked.
type counted struct {
	atomic.Int32
	full atomic.Bool
}

func (c *counted) Blocks(m Member) wireconnect.BlockServiceClient {
	c.Add(1)
	return wireconnect.NewBlockServiceClient(http.DefaultClient, "http://127.0.0.1:1")
}

func (c *counted) Room(string) (Room, bool) {
	if c.full.Load() {
		return Room{Capacity: 100, Remaining: 1}, true
	}
	return Room{Capacity: 100, Remaining: 99}, true
}

// TestFullNodesGetNoOrders: a node that is full is not told to fetch a block that belongs there, until it is not.
func TestFullNodesGetNoOrders(t *testing.T) {
	others := &counted{}
	n := open(t, Config{Dir: t.TempDir(), Peers: others, Upkeep: time.Hour, Reconcile: time.Hour})
	b := write(t, n, "/f", "some bytes")
	if _, _, err := n.Admit(t.Context(), Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
		t.Fatal(err)
	}
	var p *meta.Placed
	n.ask(func(q meta.Query) { p = q.Placed(b.ID) })
	self := n.Identity.Node
	copies := census{self: {b.ID: n.Keeper.copyOf(int64(b.ID))}, "another": {b.ID: {Block: b.ID}}}
	p.Replication, p.Nodes = 3, []string{self}
	before := others.Load()
	for _, full := range []bool{true, false} {
		others.full.Store(full)
		n.Keeper.all.settleOne(n.Places(), p, copies)
	}
	closeNode(t, n) // which waits for what was ordered
	if got := others.Load() - before; got != 1 {
		t.Errorf("asked %d times, not once", got)
	}
}

// TestFewFetches: however many copies are asked for at once, by whomever, only a few are being made: clients wait for the same disk.
func TestFewFetches(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	source := Member{Name: "source", Storage: "s", Host: "127.0.0.1", Data: uint16(l.Addr().(*net.TCPAddr).Port), RPC: 1, Peer: 1}
	if _, _, err := n.Admit(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	came := make(chan net.Conn, 100)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- c
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	const all = 5 * mostFetches
	var fetching sync.WaitGroup
	for i := range all {
		w := &wire.WantedBlock{Block: uint64(i + 1), Stamp: 1, Length: 1 << 20, Capacity: 1 << 20, File: 1}
		fetching.Go(func() {
			if err := n.Keeper.fetch(t.Context(), w, []string{source.Name}); err == nil {
				t.Error("a block was fetched from a node that has said nothing")
			}
		})
	}
	testkit.Await(t, "all to be wanted, and some to be asked for", func() bool { return n.Fetching() == all && len(came) >= mostFetches })
	for range all {
		c := <-came
		if more := len(came); more >= mostFetches {
			t.Errorf("%d are fetched at once, want at most %d", more+1, mostFetches)
		}
		c.Close() // the next one's turn
	}
	fetching.Wait()
	if len(came) > 0 {
		t.Error("more connections than blocks")
	}
}

// TestShortBlocksNeedLittleRoom: a block that is short is fetched where there is no room for all that its file lets it have.
func TestShortBlocksNeedLittleRoom(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir()})
	w := &wire.WantedBlock{Block: 1, Stamp: 1, Length: 1, Capacity: 2 * n.Blocks.Volumes()[0].Room.Total, File: 1}
	if err := n.Keeper.fetch(t.Context(), w, nil); err == nil || errors.Is(err, block.ErrFull) {
		t.Errorf("without a node that has it: %v", err)
	}
	w.Length = w.Capacity
	if err := n.Keeper.fetch(t.Context(), w, nil); !errors.Is(err, block.ErrFull) {
		t.Errorf("more than the disk has: %v", err)
	}
}

// TestCopyOrderedBefore: a copy of a block that was ordered before it was appended to, under the generation that it had, does not take the place of what is here. It does of what is longer for another
// reason, as after two rounds of a recovery: then the block is closed as it was ordered.
func TestCopyOrderedBefore(t *testing.T) {
	for _, closed := range []bool{false, true} {
		store := must[*block.Store](t)(block.Open(block.Config{Dirs: []string{"/d"}, FS: vfs.NewMem(1<<24, 1)}))
		k := newKeeper(&Node{Blocks: store, ctx: t.Context(), Config: Config{}.filled()})
		k.locate = func(context.Context, int64) (*wire.LocateResponse, error) {
			return &wire.LocateResponse{Complete: closed, Wanted: &wire.WantedBlock{Stamp: 1, Length: 5}}, nil
		}
		w := must[*block.Writer](t)(store.Create(block.Block{ID: 1, Stamp: 1}, 7, 1000, false))
		if err := errors.Join(w.Write([]byte("begin"), 0), w.Finalize(5)); err != nil {
			t.Fatal(err)
		}
		w = must[*block.Writer](t)(store.Append(block.Block{ID: 1, Stamp: 1}, 1, 5))
		if err := errors.Join(w.Write([]byte(" and more"), 5), w.Sync(), w.Close()); err != nil {
			t.Fatal(err)
		}
		copied, err := k.CopyFor(t.Context(), meta.Block{ID: 1, Stamp: 1, Size: 5}, &wire.WantedBlock{File: 7, Capacity: 1000}, true)
		if err == nil {
			err = errors.Join(copied.Write([]byte("begin"), 0), copied.Finalize(5), copied.Close())
		}
		want, length := error(block.ErrExists), int64(14)
		if closed {
			want, length = nil, 5
		}
		if i, serr := store.Stat(1); !errors.Is(err, want) || serr != nil || i.Length != length {
			t.Errorf("closed %v: %v; %+v, %v", closed, err, i, serr)
		}
	}
}
