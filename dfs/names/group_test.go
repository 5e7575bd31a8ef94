package names

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/internal/vfs"
	"headrace/meta"
	"headrace/quorum"
	"headrace/ring"
)

// start opens the part of a node that is alone, and returns what has its log's disk fail.
func start(t *testing.T, dir string) (*Group, *atomic.Bool) {
	t.Helper()
	var broken atomic.Bool
	fs := &vfs.Faulty{FS: vfs.OS{}, Fail: func(o vfs.Op) error {
		if broken.Load() && o.Kind == "sync" {
			return syscall.EIO
		}
		return nil
	}}
	g, err := Open(Config{DB: database(t, dir).db, Dir: filepath.Join(dir, "log"), Self: "one", Send: func(quorum.Message) {}, Now: time.Now, Log: testLog(t), fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g.ctx.Err() == nil {
			g.Close()
		}
	})
	return g, &broken
}

func (g *Group) mkdir(name string) error {
	_, err := g.Propose(context.Background(), meta.Command{Caller: person, Op: &meta.Mkdirs{Path: simDir + "/" + name, Mode: 0o755}})
	return err
}

// TestLogFails: when the log cannot be written, nothing is answered any more, also without being asked; the next start has what
// was answered.
func TestLogFails(t *testing.T) {
	dir := t.TempDir()
	g, broken := start(t, dir)
	if err := g.mkdir("before"); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if err := g.mkdir("lost"); err == nil || errors.Is(err, ErrClosed) {
		t.Errorf("answered: %v", err)
	}
	<-g.Failed()
	if err := g.Query(person, func(meta.Query) error { return nil }); !errors.Is(err, syscall.EIO) || !errors.Is(g.Failure(), syscall.EIO) {
		t.Errorf("%v", err)
	}
	if _, err := g.ChangeRing(context.Background(), ring.Level{}); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	g.Close()
	g.machine.store.(bolted).db.Close()
	g, _ = start(t, dir)
	if err := g.Query(person, func(q meta.Query) error {
		if s, err := q.Stat(simDir+"/before", false); s == nil {
			return fmt.Errorf("not there: %w", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// TestRing: what happens to the ring is refused in its own words, and kept.
func TestRing(t *testing.T) {
	dir := t.TempDir()
	g, _ := start(t, dir)
	ctx := context.Background()
	if _, err := g.ChangeRing(ctx, ring.Down{Node: "nobody"}); !errors.Is(err, ring.ErrUnknown) {
		t.Errorf("%v", err)
	}
	if _, err := g.ChangeRing(ctx, ring.Remove{Node: "one"}); !errors.Is(err, ring.ErrState) {
		t.Errorf("who alone votes can be removed: %v", err)
	}
	if _, _, err := g.Admit(ctx, Member{}); err == nil {
		t.Error("a member without a name")
	}
	g.Close()
	g.machine.store.(bolted).db.Close()
	g, _ = start(t, dir)
	v, number, err := g.Admit(ctx, Member{Name: "one", Peer: 7})
	if err != nil || number != 1 || v.Members["one"].Peer != 7 || v.Table.Epoch() != 1 {
		t.Errorf("%+v, %d, %v", v, number, err)
	}
}

// TestLogGone: a node whose log is not there does not start, for it has forgotten what it promised.
func TestLogGone(t *testing.T) {
	dir := t.TempDir()
	g, _ := start(t, dir)
	if err := g.mkdir("a"); err != nil {
		t.Fatal(err)
	}
	g.Close()
	s := g.machine.store.(bolted)
	if g, err := Open(Config{DB: s.db, Dir: filepath.Join(dir, "elsewhere"), Self: "one", Send: func(quorum.Message) {}, Now: time.Now, Log: testLog(t)}); err == nil {
		g.Close()
		t.Error("started without its log")
	}
}

// TestWanted: three of three and more, five of five and more, on as many racks as there are; who has a seat keeps it.
func TestWanted(t *testing.T) {
	view := func(nodes, racks int, seats ...int) *View { return viewOf(t, nodes, racks, seats...) }
	for nodes, want := range map[int]int{1: 1, 2: 2, 3: 3, 4: 3, 5: 5, 6: 5, 20: 5} {
		if got := wanted(view(nodes, 1, 0)); len(got) != want || got[0] != "n0" {
			t.Errorf("of %d: %v", nodes, got)
		}
	}
	v := view(9, 3, 4)
	racks := map[string]int{}
	for _, name := range wanted(v) {
		n, _ := v.Table.Node(name)
		racks[n.Rack]++
	}
	if len(racks) != 3 {
		t.Errorf("racks of those who vote: %v", racks)
	}
	v = view(4, 1, 0, 1, 2)
	down, _, err := v.Table.Apply(ring.Down{Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	v.Table = down
	if got := fmt.Sprint(wanted(v)); got != "[n0 n2 n1]" && got != "[n2 n0 n1]" {
		t.Errorf("who is down for a short time loses its seat: %v", got)
	}
	out, _, err := down.Apply(ring.Out{Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	v.Table = out
	if got := wanted(v); len(got) != 3 || got[2] != "n3" {
		t.Errorf("who is out is not replaced: %v", got)
	}
}

// viewOf is that of nodes n0, n1, ..., of which some have seats.
func viewOf(t *testing.T, nodes, racks int, seats ...int) *View {
	t.Helper()
	v := &View{Members: map[string]Member{}, Seats: map[string]quorum.Replica{}}
	var all []ring.Node
	for i := range nodes {
		name := fmt.Sprint("n", i)
		all = append(all, ring.Node{Name: name, Rack: fmt.Sprint("/r", i%racks), Weight: 1})
		v.Members[name] = Member{Name: name, Number: uint32(i + 1)}
	}
	for _, i := range seats {
		v.Seats[fmt.Sprint("n", i)] = quorum.NewReplica(uint32(i+1), 1)
	}
	table, err := ring.New(64, 3, all...)
	if err != nil {
		t.Fatal(err)
	}
	v.Table = table
	return v
}

// TestLeaves: who leaves keeps its vote while those who are left could not agree without it.
func TestLeaves(t *testing.T) {
	v := viewOf(t, 3, 1, 0, 1, 2)
	v.Leader = "n0"
	seat := func(i int) quorum.Replica { return quorum.NewReplica(uint32(i+1), 1) }
	voters := []quorum.Replica{seat(0), seat(1), seat(2)}
	status := quorum.Status{Replica: seat(0), Leading: true, Voters: voters, First: 1, Last: 9, Has: map[quorum.Replica]uint64{seat(1): 9, seat(2): 9}, Active: map[quorum.Replica]bool{seat(1): true, seat(2): true}}
	apply := func(e ring.Event) {
		t.Helper()
		table, _, err := v.Table.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		v.Table = table
	}
	apply(ring.Drain{Node: "n2"})
	apply(ring.Down{Node: "n1"})
	if do, ok := next(v, status); ok {
		t.Errorf("n0 and n1, which is down, are to agree alone: %+v", do)
	}
	apply(ring.Back{Node: "n1"})
	silent := status
	silent.Active = nil
	if do, ok := next(v, silent); ok {
		t.Errorf("n0 and n1, which is silent, are to agree alone: %+v", do)
	}
	if do, ok := next(v, status, seat(1)); ok {
		t.Errorf("n0 and n1, which is lost, are to agree alone: %+v", do)
	}
	if do, ok := next(v, status); !ok || len(do.change) != 1 || do.change[0] != (quorum.MemberStep{Replica: seat(2), Remove: true}) {
		t.Errorf("who leaves stays: %+v", do)
	}
}

// TestFounders: the replica of who founds a group is another one in each; later seats follow it.
func TestFounders(t *testing.T) {
	seats := map[quorum.Replica]bool{}
	for range 3 {
		s := database(t, t.TempDir())
		held, err := s.seat()
		if err != nil || held.Replica.Node() != 1 || held.Last != held.Replica || seats[held.Replica] {
			t.Errorf("%+v, %v, after %v", held, err, seats)
		}
		seats[held.Replica] = true
		if r := open(t, t.TempDir()).agreed(); r == nil || r.Seats["one"] == held.Replica {
			t.Errorf("%+v", r)
		}
	}
	r, err := firstView(Member{Name: "a"}, newest, 1<<31, 8, 3)
	if err == nil {
		r, err = r.admit(Member{Name: "b", Version: newest}, 2)
	}
	if err == nil {
		r, err = r.sit("b", 3)
	}
	if err != nil || r.Seats["b"] != quorum.NewReplica(2, 1<<31+1) {
		t.Errorf("%+v, %v", r, err)
	}
	if again, err := decodeRoster(r.encode()); err != nil || again.nextSeat != 1<<31+2 {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestWalks: only so many queries that look at much go on at a time, others find a place beside them, and who does not wait any more has none.
func TestWalks(t *testing.T) {
	g, _ := start(t, t.TempDir())
	inside, end := make(chan struct{}), make(chan struct{})
	var walks sync.WaitGroup
	for range walksAtOnce() {
		walks.Go(func() {
			g.Walk(context.Background(), person, func(meta.Query) error { inside <- struct{}{}; <-end; return nil })
		})
		<-inside
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	none := func(meta.Query) error { return nil }
	if err := g.Walk(ctx, person, func(meta.Query) error { return errors.New("a place too many") }); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := g.Query(person, none); err != nil {
		t.Error(err)
	}
	close(end)
	walks.Wait()
	if err := g.Walk(context.Background(), person, none); err != nil {
		t.Error(err)
	}
}

// TestLogHangs: a node whose log's disk does not answer does not take itself for the one that leads, and keeps nobody waiting; when the disk answers, it leads
// on if nobody else does.
func TestLogHangs(t *testing.T) {
	dir := t.TempDir()
	var hangs atomic.Bool
	hanging, end := make(chan struct{}), make(chan struct{})
	fs := &vfs.Faulty{FS: vfs.OS{}, Fail: func(o vfs.Op) error {
		if o.Kind == "sync" && hangs.CompareAndSwap(true, false) {
			close(hanging)
			<-end
		}
		return nil
	}}
	g, err := Open(Config{DB: database(t, dir).db, Dir: filepath.Join(dir, "log"), Self: "one", Send: func(quorum.Message) {}, Now: time.Now, Log: testLog(t), fs: fs})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if err := g.mkdir("before"); err != nil {
		t.Fatal(err)
	}
	hangs.Store(true)
	began, queued := make(chan error, 1), make(chan error, 1)
	go func() { began <- g.mkdir("began") }()
	<-hanging
	if !g.Leads() {
		t.Error("it leads no more, and it is all of the group")
	}
	g.alone.Store(false)
	go func() { queued <- g.mkdir("queued") }()
	testkit.Await(t, "it not to lead", func() bool { return !g.Leads() })
	if err := <-began; !errors.Is(err, ErrUncertain) {
		t.Errorf("what had begun: %v", err)
	}
	if _, is := errors.AsType[*NotLeader](<-queued); !is {
		t.Errorf("what had not begun is not for another node to do")
	}
	if err := g.Query(person, func(meta.Query) error { return nil }); err == nil {
		t.Error("it answers")
	}
	close(end)
	testkit.Await(t, "it to lead again", g.Leads)
	if err := g.mkdir("after"); err != nil {
		t.Error(err)
	}
}

// TestMuteLearner: a learner whose node is up and which says nothing for long holds up no others, and not the leaving of who is lost.
func TestMuteLearner(t *testing.T) {
	v := viewOf(t, 6, 1, 0, 1, 2, 3, 4, 5)
	v.Leader = "n0"
	for _, e := range []ring.Event{ring.Down{Node: "n2"}, ring.Out{Node: "n2"}} {
		table, _, err := v.Table.Apply(e)
		if err != nil {
			t.Fatal(err)
		}
		v.Table = table
	}
	seat := func(i int) quorum.Replica { return quorum.NewReplica(uint32(i+1), 1) }
	status := quorum.Status{Replica: seat(0), Leading: true, Voters: []quorum.Replica{seat(0), seat(1), seat(2)}, Learners: []quorum.Replica{seat(3), seat(4), seat(5)}, First: 1, Last: 9,
		Has: map[quorum.Replica]uint64{seat(1): 9, seat(3): 9, seat(4): 9}, Active: map[quorum.Replica]bool{seat(1): true, seat(3): true, seat(4): true}}
	s := &seats{}
	if do, ok := next(v, status, s.mutes(status)...); ok {
		t.Errorf("it is not waited for: %+v", do)
	}
	var mute []quorum.Replica
	for range mostMute {
		mute = s.mutes(status)
	}
	want := []quorum.MemberStep{{Replica: seat(3)}, {Replica: seat(4)}, {Replica: seat(2), Remove: true}}
	if do, ok := next(v, status, mute...); !ok || !slices.Equal(do.change, want) {
		t.Errorf("others are held up: %+v", do)
	}
	status.Active[seat(5)] = true
	if mute := s.mutes(status); len(mute) > 0 {
		t.Errorf("%v says something", mute)
	}
}

// TestClockIsSet: when a node's clock is set, writers keep what they have open as if they had renewed their leases just now, whoever comes first, and by the time that passes from
// then on.
func TestClockIsSet(t *testing.T) {
	g, _ := start(t, t.TempDir())
	began := time.Now().Round(0)
	var passed, set time.Duration
	g.config.Now = func() time.Time { return began.Add(passed + set) }
	g.terms.ahead = func(now time.Time) time.Duration { return now.Sub(began) - passed }
	path := simDir + "/f"
	do := func(op meta.Op) (meta.Result, error) {
		return g.Propose(t.Context(), meta.Command{Caller: person, Op: op})
	}
	if _, err := do(&meta.Create{Path: path, Mode: 0o644, Holder: "writer", Flags: meta.FlagCreate, Replication: 1, BlockSize: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	soft, hard := time.Duration(softLimit)*time.Millisecond, time.Duration(hardLimit)*time.Millisecond
	comes := func() error { _, err := do(&meta.Append{Path: path, Holder: "another"}); return err }
	has := func(what string) {
		t.Helper()
		if err := comes(); err == nil || !strings.Contains(err.Error(), "currently owned by") {
			t.Errorf("%s: %v", what, err)
		}
	}
	passed += soft / 2
	has("half the time has passed")
	for _, by := range []time.Duration{2 * soft, -3 * soft, 2 * hard, 10 * time.Second, time.Second} {
		set += by
		passed += soft / 10
		if by > hard {
			if _, err := do(&meta.ExpireLeases{Most: 10}); err != nil {
				t.Error(err)
			}
		}
		has(fmt.Sprint("set by ", by))
	}
	passed += 2 * soft
	if err := comes(); err != nil {
		t.Errorf("the writer has renewed nothing for long: %v", err)
	}
}
