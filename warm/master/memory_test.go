package master

import (
	"strings"
	"testing"
	"time"

	"headrace"
)

// memory is what is known to be in memory where.
type memory map[place]int64

func (m memory) resident(b headrace.BlockID, yield func(string, int64)) {
	for at, n := range m {
		if at.block == b {
			yield(at.node, n)
		}
	}
}

// changes has so many bytes of a block be in a node's memory.
func (f *fixture) changes(m memory, node string, block int, bytes int64) {
	at := place{id(block), node}
	f.Changed(node, []Change{{id(block), m[at], bytes}}, f.now)
	m[at] = bytes
}

// reader is a master with two nodes, and a job whose blocks are planned on both.
func reader(t *testing.T, implicit bool) (*fixture, memory) {
	m := memory{}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1", "n2")
	f.migrate(anna("a"), func(x *Facts) { x.Implicit = implicit }, file("/a", "1:20@n1", "2:20@n2", "3:40@n1", "4:20@n1,n2"))
	f.keeps("n1", "a:1 a:3")
	f.keeps("n2", "a:2 a:4")
	return f, m
}

// TestLeftToReaders: what somebody reads is not read ahead on another node as well, nor anything else of the job where that is; when
// nobody has read for a while it goes on with the rest.
func TestLeftToReaders(t *testing.T) {
	f, m := reader(t, true)
	f.changes(m, "n1", 4, 1) // behind the end of what somebody has read
	f.keeps("n2", "a:2 a:4")
	f.changes(m, "n1", 4, 10)
	f.keeps("n1", "")
	f.keeps("n2", "a:2")
	for range 3 {
		f.Look(f.now)
		if s := f.status(anna("a")); s.Left != 100 || s.NotFit != 0 {
			t.Errorf("while somebody reads: %+v", s)
		}
		f.keeps("n1", "")
		f.now = f.now.Add(readFor / 4)
	}
	f.changes(m, "n1", 4, 20)
	if s := f.status(anna("a")); s.Read != 20 || s.Left != 80 || s.FirstRead != f.now {
		t.Errorf("one that was read: %+v", s)
	}
	f.now = f.now.Add(readFor / 2)
	f.Look(f.now)
	f.keeps("n1", "")
	f.now = f.now.Add(readFor)
	f.Look(f.now)
	f.keeps("n1", "a:1 a:3")
	f.keeps("n2", "a:2")
	// What is read as ordered nobody reads.
	f.changes(m, "n1", 1, 20)
	f.keeps("n1", "a:1 a:3")
	f.report("n1", anna("a"), 1, Pinned, "")
	if s := f.status(anna("a")); s.Pinned != 20 || s.Left != 60 {
		t.Errorf("%+v", s)
	}
	if f.Changed("n9", []Change{{id(1), 0, 20}, {id(77), 0, 20}}, f.now); f.status(anna("a")).Pinned != 20 {
		t.Error("a node that is not known has read a block")
	}
}

// TestReadElsewhere: a job that lets go at its end has what others have read where they have read it.
func TestReadElsewhere(t *testing.T) {
	f, m := reader(t, false)
	f.changes(m, "n1", 4, 20)
	f.Look(f.now)
	f.keeps("n1", "a:4")
	if s := f.status(anna("a")); s.Resident != 20 || s.Left != 80 {
		t.Errorf("%+v", s)
	}
}

// TestReadByOneOfSeveral: of jobs that want a block one has read it each time that all of it was read, though it is not known which.
func TestReadByOneOfSeveral(t *testing.T) {
	f, m := reader(t, true)
	f.migrate(anna("later"), func(x *Facts) { x.Implicit, x.Input = true, 1000 }, file("/a", "4:20@n1,n2"))
	f.keeps("n2", "a:2 a:4 later:4")
	for _, want := range []int64{0, 20} {
		f.changes(m, "n1", 4, 0)
		f.changes(m, "n1", 4, 20)
		if a, later := f.status(anna("a")), f.status(anna("later")); a.Read != 20 || later.Read != want {
			t.Errorf("%+v, %+v", a, later)
		}
	}
}

// TestDropped: what was in memory and is not any more is placed anew, unless somebody reads there.
func TestDropped(t *testing.T) {
	m := memory{{id(1), "n1"}: 30, {id(2), "n1"}: 40}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1", "n2")
	f.migrate(anna("a"), nil, file("/a", "1:40@n1,n2", "2:40@n1,n2", "3:10@n1"))
	f.keeps("n1", "a:1 a:2 a:3")
	if s := f.status(anna("a")); s.Resident != 80 {
		t.Fatalf("what is there is not taken as it is: %+v", s)
	}
	f.changes(m, "n1", 1, 20)
	if s := f.status(anna("a")); s.Resident != 80 {
		t.Errorf("half of one has gone: %+v", s)
	}
	m[place{id(1), "n2"}] = 40
	f.changes(m, "n1", 1, 19)
	f.Look(f.now)
	f.keeps("n1", "a:2 a:3")
	f.keeps("n2", "a:1")
	f.changes(m, "n1", 2, 0)
	f.now = f.now.Add(time.Second)
	f.Look(f.now)
	if s := f.status(anna("a")); s.Resident != 40 || s.Left != 50 {
		t.Errorf("%+v", s)
	}
}

// TestLeavesRoom: what a job has read, what users hold, and what others have beyond an owner's share of a node keeps nothing from being read
// for others, however much of it is in memory anyhow.
func TestLeavesRoom(t *testing.T) {
	m := memory{{id(1), "n1"}: 60, {id(2), "n1"}: 60}
	for name, facts := range map[string]Facts{"app": {}, "holds": {Hold: true}} {
		f := with(t, Config{JobShare: 1, OwnerShare: 0.75, Resident: m.resident}, "n1")
		f.migrate(anna("a"), func(x *Facts) { x.Hold = facts.Hold }, file("/a", "1:60@n1", "2:60@n1"))
		f.report("n1", anna("a"), 1, Resident, "")
		f.report("n1", anna("a"), 2, Resident, "")
		b := Name{"ben", "b"}
		f.migrate(b, func(x *Facts) { x.Input = 200 }, file("/b", "3:20@n1", "4:10@n1"))
		keeps := func(want string) {
			t.Helper()
			f.Look(f.now)
			if got := strings.Join(f.tell("n1"), " "); got != want {
				t.Errorf("%s: it keeps %q, want %q", name, got, want)
			}
		}
		if facts.Hold {
			keeps("a:1 a:2 b:3 b:4")
			continue
		}
		keeps("a:1 a:2 b:3")
		f.migrate(anna("a"), nil, file("/later", "5:20@n1"))
		f.must(f.Report("n1", 1, hundred, nil, []Reads{{anna("a"), 50, 0}}, f.now))
		keeps("a:1 a:2 a:5 b:3")
		f.must(f.Report("n1", 1, hundred, nil, []Reads{{anna("a"), 120, 0}}, f.now))
		keeps("a:1 a:2 a:5 b:3 b:4")
	}
}

// TestPinnedIsReadFirst: what a job has read of what is pinned for it makes no room where it has yet to read what it has found in memory.
func TestPinnedIsReadFirst(t *testing.T) {
	m := memory{{id(1), "n1"}: 50}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1")
	f.migrate(anna("a"), nil, file("/a", "1:50@n1", "2:50@n1"))
	f.report("n1", anna("a"), 1, Resident, "")
	f.report("n1", anna("a"), 2, Pinned, "")
	f.migrate(Name{"ben", "b"}, func(x *Facts) { x.Input = 200 }, file("/b", "3:30@n1"))
	for _, x := range []struct {
		read int64
		want string
	}{{0, "a:1 a:2"}, {50, "a:1 a:2"}, {70, "a:1 a:2"}, {80, "a:1 a:2 b:3"}} {
		f.must(f.Report("n1", 1, hundred, nil, []Reads{{anna("a"), x.read, 0}}, f.now))
		f.Look(f.now)
		if got := strings.Join(f.tell("n1"), " "); got != x.want {
			t.Errorf("after %d were read: it keeps %q, want %q", x.read, got, x.want)
		}
	}
}

// TestLeavesWhatIsInMemory: what a job finds in memory is not driven out by what is read for it, or for one that comes later,
// until it has been read; for one that comes before it is.
func TestLeavesWhatIsInMemory(t *testing.T) {
	m := memory{{id(1), "n1"}: 40, {id(2), "n1"}: 30}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1")
	f.migrate(anna("b"), func(x *Facts) { x.Implicit, x.Input = true, 110 }, file("/b", "3:20@n1", "4:20@n1", "1:40@n1", "2:30@n1"))
	f.keeps("n1", "b:1 b:2 b:3")
	f.migrate(anna("c"), func(x *Facts) { x.Input = 200 }, file("/c", "5:30@n1"))
	f.migrate(anna("a"), func(x *Facts) { x.Input = 60 }, file("/a", "6:60@n1"))
	f.keeps("n1", "a:6 b:1 b:2 b:3")
	f.report("n1", anna("b"), 2, Read, "")
	f.report("n1", anna("a"), 6, Read, "")
	f.Evict(anna("a"), f.now)
	f.Look(f.now)
	f.keeps("n1", "b:1 b:3 b:4")
}

// TestReadForTheFirst: what was in memory for a job, and is to be read for a later one, is read for the first: jobs between them have no room for it.
func TestReadForTheFirst(t *testing.T) {
	m := memory{{id(1), "n1"}: 60}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1")
	f.migrate(anna("a"), nil, file("/a", "1:60@n1"))
	clear(m)
	f.migrate(Name{"ben", "b"}, func(x *Facts) { x.Input = 200 }, file("/a", "1:60@n1"))
	f.migrate(Name{"carl", "c"}, func(x *Facts) { x.Input = 100 }, file("/c", "2:50@n1"))
	f.keeps("n1", "a:1 b:1")
}

// TestAnotherOwnersRoom: what is in memory counts for the owner of the first job that wants it; where that has its share already, it
// takes no room of others any more, and they are placed.
func TestAnotherOwnersRoom(t *testing.T) {
	m := memory{{id(1), "n1"}: 50, {id(2), "n1"}: 40}
	f := with(t, Config{JobShare: 1, OwnerShare: 0.5, Resident: m.resident}, "n1")
	first := func(x *Facts) { x.Input, x.Submitted = 5, t0 }
	f.migrate(anna("a"), nil, file("/a", "1:50@n1"))
	f.migrate(anna("first"), first)
	f.migrate(Name{"ben", "b"}, nil, file("/b", "2:40@n1"))
	f.migrate(Name{"carl", "c"}, func(x *Facts) { x.Input = 1000 }, file("/c", "3:30@n1"))
	f.Look(f.now)
	f.keeps("n1", "a:1 b:2")
	f.migrate(anna("first"), first, file("/b", "2:40@n1"))
	f.Look(f.now)
	f.keeps("n1", "a:1 b:2 c:3 first:2")
}

// lockedBeyond is a job whose only block was in memory, and has been locked by its node beyond the job's share, and one that has no room beside it.
func lockedBeyond(t *testing.T) *fixture {
	m := memory{{id(1), "n1"}: 60}
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: m.resident}, "n1")
	f.migrate(anna("a"), func(x *Facts) { x.Budget = 50 }, file("/a", "1:60@n1"))
	f.migrate(Name{"ben", "b"}, func(x *Facts) { x.Input = 100 }, file("/b", "2:50@n1"))
	f.Look(f.now)
	f.keeps("n1", "a:1")
	f.report("n1", anna("a"), 1, Pinned, "")
	return f
}

// TestGivenBackMakesRoom: what a node is not to lock is in nobody's way any more.
func TestGivenBackMakesRoom(t *testing.T) {
	f := lockedBeyond(t)
	f.Look(f.now)
	f.keeps("n1", "b:2")
}

// TestGivenBackForGood: what a node has locked beyond the share is in memory while it does, and is not taken back for that, only to be
// locked once more.
func TestGivenBackForGood(t *testing.T) {
	f := lockedBeyond(t)
	f.migrate(Name{"carl", "c"}, func(x *Facts) { x.Input = 100 })
	f.Look(f.now)
	if s := f.status(anna("a")); s.NotFit != 60 {
		t.Errorf("%+v", s)
	}
	if f.Look(f.now); f.freed {
		t.Error("it does not come to rest")
	}
	f.migrate(anna("a"), func(x *Facts) { x.Budget = 60 }, file("/a", "1:60@n1"))
	if s := f.status(anna("a")); s.NotFit != 0 {
		t.Errorf("with a larger share: %+v", s)
	}
}
