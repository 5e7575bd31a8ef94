package dfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
)

// admitWhole admits a node to the ring, which says that it has all segments.
func admitWhole(t *testing.T, n *Node, source Member) {
	t.Helper()
	v, _, err := n.Admit(t.Context(), source)
	if err != nil {
		t.Fatal(err)
	}
	var all []uint16
	for s := range v.Table.Segments() {
		all = append(all, uint16(s))
	}
	must[*View](t)(n.ChangeRing(t.Context(), ring.Confirm{Node: source.Name, Epoch: v.Table.Epoch(), Segments: all}))
}

// TestFillingIsInterrupted: a node that is fetching much finds out at once that a disk of its has failed, and says so.
func TestFillingIsInterrupted(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Upkeep: time.Hour, Reconcile: time.Hour})
	l := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	came, let := make(chan net.Conn), make(chan struct{}) // let: who has come is refused, and so are so many others
	var serving sync.WaitGroup
	serving.Go(func() {
		defer close(came)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			came <- c
		}
	})
	const files, most = 100, leastFetched + 2*mostFetches
	waiting := make(chan int, files+1)
	serving.Go(func() {
		var held []net.Conn
		drop := func() {
			for _, c := range held {
				c.Close()
			}
			held = nil
		}
		defer drop()
		open, all := let, 0
		for {
			select {
			case c, ok := <-came:
				if !ok {
					return
				}
				all++
				if held = append(held, c); open == nil && all < most {
					drop()
				}
				select {
				case waiting <- all:
				default:
				}
			case <-open:
				open = nil
				drop()
			}
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	source := Member{Name: "source", Storage: "s", Host: "127.0.0.1", Data: uint16(l.Addr().(*net.TCPAddr).Port), RPC: 1, Peer: 1}
	admitWhole(t, n, source)
	settled := func(path string, segment uint16) block.Block {
		t.Helper()
		b := writeIn(t, n, path, "some bytes", segment)
		must[meta.Result](t)(n.do(&meta.SetReplication{Path: path, Copies: 3}))
		must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp}}}))
		return block.Block{ID: int64(b.ID), Stamp: b.Stamp}
	}
	const one, many = 7, 8 // segments
	last := settled("/one", one)
	var blocks []block.Block
	for i := range files {
		blocks = append(blocks, settled(fmt.Sprint("/f", i), many))
	}
	if err := n.Blocks.Delete(blocks...); err != nil {
		t.Fatal(err)
	}
	n.Keeper.lookSoon()
	for range mostFetches {
		<-waiting
	}
	if !slices.Contains(n.View().Table.Holders(one), n.Identity.Node) {
		t.Fatal("it is not counted on for what it has")
	}
	if err := n.Blocks.Delete(last); err != nil {
		t.Fatal(err)
	}
	n.Keeper.lookSoon()
	close(let)
	testkit.Await(t, "it to say what it has lost", func() bool {
		return !slices.Contains(n.View().Table.Holders(one), n.Identity.Node)
	})
	l.Close()
}

// TestOvertakes: what nodes are there, and who has lost copies, changes what is to be fetched first; what others have fetched does not.
func TestOvertakes(t *testing.T) {
	var nodes []ring.Node
	for i := range 5 {
		nodes = append(nodes, ring.Node{Name: fmt.Sprint("n", i), Weight: 1})
	}
	apply := func(plan *ring.Table, e ring.Event) *ring.Table {
		t.Helper()
		next, _, err := plan.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	plan := apply(must[*ring.Table](t)(ring.New(64, 3, nodes...)), ring.Join{Node: ring.Node{Name: "new", Weight: 1}})
	plan = apply(plan, ring.Join{Node: ring.Node{Name: "other", Weight: 1}})
	moves := func(of *ring.Table, node string) []ring.Move { return of.Reconcile(node, nil).Fetch }
	mine := moves(plan, "new")
	if len(mine) == 0 {
		t.Fatal("there is nothing to be fetched")
	}
	var all []uint16
	for _, m := range moves(plan, "other") {
		all = append(all, m.Segment)
	}
	confirmed := apply(plan, ring.Confirm{Node: "other", Epoch: plan.Epoch(), Segments: all})
	if confirmed == plan || overtakes(confirmed, plan, mine) {
		t.Error("what another one has fetched changes what is to be fetched first")
	}
	for _, e := range []ring.Event{ring.Down{Node: "n1"}, ring.Drain{Node: "n1"}, ring.Lost{Node: mine[0].From, Segments: []uint16{mine[0].Segment}}} {
		if !overtakes(apply(plan, e), plan, mine) {
			t.Errorf("%+v changes nothing", e)
		}
	}
}

// TestHeldTakesLong: a node that is asked what it has by somebody who does not wait long enough has the answer for the next one.
func TestHeldTakesLong(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour, Reconcile: time.Hour})
	judged(t, n)
	n.Keeper.all.settling.Lock() // no segments are listed
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if r, err := n.Keeper.Service().Held(ctx, &wire.HeldRequest{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v, %v", r, err)
	}
	n.Keeper.mu.Lock()
	looking := n.Keeper.fills.finding
	n.Keeper.mu.Unlock()
	n.Keeper.all.settling.Unlock()
	<-looking.done
	n.Keeper.all.settling.Lock()
	r, err := n.Keeper.Service().Held(t.Context(), &wire.HeldRequest{})
	n.Keeper.all.settling.Unlock()
	if err != nil || len(r.Segments) != n.View().Table.Segments() {
		t.Errorf("%v, %v", r, err)
	}
	n.Keeper.mu.Lock()
	defer n.Keeper.mu.Unlock()
	if n.Keeper.fills.finding != nil {
		t.Error("the next one is told the same, whatever has happened since")
	}
}

// TestLookWhileDeleting: what is being deleted is not here, and to say so does not wait for its end.
func TestLookWhileDeleting(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour, Reconcile: time.Hour})
	b := write(t, n, "/f", "some bytes")
	w := must[*block.Writer](t)(n.Blocks.Create(block.Block{ID: int64(b.ID) + 1000, Stamp: 1}, 1000, 1<<20, false))
	if err := errors.Join(w.Write([]byte("x"), 0), w.Finalize(1), w.Close()); err != nil {
		t.Fatal(err)
	}
	look := func() (states []wire.BlockCopy_State) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for _, c := range must[*wire.LookResponse](t)(n.Keeper.Service().Look(ctx, &wire.LookRequest{Blocks: []uint64{b.ID, b.ID + 1000}})).Copies {
			states = append(states, c.State)
		}
		return states
	}
	both := []wire.BlockCopy_State{wire.BlockCopy_FINAL, wire.BlockCopy_FINAL}
	if got := look(); !slices.Equal(got, both) {
		t.Fatal(got)
	}
	going, err := n.Keeper.condemn(t.Context(), n.Blocks.Blocks())
	if err != nil || len(going) != 1 || going[0].ID != int64(b.ID)+1000 {
		t.Fatalf("%v, %v", going, err)
	}
	one := []wire.BlockCopy_State{wire.BlockCopy_FINAL, wire.BlockCopy_NONE}
	if got := look(); !slices.Equal(got, one) {
		t.Error(got)
	}
	if err := n.Keeper.dropNow(t.Context(), n.Blocks.Blocks()); err != nil {
		t.Error(err)
	}
	if got := look(); !slices.Equal(got, one) || len(n.Keeper.condemned) > 0 {
		t.Error(got)
	}
}

// TestFullNodeSaysItOnce: a node without room says so once of all blocks that are to come to it, which may be millions, and does not try all again at once. What fails for another
// reason is not hidden by that.
func TestFullNodeSaysItOnce(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour, Reconcile: time.Hour})
	n.stop() // it does not look itself
	n.running.Wait()
	const blocks = 2000
	some := []filling{{Move: ring.Move{Segment: 1, From: "source"}}, {Move: ring.Move{Segment: 2, From: "source"}}, {Move: ring.Move{Segment: 3}}}
	for i := range blocks {
		for k := range some {
			some[k].blocks = append(some[k].blocks, &wire.WantedBlock{Block: uint64(3*i + k + 1), Stamp: 1, Length: 1 << 60, Capacity: 1 << 60, File: 1})
		}
	}
	table := n.View().Table
	for _, full := range []bool{true, false} {
		failed, uncertain := &unfetched{}, &unfetched{}
		done := n.Keeper.fills.fillSome(t.Context(), table, some, &course{f: n.Keeper.fills, plan: table, seen: table, due: func() bool { return false }}, failed, uncertain)
		err := failed.error()
		if len(done) > 0 || errors.Is(err, block.ErrFull) != full || !strings.HasPrefix(err.Error(), "4000 blocks were not fetched") || len(err.Error()) > 200 {
			t.Errorf("%v, %.300v", done, err)
		}
		if err := uncertain.error(); !errors.Is(err, block.ErrFull) || len(err.Error()) > 200 {
			t.Errorf("%.300v", err)
		}
		if got := pause(err, retryTime); (got > retryTime) != full {
			t.Errorf("it is tried again after %v", got)
		}
		if got, want := n.Room().Homeless, map[bool]int{true: 3 * blocks, false: 3*blocks - 1}[full]; got != want {
			t.Errorf("no room for %d blocks, want %d", got, want)
		}
		some[1].blocks[blocks/2].Length, some[1].blocks[blocks/2].Capacity = 1, 1 // there is room, and nobody to give it
	}
	// Once there is room it says less, though it is overtaken before it has tried all.
	for k := range some {
		for _, w := range some[k].blocks {
			w.Length, w.Capacity = 1, 1
		}
	}
	began := 0
	due := func() bool { began++; return began > blocks/2 }
	n.Keeper.fills.fillSome(t.Context(), table, some, &course{f: n.Keeper.fills, plan: table, seen: table, due: due}, &unfetched{}, &unfetched{})
	if got, want := n.Room().Homeless, 3*blocks-1-leastFetched-blocks/2; got != want {
		t.Errorf("no room for %d blocks, want %d", got, want)
	}
	n.Keeper.fills.wanted(some[1:2])
	if got := n.Room().Homeless; got != blocks-1 {
		t.Errorf("no room for %d blocks of the segment that is to be here", got)
	}
	n.Keeper.fills.wanted(nil)
	if got := n.Room().Homeless; got != 0 {
		t.Errorf("no room for %d blocks, and none is to be here", got)
	}
}

// TestNoRoomIsTold: a node says for how many blocks it has no room, as long as that is so.
func TestNoRoomIsTold(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Upkeep: time.Hour, Reconcile: time.Hour})
	source := Member{Name: "source", Storage: "s", Host: "127.0.0.1", Data: 1, RPC: 1, Peer: 1}
	admitWhole(t, n, source)
	b := writeIn(t, n, "/f", "some bytes", 7)
	must[meta.Result](t)(n.do(&meta.SetReplication{Path: "/f", Copies: 3}))
	must[meta.Result](t)(n.do(&meta.Relocate{Blocks: []meta.Relocation{{Block: b.ID, Stamp: b.Stamp}}}))
	here := block.Block{ID: int64(b.ID), Stamp: b.Stamp}
	if err := n.Blocks.Delete(here); err != nil {
		t.Fatal(err)
	}
	n.Blocks.KeepFree = 2 // no disk is so large
	n.Keeper.lookSoon()
	testkit.Await(t, "it to say that there is no room", func() bool { return n.Room().Homeless == 1 })
	n.Blocks.KeepFree = 0
	w := must[*block.Writer](t)(n.Blocks.Create(here, stat(t, n, "/f").ID, 1<<20, false))
	if err := errors.Join(w.Write([]byte("some bytes"), 0), w.Finalize(10), w.Close()); err != nil {
		t.Fatal(err)
	}
	n.Keeper.lookSoon()
	testkit.Await(t, "it to have what it is to have", func() bool { return n.Room().Homeless == 0 })
	closeNode(t, n)
}
