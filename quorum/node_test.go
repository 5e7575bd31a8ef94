package quorum

import (
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"path"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"

	"headrace/internal/vfs"
)

// alone is a node whose groups have no other members.
type alone struct {
	*Node
	t      *testing.T
	fs     *vfs.Faulty
	config Config
}

func newAlone(t *testing.T, segment int64) *alone {
	a := &alone{t: t, fs: &vfs.Faulty{FS: vfs.NewMem(64<<20, 1), Fail: func(vfs.Op) error { return nil }}}
	machines := map[uint64]*machine{}
	a.config = Config{Dir: "/q", FS: a.fs, Send: func(Message) {}, SegmentSize: segment, KeepEntries: 5, MaxProposal: 50, MaxPending: 3,
		Machine: func(g uint64) (Machine, error) {
			if machines[g] == nil {
				machines[g] = newMachine(mrand.New(mrand.NewPCG(1, 1)))
			}
			machines[g].live = machines[g].durable.clone()
			return machines[g], nil
		}}
	a.open()
	for g := range uint64(3) {
		me := NewReplica(1, 1)
		if err := a.Create(g+1, me, []Replica{me}); err != nil {
			t.Fatal(err)
		}
	}
	a.lead()
	return a
}

func (a *alone) open() {
	a.t.Helper()
	n, err := Open(a.config)
	if err != nil {
		a.t.Fatal(err)
	}
	a.Node = n
}

func (a *alone) work() {
	for more := true; more; {
		var err error
		if more, err = a.Work(); err != nil {
			return
		}
	}
}

func (a *alone) lead() {
	for range 100 {
		a.Tick()
		a.work()
	}
	for g := range uint64(3) {
		if s, err := a.Status(g + 1); err != nil || !s.Leading {
			a.t.Fatalf("group %d: %+v, %v", g+1, s, err)
		}
	}
}

func (a *alone) propose(g uint64, text string) (answer string, err error) {
	err = errors.New("no answer")
	a.Propose(g, []byte(text), func(b []byte, e error) { answer, err = string(b), e })
	a.work()
	return answer, err
}

func (a *alone) fill(n int) {
	a.t.Helper()
	for i := range n {
		if _, err := a.propose(uint64(1+i%2), fmt.Sprintf("k w%d", i)); err != nil {
			a.t.Fatal(err)
		}
	}
}

func (a *alone) close() {
	a.t.Helper()
	if err := a.Close(); err != nil {
		a.t.Fatal(err)
	}
}

// segments returns the names of the log's files.
func (a *alone) segments() (names []string) {
	all, err := a.fs.List("/q")
	if err != nil {
		a.t.Fatal(err)
	}
	for _, n := range all {
		if strings.HasSuffix(n, ".log") {
			names = append(names, path.Join("/q", n))
		}
	}
	return names
}

func (a *alone) size(name string) int64 {
	f, err := a.fs.Open(name, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		a.t.Fatal(err)
	}
	return n
}

func TestStartsAgain(t *testing.T) {
	a := newAlone(t, 600)
	want := ""
	for i := range 100 {
		w := fmt.Sprintf("w%d", i)
		want += w + " "
		if got, err := a.propose(2, "k "+w); err != nil || got != want {
			t.Fatalf("%q, %v", got, err)
		}
		if i%10 == 0 {
			a.close()
			a.open()
			a.lead()
		}
	}
	if n := len(a.segments()); n > keptSegments+1 {
		t.Errorf("%d segments", n)
	}
	if s, _ := a.Status(2); s.Last-s.First > 20 {
		t.Errorf("nothing was cut off: %+v", s)
	}
	if err := a.Drop(2); err != nil {
		t.Fatal(err)
	}
	a.close()
	a.open()
	if _, err := a.Status(2); !errors.Is(err, ErrNoGroup) {
		t.Error(err)
	}
}

// TestDamage: a torn end is cut off, and everything else that is missing is refused.
func TestDamage(t *testing.T) {
	for name, c := range map[string]struct {
		spoil   func(a *alone, mem *vfs.Mem) error
		refused bool
	}{
		"nothing": {func(*alone, *vfs.Mem) error { return nil }, false},
		"the end of the last frame": {func(a *alone, mem *vfs.Mem) error {
			last := a.segments()[len(a.segments())-1]
			return mem.Flip(last, a.size(last)-20, 3)
		}, false},
		"a frame of the last segment": {func(a *alone, mem *vfs.Mem) error {
			last := a.segments()[len(a.segments())-1]
			return mem.Flip(last, a.size(last)/2, 3)
		}, true},
		"the head of the last segment": {func(a *alone, mem *vfs.Mem) error {
			return mem.Flip(a.segments()[len(a.segments())-1], 3, 3)
		}, true},
		"an older segment": {func(a *alone, mem *vfs.Mem) error {
			return mem.Flip(a.segments()[0], a.size(a.segments()[0])-20, 3)
		}, true},
		"a segment that is gone":       {func(a *alone, mem *vfs.Mem) error { return mem.Remove(a.segments()[1]) }, true},
		"the first segment being gone": {func(a *alone, mem *vfs.Mem) error { return mem.Remove(a.segments()[0]) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAlone(t, 1500)
			for a.fill(1); len(a.segments()) < 3 || a.size(a.segments()[len(a.segments())-1]) < 1000; {
				a.fill(1)
			}
			a.close()
			if err := c.spoil(a, a.fs.FS.(*vfs.Mem)); err != nil {
				t.Fatal(err)
			}
			n, err := Open(a.config)
			if errors.Is(err, ErrDamaged) != c.refused || !c.refused && err != nil {
				t.Fatalf("%v", err)
			}
			if err == nil {
				n.Close()
			}
		})
	}
}

// TestSyncFails: nothing is answered after it, also not what would need no disk.
func TestSyncFails(t *testing.T) {
	a := newAlone(t, 1<<20)
	a.fill(4)
	fails := 1
	a.fs.Fail = func(o vfs.Op) error {
		if o.Kind == "sync" && fails > 0 {
			fails--
			return syscall.EIO
		}
		return nil
	}
	if _, err := a.propose(1, "k lost"); !errors.Is(err, ErrStopped) || !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	if _, err := a.propose(2, "k later"); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	read := errors.New("no answer")
	if a.Read(2, func(err error) { read = err }); !errors.Is(read, ErrStopped) {
		t.Error(read)
	}
	if err := a.Create(7, NewReplica(1, 1), nil); !errors.Is(err, ErrStopped) {
		t.Error(err)
	}
	a.close()
	a.open()
	a.lead()
	a.fill(4)
}

func TestRefusals(t *testing.T) {
	a := newAlone(t, 1<<20)
	if _, err := a.propose(1, strings.Repeat("x", 51)); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := a.propose(9, "k v"); !errors.Is(err, ErrNoGroup) {
		t.Error(err)
	}
	var errs []error
	for range 4 {
		a.Propose(1, []byte("k v"), func(_ []byte, err error) { errs = append(errs, err) })
	}
	if a.work(); len(errs) != 4 || !errors.Is(errors.Join(errs...), ErrBusy) || errs[1] != nil {
		t.Errorf("%v", errs)
	}
	other, me := NewReplica(2, 1), NewReplica(1, 1)
	for _, steps := range [][]MemberStep{nil, {{Replica: me, Remove: true}}, {{Replica: 0}}, {{Replica: other}, {Replica: other, Remove: true}}} {
		var got error
		a.Change(1, steps, func(err error) { got = err })
		if a.work(); !errors.Is(got, ErrChange) {
			t.Errorf("%v: %v", steps, got)
		}
	}
	if err := a.Create(1, me, nil); err == nil {
		t.Error("a group was made twice")
	}
	if err := a.Create(8, me, []Replica{other}); !errors.Is(err, ErrChange) {
		t.Error(err)
	}
	if err := a.Create(8, me, []Replica{me, other}); err != nil {
		t.Fatal(err)
	}
	var notLeader *NotLeader
	if _, err := a.propose(8, "k v"); !errors.As(err, &notLeader) || notLeader.Leader != 0 {
		t.Error(err)
	}
	if _, err := Open(a.config); !errors.Is(err, vfs.ErrLocked) {
		t.Error(err)
	}
	// What makes no sense does nothing.
	for _, m := range []Message{{}, {Kind: Raft, Group: 1, From: other, To: me, Payload: []byte("no")}, {Kind: Chunk, Group: 1, From: other, To: me, Payload: []byte("no")},
		{Kind: Chunk, Group: 1, From: other, To: me, Number: 7}, {Kind: Got, Group: 1, From: other, To: me}} {
		if err := a.Step(m); err != nil {
			t.Errorf("%+v: %v", m, err)
		}
	}
	a.work()
	a.fill(2)
}

// TestDiesBeforeRestore: what a snapshot says is committed says nothing of the entries that
// were to be replaced by it, and are there again.
func TestDiesBeforeRestore(t *testing.T) {
	a := newAlone(t, 1<<20)
	me, other := NewReplica(1, 1), NewReplica(2, 1)
	if err := a.Create(8, me, []Replica{me, other}); err != nil {
		t.Fatal(err)
	}
	entries := []*pb.Entry{{Term: new(uint64(1)), Index: new(uint64(2))}, {Term: new(uint64(1)), Index: new(uint64(3))}}
	if err := a.journal.write(putEntries(newBatch(), 8, entries)); err != nil {
		t.Fatal(err)
	}
	conf := a.groups[8].store.start.conf
	if err := a.persist([]*round{{g: a.groups[8], ready: raft.Ready{MustSync: true,
		HardState: &pb.HardState{Term: new(uint64(5)), Vote: new(uint64(0)), Commit: new(uint64(10))},
		Snapshot:  &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: new(uint64(10)), Term: new(uint64(4)), ConfState: conf}}}}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		a.close()
		a.open()
		s := a.groups[8].store
		if s.hard.GetCommit() != firstIndex || s.hard.GetTerm() != 5 || s.last() != 3 {
			t.Errorf("%v, the log ends at %d", s.hard, s.last())
		}
	}
}

// TestBefore: it is known what a log had some time ago, also when it grows all the time.
func TestBefore(t *testing.T) {
	a := newAlone(t, 1<<20)
	defer a.close()
	const ticks = beforeElections * 10
	for i := range 3 * ticks {
		was, err := a.Status(1)
		if err != nil || was.Before > was.Last {
			t.Fatalf("%+v, %v", was, err)
		}
		if want := was.Last - uint64(max(0, min(i, ticks-1))); was.Before != want {
			t.Fatalf("after %d entries in as many ticks it is %d, want %d: %+v", i, was.Before, want, was)
		}
		if _, err := a.propose(1, fmt.Sprintf("k w%d", i)); err != nil {
			t.Fatal(err)
		}
		a.Tick()
		a.work()
	}
	for range ticks {
		a.Tick()
		a.work()
	}
	if s, err := a.Status(1); err != nil || s.Before != s.Last {
		t.Errorf("nothing has come for long, and it is %+v, %v", s, err)
	}
}
