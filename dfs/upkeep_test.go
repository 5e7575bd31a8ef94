package dfs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headrace/block"
	"headrace/internal/testkit"
	"headrace/meta"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestNews: what fails again and again is told once a minute, what fails otherwise at once.
func TestNews(t *testing.T) {
	var n news
	now := time.Now()
	is := func(want bool, what, err string, after time.Duration) {
		t.Helper()
		if got := n.is(what, errors.New(err), now.Add(after)); got != want {
			t.Errorf("%s: %s after %v: %v", what, err, after, got)
		}
	}
	is(true, "delete at n1", "away", 0)
	is(false, "delete at n1", "away", time.Second)
	is(true, "delete at n2", "away", time.Second)
	is(true, "delete at n1", "full", 2*time.Second)
	is(true, "delete at n1", "away", 3*time.Second)
	is(true, "delete at n1", "away", 3*time.Second+oldNews)
	for i := range 2 * mostNews {
		n.is(fmt.Sprint(i), errors.New("away"), now)
	}
	if len(n.told) > mostNews {
		t.Errorf("%d are remembered", len(n.told))
	}
}

// TestOwnAddresses: of a closed connection from an address of this machine nobody can be asked, so that nobody is believed.
func TestOwnAddresses(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(p.Addr(), 0).String())
		if err != nil {
			t.Logf("%v: %v", p, err)
			continue
		}
		tried++
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, far := c.LocalAddr().(*net.TCPAddr).AddrPort(), l.Addr().(*net.TCPAddr).AddrPort()
		c.Close()
		if err := (&Callers{}).Prove("anybody", near, far); err == nil {
			t.Errorf("from %v anybody is believed", near)
		}
		l.Close()
	}
	if tried == 0 {
		t.Error("there is no address to try")
	}
	if err := (&Callers{}).Prove("anybody", netip.MustParseAddrPort("192.0.2.1:4000"), netip.MustParseAddrPort("192.0.2.2:8020")); err != nil {
		t.Errorf("a caller of another machine: %v", err)
	}
}

// dropping are other nodes that do what a test says when they are to delete blocks.
type dropping struct {
	drop func(node string, blocks []uint64) error
}

// otherNode is one of dropping.
type otherNode struct {
	wireconnect.BlockServiceClient
	name string
	of   *dropping
}

func (d *dropping) Blocks(m Member) wireconnect.BlockServiceClient {
	return otherNode{name: m.Name, of: d}
}

func (d *dropping) Room(string) (Room, bool) { return Room{}, false }

func (o otherNode) Drop(_ context.Context, q *wire.DropRequest) (*wire.DropResponse, error) {
	return &wire.DropResponse{}, o.of.drop(o.name, q.Blocks)
}

func (o otherNode) Look(context.Context, *wire.LookRequest) (*wire.LookResponse, error) {
	return nil, errors.New("it does not answer")
}

// leave has a block of a segment at a node be one that no file has.
func (n *Node) leave(path string, segment uint16, node string) error {
	f, err := n.do(&meta.Create{Path: path, Mode: 0o644, Holder: "d", Flags: meta.FlagCreate | meta.FlagOverwrite, Parents: true, Replication: 1, BlockSize: 1 << 20})
	if err != nil {
		return err
	}
	if _, err := n.do(&meta.AddBlock{Path: path, ID: f.(*meta.Status).ID, Holder: "d", Segment: segment, Nodes: []string{node}}); err != nil {
		return err
	}
	_, err = n.do(&meta.Delete{Path: path})
	return err
}

// TestRoundsRest: what is asked for all the time, or takes longer than its rounds are apart, rests as long as it works, but for what takes very long.
func TestRoundsRest(t *testing.T) {
	for _, c := range []struct{ every, takes, apart time.Duration }{
		{time.Second, time.Millisecond, restTime + time.Millisecond},
		{time.Second, 300 * time.Millisecond, 600 * time.Millisecond},
		{time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond},
		{time.Second, time.Hour, time.Hour + longRest},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			asked, began := make(chan struct{}, 1), []time.Time{}
			n := &Node{ctx: ctx, stop: stop}
			n.rounds(c.every, asked, func() {
				if began = append(began, time.Now()); len(began) == 3 {
					n.stop()
				}
				poke(asked)
				time.Sleep(c.takes)
			})
			if first, second := began[1].Sub(began[0]), began[2].Sub(began[1]); first != c.apart || second != c.apart {
				t.Errorf("%+v: rounds that are asked for begin after %v and %v", c, first, second)
			}
		})
	}
}

// TestRoundsAreRegular: nobody need ask, and how long rounds take does not add up.
func TestRoundsAreRegular(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		n := &Node{ctx: ctx, stop: stop}
		start, done := time.Now(), 0
		n.rounds(time.Second, nil, func() {
			if done++; done == 10 {
				n.stop()
			}
			time.Sleep(400 * time.Millisecond)
		})
		if took := time.Since(start); took != 10*time.Second+400*time.Millisecond {
			t.Errorf("10 rounds, one a second, end after %v", took)
		}
	})
}

// TestDeletingHasNoEnd: while clients delete without end, leases expire all the same.
func TestDeletingHasNoEnd(t *testing.T) {
	c := newClock()
	var n *Node
	deleted := make(chan struct{}, 1)
	n = open(t, Config{Dir: t.TempDir(), Now: c.Now, Peers: &dropping{drop: func(node string, blocks []uint64) error {
		poke(deleted)
		return n.leave("/temporary", 0, node) // before it answers
	}}})
	if _, _, err := n.Admit(t.Context(), Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
		t.Fatal(err)
	}
	if err := n.leave("/temporary", 0, "another"); err != nil {
		t.Fatal(err)
	}
	<-deleted
	_, w := begin(t, n, "/f", "flushed")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the file to be closed", func() bool {
		c.pass(time.Minute)
		return !stat(t, n, "/f").Located.Open
	})
	<-deleted // it goes on
}

// TestOneNodeKeepsNothingElse: what is to be deleted at a node that is there and cannot be asked, however much, does not keep what lies elsewhere. The node is asked once
// in each walk.
func TestOneNodeKeepsNothingElse(t *testing.T) {
	reached := false
	var mu sync.Mutex
	asked := map[string]int{}
	n := open(t, Config{Dir: t.TempDir(), Upkeep: time.Hour, Reconcile: time.Hour, Peers: &dropping{drop: func(node string, blocks []uint64) error {
		mu.Lock()
		defer mu.Unlock()
		asked[node]++
		if node == "cut" && !reached {
			return errors.New("no route to it")
		}
		return nil
	}}})
	var all sync.WaitGroup
	for i := range atOnce + 1 {
		all.Go(func() {
			if err := n.leave(fmt.Sprint("/f", i), 0, "cut"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, name := range []string{"cut", "good", "a", "b", "c", "d"} {
		testkit.Await(t, "a node to be admitted", func() bool { // while others get seats that do not answer
			_, _, err := n.Admit(t.Context(), Member{Name: name, Storage: "s", Host: "127.0.0.1", Peer: 1})
			return err == nil
		})
	}
	table := n.View().Table
	apart := uint16(0) // a segment that has nothing to do with the node
	for slices.Contains(slices.Concat(table.Holders(apart), table.Targets(apart)), "cut") {
		apart++
	}
	testkit.Await(t, "one to be left elsewhere", func() bool { return n.leave("/good", apart, "good") == nil })
	left := func(node string) (number int) {
		for _, g := range garbageOf(n) {
			if slices.Contains(g.Nodes, node) {
				number++
			}
		}
		return number
	}
	walks := 0
	walk := func() {
		for walks++; n.Keeper.all.collect(); {
		}
	}
	there := 0
	testkit.Await(t, "what is elsewhere to be deleted", func() bool {
		walk()
		there = left("cut")
		return there > 0 && left("good") == 0
	})
	if mu.Lock(); asked["cut"] > walks {
		t.Errorf("it was asked %d times in %d walks", asked["cut"], walks)
	}
	if there != atOnce+1 {
		t.Errorf("%d are to be deleted there, not %d", there, atOnce+1)
	}
	reached = true
	mu.Unlock()
	testkit.Await(t, "all to be deleted", func() bool { walk(); return len(garbageOf(n)) == 0 })
}

func garbageOf(n *Node) (all []meta.Garbage) {
	all = make([]meta.Garbage, 1) // until it is known
	n.ask(func(q meta.Query) { all = q.Garbage(0, 10*atOnce) })
	return all
}

// TestClockWasAhead: a lease that was renewed by a clock that was years ahead expires by the right one.
func TestClockWasAhead(t *testing.T) {
	c := newClock()
	dir := t.TempDir()
	n := open(t, Config{Dir: dir, Now: c.Now})
	const ahead = 10 * 365 * 24 * time.Hour
	c.pass(ahead)
	_, w := begin(t, n, "/f", "flushed")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	closeNode(t, n)
	c.pass(-ahead)
	n = open(t, Config{Dir: dir, Now: c.Now})
	testkit.Await(t, "the file to be closed", func() bool {
		c.pass(time.Minute)
		return !stat(t, n, "/f").Located.Open
	})
}

// TestAWeekForEachDisk: however much is on a disk, all of it is read within a week; of one with little as much as always.
func TestAWeekForEachDisk(t *testing.T) {
	const least, large = 4 << 20, int64(10e12)
	disks := []block.Volume{{Dir: "/small", Used: 1 << 30}, {Dir: "/large", Used: large}}
	if got := scrubRate(least, disks, "/small"); got != least {
		t.Errorf("%d bytes a second of a small one", got)
	}
	if got := scrubRate(least, disks, "/large"); got < large/int64(scrubInterval/time.Second) || got > 2*large/int64(scrubInterval/time.Second) {
		t.Errorf("%d bytes a second of a large one", got)
	}
}

// TestAttributesAreWrittenInSteps: files with many attributes are closed when their leases end, and have noted where their blocks are, by more commands than one: all of a file is
// written by each, on all nodes that vote, and nothing else is done meanwhile.
func TestAttributesAreWrittenInSteps(t *testing.T) {
	c := newClock()
	n := open(t, Config{Dir: t.TempDir(), Peers: &counted{}, Now: c.Now, Upkeep: time.Hour, Reconcile: time.Hour})
	if _, _, err := n.Admit(t.Context(), Member{Name: "another", Storage: "s", Host: "127.0.0.1", Peer: 1}); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "it to hear what is agreed on, which takes commands as well", func() bool {
		s, err := n.Raft()
		return err == nil && len(s.Learners) == 1
	})
	const files = 10
	var moved []meta.Relocation
	var all sync.WaitGroup
	for i := range files {
		path := fmt.Sprint("/closed", i)
		b := write(t, n, path, "some bytes")
		moved = append(moved, meta.Relocation{Block: b.ID, Stamp: b.Stamp, Nodes: []string{"another"}})
		must[meta.Result](t)(n.do(&meta.Create{Path: fmt.Sprint("/open", i), Mode: 0o644, Holder: "c", Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}))
		for k := range 32 {
			all.Go(func() {
				if _, err := n.do(&meta.SetXAttr{Path: path, XAttr: meta.XAttr{Name: fmt.Sprint("a", k), Value: make([]byte, 16_000)}, Flags: meta.XAttrCreate}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	commands := func(do func()) uint64 {
		t.Helper()
		before, err := n.Raft()
		do()
		after, err2 := n.Raft()
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return after.Last - before.Last
	}
	if got := commands(func() { n.Keeper.all.relocate(moved) }); got != 2 { // of eight files at most
		t.Errorf("where %d files are is noted by %d commands", files, got)
	}
	for _, m := range moved {
		n.ask(func(q meta.Query) {
			if p := q.Placed(m.Block); !slices.Equal(p.Nodes, m.Nodes) {
				t.Errorf("%+v", p)
			}
		})
	}
	c.pass(21 * time.Minute)
	if got := commands(n.expire); got != (files+meta.MostExpired-1)/meta.MostExpired {
		t.Errorf("%d files are closed by %d commands", files, got)
	}
	for i := range files {
		if stat(t, n, fmt.Sprint("/open", i)).Located.Open {
			t.Errorf("file %d is open", i)
		}
	}
}
