package master

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/internal/budget"
)

// fixture is a master with nodes of 100 bytes each.
type fixture struct {
	*testing.T
	*Master
	now      time.Time
	sessions map[string]uint64
	seqs     map[string]uint64
	kept     map[string][]string // as nodes were told
}

func with(t *testing.T, c Config, nodes ...string) *fixture {
	f := &fixture{T: t, Master: New(c, t0), now: t0, sessions: map[string]uint64{}, seqs: map[string]uint64{}, kept: map[string][]string{}}
	for _, n := range nodes {
		f.join(n)
	}
	return f
}

var hundred = Load{Budget: 100, Speed: 10}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) join(node string, held ...Held) {
	f.Helper()
	f.sessions[node]++
	f.seqs[node], f.kept[node] = 0, nil
	var facts []Facts
	for _, h := range held {
		facts = append(facts, Facts{Name: h.Name, Input: 77, Submitted: t0})
	}
	f.must(f.Join(node, f.sessions[node], nil, hundred, facts, held, f.now))
}

func anna(job string) Name { return Name{"anna", headrace.JobID(job)} }

// file is one with blocks such as "1:40@n1,n2": number, bytes, hosts.
func file(name string, blocks ...string) File {
	file := File{Name: name}
	for _, text := range blocks {
		var n, bytes int
		what, hosts, _ := strings.Cut(text, "@")
		if _, err := fmt.Sscanf(what, "%d:%d", &n, &bytes); err != nil {
			panic(err)
		}
		file.Blocks = append(file.Blocks, headrace.Block{ID: id(n), Bytes: int64(bytes), Generation: 1, Hosts: strings.Split(hosts, ",")})
	}
	return file
}

func (f *fixture) migrate(name Name, change func(*Facts), files ...File) {
	f.Helper()
	j := Job{Facts: Facts{Name: name, Submitted: f.now}, Files: files}
	if change != nil {
		change(&j.Facts)
	}
	f.must(f.Migrate(j, f.now))
}

// end ends the jobs of that name.
func (f *fixture) end(job headrace.JobID) {
	f.End(func(id headrace.JobID) bool { return id == job }, f.now)
}

// tell has a node ask for its orders, and returns what it is to keep, as "job:block".
func (f *fixture) tell(node string) []string {
	f.Helper()
	for {
		o, err := f.Orders(node, f.sessions[node], f.seqs[node], 2)
		f.must(err)
		if o.Full {
			f.kept[node] = nil
		}
		text := func(r Ref) string { return fmt.Sprintf("%s:%d", r.Job, r.Block.Number) }
		for _, r := range o.Remove {
			f.kept[node] = slices.DeleteFunc(f.kept[node], func(s string) bool { return s == text(r) })
		}
		for _, r := range o.Add {
			if !slices.Contains(f.kept[node], text(r)) {
				f.kept[node] = append(f.kept[node], text(r))
			}
		}
		slices.Sort(f.kept[node])
		if o.Seq == f.seqs[node] {
			return f.kept[node]
		}
		f.seqs[node] = o.Seq
	}
}

func (f *fixture) keeps(node, want string) {
	f.Helper()
	if got := strings.Join(f.tell(node), " "); got != want {
		f.Errorf("%s is to keep %q, want %q", node, got, want)
	}
}

func (f *fixture) report(node string, name Name, block int, s State, reason string) {
	f.Helper()
	f.must(f.Report(node, f.sessions[node], hundred, []Report{{name, id(block), 1, s, reason}}, nil, f.now))
}

// read has job j of anna read blocks.
func (f *fixture) read(blocks ...int) {
	f.Helper()
	for _, b := range blocks {
		f.report("n1", anna("j"), b, Read, "")
	}
}

func (f *fixture) status(name Name) Status {
	f.Helper()
	s, err := f.Status(name, f.now)
	f.must(err)
	return s
}

func held(name Name, block int, bytes int64, s State) Held {
	return Held{Ref{Name: name, Block: id(block), Generation: 1, Bytes: bytes}, s}
}

func TestOneJob(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	j := anna("sort")
	ready, err := f.Ready("n1", 1)
	f.must(err)
	f.tell("n1")
	f.migrate(j, nil, file("/a", "1:40@n1", "2:30@n1"), file("/b", "3:0@n1", "4:20@n9"))
	select {
	case <-ready:
	default:
		t.Error("the node is not woken")
	}
	f.keeps("n1", "sort:1 sort:2 sort:3")
	f.now = f.now.Add(5 * time.Second)
	f.report("n1", j, 1, Pinned, "")
	f.report("n1", j, 2, Resident, "")
	s := f.status(j)
	if s.Files != 2 || s.Blocks != 4 || s.Bytes != 90 || s.Input != 90 || s.Pinned != 40 || s.Warmed != 40 || s.Resident != 30 || s.Left != 0 || s.NotFit != 20 ||
		s.NotFitReason != "no node that could keep it has a replica" || s.Lead != 5*time.Second || !s.FirstRead.IsZero() {
		t.Errorf("%+v", s)
	}
	f.report("n1", j, 1, Read, "")
	f.now = f.now.Add(time.Second)
	if s = f.status(j); s.Pinned != 40 || s.Lead != 5*time.Second {
		t.Errorf("a job that lets go at its end has read a block: %+v", s)
	}
	s, err = f.Evict(j, f.now)
	f.must(err)
	if !s.Ended || s.Pinned != 40 {
		t.Errorf("%+v", s)
	}
	f.keeps("n1", "")
	if _, err := f.Evict(j, f.now); !errors.Is(err, ErrUnknown) {
		t.Errorf("evicted twice: %v", err)
	}
}

func TestImplicit(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1", "n2")
	f.migrate(anna("scan"), func(x *Facts) { x.Implicit = true }, file("/a", "1:40@n1", "2:40@n1", "3:40@n1"))
	f.migrate(anna("sort"), nil, file("/a", "1:40@n1,n2"))
	f.keeps("n1", "scan:1 scan:2 sort:1")
	f.report("n1", anna("scan"), 1, Pinned, "")
	f.report("n1", anna("sort"), 1, Pinned, "")
	f.report("n1", anna("scan"), 1, Read, "")
	f.report("n1", anna("sort"), 1, Read, "")
	f.Look(f.now)
	// The other job still has it, so nothing has become free.
	f.keeps("n1", "scan:2 sort:1")
	// Read elsewhere, from a disk: missed.
	f.report("n2", anna("scan"), 2, Read, "")
	f.Look(f.now)
	f.keeps("n1", "scan:3 sort:1")
}

func TestShares(t *testing.T) {
	f := with(t, Config{JobShare: 0.5, OwnerShare: 0.6}, "n1", "n2")
	f.migrate(anna("a"), nil, file("/a", "1:50@n1", "2:50@n2", "3:10@n1"))
	f.migrate(anna("b"), func(x *Facts) { x.Input = 1000 }, file("/b", "4:20@n1", "5:1@n1"))
	f.migrate(Name{"bob", "c"}, func(x *Facts) { x.Budget = 30 }, file("/c", "6:20@n1", "7:20@n2"))
	f.keeps("n1", "a:1 b:4 c:6")
	f.keeps("n2", "a:2")
	for _, s := range f.List(f.now, func(Name) bool { return true }) {
		if !strings.Contains(s.NotFitReason, "share of the memory") {
			t.Errorf("job %s: %d do not fit: %s", s.Job, s.NotFit, s.NotFitReason)
		}
	}
	f.end("a")
	f.Look(f.now)
	f.keeps("n1", "b:4 b:5 c:6")
}

// TestSharedCountsOnce: what several jobs of an owner share is there once, and takes so much of the owner's share; of each job's own it takes all.
func TestSharedCountsOnce(t *testing.T) {
	f := with(t, Config{JobShare: 0.5, OwnerShare: 0.75}, "n1")
	same := file("/hot", "1:25@n1", "2:25@n1")
	for i := range 8 {
		f.migrate(anna(fmt.Sprint("hot", i)), nil, same)
		f.report("n1", anna(fmt.Sprint("hot", i)), 1, Pinned, "")
		f.report("n1", anna(fmt.Sprint("hot", i)), 2, Pinned, "")
	}
	f.migrate(anna("cold"), func(x *Facts) { x.Input = 1000 }, file("/cold", "3:25@n1", "4:1@n1"))
	if s := f.status(anna("cold")); s.Left != 25 || s.NotFit != 1 || !strings.Contains(s.NotFitReason, "share") {
		t.Errorf("with 50 of 75 used by eight jobs together: %+v", s)
	}
	f.migrate(anna("more"), nil, file("/hot", "1:25@n1", "2:25@n1", "5:1@n1"))
	if s := f.status(anna("more")); s.Left != 50 || s.NotFit != 1 {
		t.Errorf("one that shares all that it may have itself: %+v", s)
	}
	f.migrate(Name{"bob", "hot"}, nil, same)
	for i := range 8 {
		f.end(headrace.JobID(fmt.Sprint("hot", i)))
	}
	f.end("more")
	f.Look(f.now)
	f.keeps("n1", "cold:3 cold:4 hot:1 hot:2")
}

// TestSharedIsLockedLater: a node that has to lock what was in memory for a job whose owner has it there already takes nothing more.
func TestSharedIsLockedLater(t *testing.T) {
	m := memory{}
	f := with(t, Config{JobShare: 1, OwnerShare: 0.5, Resident: m.resident}, "n1")
	f.migrate(anna("first"), nil, file("/hot", "1:50@n1"))
	f.report("n1", anna("first"), 1, Pinned, "")
	f.migrate(anna("second"), nil, file("/hot", "1:50@n1"))
	f.report("n1", anna("second"), 1, Resident, "")
	f.report("n1", anna("second"), 1, Pinned, "")
	f.keeps("n1", "first:1 second:1")
}

// TestSharedIsNotTakenBack: what is planned for a larger job stays while the owner's jobs together have no more than the share.
func TestSharedIsNotTakenBack(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 0.75}, "n1")
	f.migrate(anna("a"), nil, file("/hot", "1:30@n1"))
	f.migrate(anna("b"), nil, file("/hot", "1:30@n1"))
	f.migrate(anna("large"), nil, file("/large", "1:30@n1", "2:40@n1"))
	f.keeps("n1", "a:1 b:1 large:1 large:2")
	f.migrate(anna("small"), nil, file("/small", "1:30@n1", "3:4@n1"))
	f.keeps("n1", "a:1 b:1 large:1 large:2 small:1 small:3")
	f.migrate(anna("tiny"), nil, file("/tiny", "4:2@n1"))
	f.keeps("n1", "a:1 b:1 large:1 small:1 small:3 tiny:4")
}

// TestManyJobs: there are so many of an owner's, and so many of all, also of those that nodes tell of.
func TestManyJobs(t *testing.T) {
	f := with(t, Config{OwnerJobs: 3, AllJobs: 5}, "n1")
	try := func(owner, job string) error {
		return f.Migrate(Job{Facts: Facts{Name: Name{owner, headrace.JobID(job)}, Submitted: f.now, Hold: true}, Files: []File{file("/f", "1:1@n1")}}, f.now)
	}
	for i := range 3 {
		f.must(try("anna", fmt.Sprint("j", i)))
	}
	f.must(try("anna", "j1"))
	for i, who := range []string{"anna", "bob", "bob", "bob"} {
		if err := try(who, fmt.Sprint("k", i)); (i == 0 || i == 3) != errors.Is(err, budget.ErrOver) || err != nil && !strings.Contains(err.Error(), "jobs") {
			t.Errorf("%s has one more: %v", who, err)
		}
	}
	f.join("n2", held(Name{"bob", "told"}, 2, 1, Pinned))
	f.keeps("n2", "")
	if n := f.Totals(); n.Jobs != 5 {
		t.Errorf("%+v", n)
	}
	f.end("told")
	_, err := f.Evict(anna("j0"), f.now)
	f.must(err)
	f.must(try("bob", "k3"))
	if all, owners := f.many.Taken(); all != 5 || owners != 2 {
		t.Errorf("%d jobs of %d owners", all, owners)
	}
}

// TestLookIsBounded: with very many jobs on the same nodes a Look leaves some of them to the next ones.
func TestLookIsBounded(t *testing.T) {
	const many, larger = 1000, 20
	f := with(t, Config{JobShare: 1, OwnerShare: 1})
	f.must(f.Join("n1", 1, nil, Load{Budget: many, Speed: 10}, nil, nil, f.now))
	for i := range many {
		f.migrate(Name{fmt.Sprint("u", i%10), headrace.JobID(fmt.Sprint("j", i))}, nil, file("/f", fmt.Sprintf("%d:1@n1", i)))
	}
	for i := range larger {
		f.migrate(anna(fmt.Sprint("large", i)), func(x *Facts) { x.Input = 1 << 40 }, file("/f", fmt.Sprintf("%d:2@n1", many+i)))
	}
	f.tries, f.freed = 20, true
	looks := 1
	for f.Look(f.now); f.resume != nil || f.freed; f.Look(f.now) {
		if looks++; looks > 10*larger {
			t.Fatal("it does not end")
		}
	}
	if looks < larger/2 {
		t.Errorf("%d Looks of 20 tries have looked at all %d entries for %d jobs", looks, many, larger)
	}
}

// TestManyHaveEnded: of an owner with very many jobs it is not remembered for as long that they have ended.
func TestManyHaveEnded(t *testing.T) {
	f := with(t, Config{Remember: time.Hour}, "n1")
	f.ended[Name{"bob", "j"}] = f.now
	for i := range 3 * manyEnded {
		f.ended[anna(fmt.Sprint("j", i))] = f.now.Add(time.Duration(i) * 30 * time.Minute / (3 * manyEnded))
	}
	f.now = f.now.Add(30 * time.Minute)
	f.Look(f.now)
	if n := len(f.ended); !f.Ended(Name{"bob", "j"}) || !f.Ended(anna(fmt.Sprint("j", 3*manyEnded-1))) || f.Ended(anna("j0")) || n > 2*manyEnded {
		t.Errorf("%d are remembered", n)
	}
}

// TestSmallestFirst: what larger jobs have not been given yet is free for smaller ones.
func TestSmallestFirst(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	bob := func(job string) Name { return Name{"bob", headrace.JobID(job)} }
	f.migrate(anna("large"), nil, file("/a", "1:50@n1", "2:50@n1"))
	f.migrate(bob("small"), nil, file("/b", "3:60@n1"))
	f.now = f.now.Add(time.Second)
	f.migrate(Name{"carl", "later"}, nil, file("/c", "4:60@n1"))
	f.keeps("n1", "large:1 large:2 small:3")
	f.report("n1", anna("large"), 1, Pinned, "")
	f.migrate(bob("tiny"), nil, file("/c", "5:51@n1"))
	f.keeps("n1", "large:1 large:2 small:3")
	f.end("large")
	f.Look(f.now)
	f.keeps("n1", "tiny:5")
	f.Look(f.now)
	f.keeps("n1", "tiny:5")
	if s := f.status(bob("small")); s.NotFit != 60 {
		t.Errorf("%+v", s)
	}
}

// TestRelieved: what waits on a node on which there is no room any more is read on another one that has some, for
// the jobs that come last.
func TestRelieved(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	bob, carl := Name{"bob", "large"}, Name{"carl", "shared"}
	f.migrate(bob, nil, file("/b", "1:50@n1,n2", "2:30@n1,n2"))
	f.migrate(carl, func(x *Facts) { x.Input = 1000 }, file("/b", "2:30@n1,n2"))
	f.keeps("n1", "large:1 large:2 shared:2")
	f.join("n2")
	f.Look(f.now)
	f.keeps("n2", "")
	f.migrate(anna("small"), nil, file("/a", "3:40@n1"))
	f.keeps("n1", "large:1 large:2 shared:2 small:3")
	f.Look(f.now)
	f.keeps("n1", "large:1 small:3")
	f.keeps("n2", "large:2 shared:2")
	// Nothing waits where there is no room at all.
	f.must(f.Report("n2", f.sessions["n2"], Load{Budget: 10}, nil, nil, f.now))
	f.Look(f.now)
	f.Look(f.now)
	f.keeps("n2", "")
}

func TestRestartOfTheMaster(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1})
	j := anna("sort")
	f.migrate(anna("ended"), nil, file("/z", "9:1@n1"))
	f.end("ended")
	f.join("n1", held(j, 1, 40, Pinned), held(j, 2, 40, Planned), held(anna("ended"), 9, 1, Pinned), held(j, 3, -1, Pinned), held(j, 4, 1, Failed))
	f.keeps("n1", "sort:1 sort:2")
	s := f.status(j)
	if !s.Adopted || s.Files != 0 || s.Pinned != 40 || s.Left != 40 || s.Input != 77 {
		t.Errorf("adopted: %+v", s)
	}
	f.now = f.now.Add(time.Hour)
	if s = f.status(j); s.Lead != time.Hour {
		t.Errorf("the lead time of a job that has not begun: %v", s.Lead)
	}
	f.must(f.Report("n1", 1, hundred, nil, []Reads{{j, 5, 0}}, f.now))
	if s = f.status(j); s.Lead != 0 || s.FromMemory != 5 {
		t.Errorf("when it began to read is not known: %+v", s)
	}
	f.join("n2")
	f.migrate(j, nil, file("/a", "1:40@n1,n2", "2:40@n1,n2", "3:40@n1,n2"))
	f.keeps("n1", "sort:1 sort:2")
	f.keeps("n2", "sort:3")
	if s = f.status(j); s.Adopted || s.Files != 1 || s.Bytes != 120 || s.Input != 120 {
		t.Errorf("migrated again: %+v", s)
	}
	// A job that is migrated before its node is back is planned elsewhere, and what the node has pinned wins.
	f.migrate(anna("early"), nil, file("/b", "5:10@n2,n3"))
	f.keeps("n2", "early:5 sort:3")
	f.join("n3", held(anna("early"), 5, 10, Pinned))
	f.keeps("n3", "early:5")
	f.keeps("n2", "sort:3")
	// Unless the other one has it by then.
	f.join("n2", held(anna("early"), 5, 10, Pinned))
	f.keeps("n3", "early:5")
	f.keeps("n2", "sort:3")
}

func TestAnotherReplica(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Attempts: 2}, "n1", "n2", "n3")
	j := anna("sort")
	f.migrate(j, nil, file("/a", "1:40@n1,n2,n3"))
	var tried []string
	for range 3 {
		for _, n := range []string{"n1", "n2", "n3"} {
			if len(f.tell(n)) > 0 {
				tried = append(tried, n)
				f.report(n, j, 1, Failed, "bad sector")
			}
		}
		f.Look(f.now)
	}
	s := f.status(j)
	if len(tried) != 2 || tried[0] == tried[1] || s.Failed != 40 || len(s.Failures) != 2 || s.Failures[0] != (Failure{"/a", id(1), tried[0], "bad sector"}) {
		t.Errorf("tried %v: %+v", tried, s)
	}
	f.migrate(j, nil, file("/a", "1:40@n1,n2,n3"))
	if s := f.status(j); s.Left != 40 {
		t.Errorf("migrated again: %+v", s)
	}
	// A replica that another job is told of.
	f.migrate(anna("few"), nil, file("/c", "3:1@n1"))
	f.report("n1", anna("few"), 3, Failed, "bad sector")
	if s := f.status(anna("few")); s.Failed != 1 {
		t.Errorf("the only replica has failed: %+v", s)
	}
	f.migrate(Name{"bob", "few"}, nil, file("/c", "3:1@n1,n2"))
	f.Look(f.now)
	if s := f.status(anna("few")); s.Left != 1 {
		t.Errorf("there is another replica: %+v", s)
	}
	f.migrate(anna("big"), nil, file("/b", "2:90@n1"))
	f.report("n1", anna("big"), 2, NotFit, "too many mappings")
	f.Look(f.now)
	if s := f.status(anna("big")); s.NotFit != 90 || s.NotFitReason != "too many mappings" {
		t.Errorf("%+v", s)
	}
}

func TestNodeIsLost(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	j := anna("sort")
	f.migrate(j, nil, file("/a", "1:40@n1,n2", "2:40@n1"))
	f.report("n1", j, 1, Pinned, "")
	f.join("n2")
	f.Leave("n1")
	f.Look(f.now)
	f.keeps("n2", "sort:1")
	if s := f.status(j); s.NotFit != 40 || s.Left != 40 {
		t.Errorf("%+v", s)
	}
	if err := f.Report("n1", 1, hundred, nil, nil, f.now); !errors.Is(err, ErrUnknown) {
		t.Errorf("a node that is gone reports: %v", err)
	}
	f.join("n1", held(j, 1, 40, Pinned), held(j, 2, 40, Pinned))
	f.keeps("n1", "sort:1 sort:2")
	f.keeps("n2", "")
	if err := f.Join("n1", 2, nil, hundred, nil, nil, f.now); !errors.Is(err, ErrStale) {
		t.Errorf("an old session joins: %v", err)
	}
	if _, err := f.Orders("n1", 1, 0, 1); !errors.Is(err, ErrStale) {
		t.Errorf("an old session asks: %v", err)
	}
	// Started anew it has nothing, and is to do it again.
	f.join("n1")
	f.keeps("n1", "sort:1 sort:2")
	if s := f.status(j); s.Left != 80 || s.Warmed != 40+40+40 {
		t.Errorf("%+v", s)
	}
}

func TestWhereItIsInMemory(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Resident: func(b headrace.BlockID, yield func(string, int64)) {
		yield("n9", 40)
		yield("n3", 40)
	}}, "n1", "n2", "n3")
	f.migrate(anna("a"), nil, file("/a", "1:40@n1,n2,n3"))
	f.keeps("n3", "a:1")
	if s := f.status(anna("a")); s.Resident != 40 {
		t.Errorf("%+v", s)
	}
	// What is kept for one job is kept for another where it is.
	f.report("n3", anna("a"), 1, Pinned, "")
	f.migrate(Name{"bob", "b"}, nil, file("/a", "1:40@n1,n2,n3"))
	f.keeps("n3", "a:1 b:1")
}

// TestNear: a block is read on the node on which its reader will run, while that is there.
func TestNear(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1", "n2", "n3")
	a := file("/a", "1:20@n2,n3", "2:20@n2,n3", "3:20@n2,n3", "4:20@n1,n2")
	a.Near = []string{"n2", "n2", "n2", "n3"} // which has not the last one
	f.migrate(anna("a"), nil, a)
	f.keeps("n2", "a:1 a:2 a:3")
	f.keeps("n1", "a:4")
	f.report("n2", anna("a"), 1, NotFit, "memory is short")
	f.report("n2", anna("a"), 2, Failed, "it cannot be read")
	f.Look(f.now)
	f.keeps("n2", "a:3")
	f.keeps("n3", "a:2") // for its reader will read it there
	if s := f.status(anna("a")); s.NotFit != 20 {
		t.Errorf("%+v", s)
	}
	f.report("n2", anna("a"), 3, NotFit, "memory is short")
	f.Leave("n2")
	f.Look(f.now)
	f.keeps("n3", "a:1 a:2 a:3")
}

// TestLockedLater: what was in memory when it was asked for counts from when its node locks it, and beyond the share it is
// given back, also on a node that was started again.
func TestLockedLater(t *testing.T) {
	inMemory := true
	f := with(t, Config{JobShare: 0.5, OwnerShare: 0.5, Resident: func(b headrace.BlockID, yield func(string, int64)) {
		if inMemory && b.Number <= 10 {
			yield("n1", 10)
		}
	}}, "n1")
	a := anna("a")
	var blocks []string
	for i := range 10 {
		blocks = append(blocks, fmt.Sprintf("%d:10@n1", i+1))
	}
	f.migrate(a, nil, file("/a", blocks...))
	if s := f.status(a); s.Resident != 100 {
		t.Fatalf("%+v", s)
	}
	f.migrate(anna("larger"), func(x *Facts) { x.Input = 1000 }, file("/b", "11:20@n1"))
	f.join("n1")
	inMemory = false
	f.tell("n1")
	for i := range 10 {
		f.report("n1", a, i+1, []State{Planned, Pinned}[i%2], "")
		f.Look(f.now)
	}
	if s := f.status(a); s.Left != 30 || s.Pinned != 20 || s.NotFit != 50 || !strings.Contains(s.NotFitReason, "share of the memory") {
		t.Errorf("%+v", s)
	}
	f.keeps("n1", "a:1 a:2 a:3 a:4 a:5") // and a larger job of the same owner has given way
}

// TestMoreRoom: what does not fit is tried again whatever it was that made room.
func TestMoreRoom(t *testing.T) {
	for name, then := range map[string]func(f *fixture){
		"the first job has a larger input than was thought": func(f *fixture) {
			f.migrate(anna("first"), func(x *Facts) { x.Input = 1000 }, file("/a", "1:70@n1"))
		},
		"a block has become smaller": func(f *fixture) {
			a := file("/a", "1:30@n1")
			a.Blocks[0].Generation++
			f.migrate(anna("first"), func(x *Facts) { x.Input = 1 }, a)
		},
		"there is another replica": func(f *fixture) {
			f.join("n2")
			f.Look(f.now)
			f.migrate(Name{"carl", "third"}, func(x *Facts) { x.Budget = 1 }, file("/b", "2:60@n2"))
		},
		"the node has more memory": func(f *fixture) {
			f.must(f.Report("n1", 1, Load{Budget: 200}, nil, nil, f.now))
		},
	} {
		f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
		f.migrate(anna("first"), func(x *Facts) { x.Input = 1 }, file("/a", "1:70@n1"))
		f.migrate(Name{"bob", "second"}, nil, file("/b", "2:60@n1"))
		if f.Look(f.now); f.status(Name{"bob", "second"}).NotFit != 60 {
			t.Fatal("it fits at once")
		}
		then(f)
		if f.Look(f.now); f.status(Name{"bob", "second"}).NotFit != 0 {
			t.Errorf("%s: %+v", name, f.status(Name{"bob", "second"}))
		}
	}
}

// TestAppended: a block that has been appended to is another: who could not keep the old one is
// asked again, for all jobs, and what is still told of the old one does not count.
func TestAppended(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	bob := Name{"bob", "b"}
	for _, name := range []Name{anna("a"), bob} {
		f.migrate(name, nil, file("/f", "1:40@n1"))
		f.keeps("n1", map[bool]string{true: "b:1", false: "a:1"}[name == bob])
		f.report("n1", name, 1, Failed, "half of it is there")
	}
	if s := f.status(bob); s.Failed != 40 {
		t.Fatalf("%+v", s)
	}
	longer := file("/f", "1:50@n1")
	longer.Blocks[0].Generation++
	f.migrate(anna("a"), nil, longer)
	f.Look(f.now)
	f.keeps("n1", "a:1 b:1")
	f.report("n1", bob, 1, Failed, "half of it is there")
	if s := f.status(bob); s.Left != 50 || s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestReads(t *testing.T) {
	f := with(t, Config{}, "n1", "n2")
	j := anna("sort")
	f.migrate(j, nil)
	told := func(node string, memory, disk int64) {
		f.must(f.Report(node, 1, hundred, nil, []Reads{{j, memory, disk}, {anna("unknown"), 1, 1}}, f.now))
	}
	told("n1", 0, 0)
	if s := f.status(j); !s.FirstRead.IsZero() {
		t.Errorf("%+v", s)
	}
	f.now = f.now.Add(time.Second)
	told("n1", 10, 1)
	told("n1", 10, 1)
	told("n2", 5, 5)
	f.now = f.now.Add(time.Second)
	told("n1", 3, 0) // started anew
	if s := f.status(j); s.FromMemory != 10+5+3 || s.FromDisk != 1+5 || s.Lead != time.Second {
		t.Errorf("%+v", s)
	}
}

func TestCleanUp(t *testing.T) {
	asked := 0
	f := with(t, Config{JobShare: 1, OwnerShare: 1, Alive: func(j Name) bool { asked++; return j == anna("lives") }}, "n1")
	f.migrate(anna("dead"), nil, file("/a", "1:40@n1"))
	f.migrate(anna("lives"), nil, file("/b", "2:30@n1"))
	f.migrate(anna("asked"), func(x *Facts) { x.Hold = true }, file("/c", "3:5@n1"))
	f.now = f.now.Add(2 * time.Minute)
	f.Look(f.now)
	if asked > 0 {
		t.Error("there is room, and somebody was asked who lives")
	}
	f.migrate(anna("new"), nil, file("/d", "4:30@n1"))
	if f.Look(f.now); asked != 2 {
		t.Errorf("asked %d times, want about the two jobs that may have ended", asked)
	}
	f.keeps("n1", "asked:3 lives:2 new:4")
	if f.end("asked"); len(f.List(f.now, func(Name) bool { return true })) != 3 {
		t.Errorf("what a user holds has ended with a job of that name")
	}
}

func TestBounds(t *testing.T) {
	f := with(t, Config{PerJob: 4, PerOwner: 6, All: 8, Alive: func(Name) bool { return false }}, "n1")
	add := func(name Name, over string, blocks ...string) {
		t.Helper()
		err := f.Migrate(Job{Facts: Facts{Name: name}, Files: []File{file("/a", blocks...)}}, f.now)
		if over == "" && err != nil || over != "" && (!errors.Is(err, budget.ErrOver) || !strings.Contains(err.Error(), over)) {
			t.Errorf("%v: %v, want %q", name, err, over)
		}
	}
	add(anna("a"), "it would have 5", "1:1@n1", "2:1@n1", "3:1@n1", "4:1@n1")
	add(anna("a"), "", "1:1@n1", "2:1@n1", "3:1@n1", "3:1@n1")
	add(anna("a"), "it would have 5", "4:1@n1")
	add(anna("b"), "its owner anna would have 7", "1:1@n1", "2:1@n1")
	add(anna("b"), "", "1:1@n1")
	add(Name{"bob", "c"}, "all together would have 9", "1:1@n1", "2:1@n1")
	// Jobs that nobody knows any more give way.
	f.now = f.now.Add(time.Hour)
	add(Name{"bob", "c"}, "", "1:1@n1", "2:1@n1")
	if jobs := f.List(f.now, func(Name) bool { return true }); len(jobs) != 1 {
		t.Errorf("%d jobs are left", len(jobs))
	}
	add(Name{"bob", "c"}, "", "1:1@n1", "5:1@n1")
	f.now = f.now.Add(time.Hour)
	add(Name{"bob", "c"}, "it would have 5", "6:1@n1", "7:1@n1", "8:1@n1", "9:1@n1")
}

// TestGoesOnAndOn: a job that asks for ten times as many blocks as it may want, and is done with some before it asks for others, has
// all of them read into memory. What is known of it does not grow.
func TestGoesOnAndOn(t *testing.T) {
	const bound, spare = 8, 5
	for name, end := range map[string]func(f *fixture, block int){
		"read":                  func(f *fixture, block int) { f.report("n1", anna("driver"), block, Read, "") },
		"read where it was not": func(f *fixture, block int) { f.report("n2", anna("driver"), block, Read, "") },
		"deleted":               func(f *fixture, block int) { f.report("n1", anna("driver"), block, Failed, "there is no such block") },
		"refused":               func(f *fixture, block int) { f.report("n1", anna("driver"), block, NotFit, "too many mappings") },
	} {
		t.Run(name, func(t *testing.T) {
			f := with(t, Config{JobShare: 1, OwnerShare: 1, PerJob: bound, PerOwner: bound + 2}, "n1", "n2")
			f.spare = spare
			f.migrate(anna("other"), nil, file("/other", "1000:1@n2"))
			for i := 0; i < 10*bound; i += 2 {
				blocks := []string{fmt.Sprintf("%d:10@n1", i), fmt.Sprintf("%d:10@n1", i+1)}
				f.migrate(anna("driver"), func(x *Facts) { x.Implicit = true }, file(fmt.Sprint("/data/", i), blocks...))
				f.keeps("n1", fmt.Sprintf("driver:%d driver:%d", i, i+1))
				for k := range 2 {
					f.report("n1", anna("driver"), i+k, Pinned, "")
					end(f, i+k)
				}
				f.Look(f.now)
				j := f.jobs[anna("driver")]
				if all, _ := f.quota.Taken(); all != 1+2 || len(j.wants) > spare || len(j.files) > spare || len(f.blocks) > spare+1 || j.rank.Input > 20 {
					t.Fatalf("after %d blocks %d count, %d wants and %d files are known of the job, %d blocks in all, and it has its place by %d bytes",
						i+2, all, len(j.wants), len(j.files), len(f.blocks), j.rank.Input)
				}
			}
			f.keeps("n1", "")
			s := f.status(anna("driver"))
			if s.Warmed != 10*bound*10 || s.Bytes != s.Warmed || s.Blocks != 10*bound || s.Files != 5*bound || s.Read+s.NotFit+s.Failed != s.Bytes {
				t.Errorf("%+v", s)
			}
			var over []string
			for i := range bound {
				over = append(over, fmt.Sprintf("%d:1@n1", 2000+i))
			}
			if err := f.Migrate(Job{Facts: Facts{Name: anna("driver")}, Files: []File{file("/more", over...)}}, f.now); !errors.Is(err, budget.ErrOver) {
				t.Errorf("more at once than there may be: %v", err)
			}
		})
	}
}

// TestAskedForAgain: what a job has read, or no node could keep, it wants again when it asks for it again, whether it is forgotten or
// not, and it counts again.
func TestAskedForAgain(t *testing.T) {
	for _, forgotten := range []bool{false, true} {
		f := with(t, Config{JobShare: 1, OwnerShare: 1, PerJob: 4}, "n1")
		if forgotten {
			f.spare = 0
		}
		ask := func() {
			f.migrate(anna("j"), func(x *Facts) { x.Implicit = true }, file("/a", "1:10@n1", "2:10@n1"), file("/b", "3:10@n1"))
		}
		for range 3 {
			ask()
			f.keeps("n1", "j:1 j:2 j:3")
			f.report("n1", anna("j"), 1, Read, "")
			f.report("n1", anna("j"), 2, Failed, "bad sector")
			f.report("n1", anna("j"), 3, NotFit, "too many mappings")
			f.keeps("n1", "")
			if f.Look(f.now); forgotten != (len(f.blocks) == 0) {
				t.Fatalf("%d blocks are known", len(f.blocks))
			}
		}
		ask()
		if err := f.Migrate(Job{Facts: Facts{Name: anna("j")}, Files: []File{file("/c", "4:1@n1")}}, f.now); !errors.Is(err, budget.ErrOver) {
			t.Errorf("one more than it may want: %v", err)
		}
		if s := f.status(anna("j")); s.Left != 30 {
			t.Errorf("%+v", s)
		}
	}
}

// TestForgottenInFiles: of a file of which blocks have been forgotten it is not told where the others are, which would seem to be
// elsewhere in it. It is again when it has been asked for again.
func TestForgottenInFiles(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1")
	f.spare = 0
	ask := func() {
		f.migrate(anna("j"), func(x *Facts) { x.Implicit = true }, file("a", "1:10@n1"), file("b", "2:10@n1", "3:10@n1", "4:10@n1"), file("c", "5:10@n1"))
	}
	want := func(file string, want ...Place) {
		t.Helper()
		if got, _, err := f.Places(anna("j"), file, 0, 9); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", file, got, err, want)
		}
	}
	ask()
	f.report("n1", anna("j"), 2, Read, "")
	f.Look(f.now)
	want("b", Place{10, ""}, Place{10, "n1"}, Place{10, "n1"})
	f.report("n1", anna("j"), 1, Read, "")
	f.report("n1", anna("j"), 3, Read, "")
	f.Look(f.now)
	want("a")
	want("b")
	want("c", Place{10, "n1"})
	if s := f.status(anna("j")); s.Files != 3 || s.Blocks != 5 || s.Read != 30 || s.Left != 20 {
		t.Errorf("%+v", s)
	}
	ask()
	want("a", Place{10, "n1"})
	want("b", Place{10, "n1"}, Place{10, "n1"}, Place{10, "n1"})
	want("c", Place{10, "n1"})
}

// TestForgottenOnNodes: a node that has not heard yet that a job is done with a block lets go of it though it is forgotten, and so
// does one that comes back with it.
func TestForgottenOnNodes(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1", "n2")
	f.spare = 0
	implicit := func(x *Facts) { x.Implicit = true }
	f.migrate(anna("j"), implicit, file("a", "1:10@n1", "2:10@n1"))
	f.keeps("n1", "j:1 j:2")
	for i := range 2 {
		f.report("n1", anna("j"), 1+i, Pinned, "")
		f.report("n2", anna("j"), 1+i, Read, "")
	}
	f.Look(f.now)
	if len(f.blocks) > 0 {
		t.Fatalf("%d blocks are known", len(f.blocks))
	}
	f.migrate(anna("j"), implicit, file("b", "2:10@n2"))
	f.keeps("n1", "")
	f.keeps("n2", "j:2")
	f.report("n2", anna("j"), 2, Read, "")
	f.Look(f.now)
	f.join("n1", held(anna("j"), 1, 10, Pinned))
	f.keeps("n1", "")
}

func TestBadJobs(t *testing.T) {
	f := with(t, Config{}, "n1")
	for _, j := range []Job{
		{},
		{Facts: Facts{Name: anna("a"), Input: -1}},
		{Facts: Facts{Name: anna("a"), Budget: -1}},
		{Facts: Facts{Name: anna("a")}, Files: []File{{Blocks: []headrace.Block{{Bytes: -1}}}}},
	} {
		if err := f.Migrate(j, f.now); !errors.Is(err, ErrJob) {
			t.Errorf("%+v: %v", j, err)
		}
	}
	if got := f.Totals(); got.Jobs > 0 {
		t.Errorf("%+v", got)
	}
}

// TestPlaces: where the blocks of files are, under the names that the file system has for nodes.
func TestPlaces(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1}, "n1", "n2")
	if _, _, err := f.Places(anna("j"), "a", 0, 9); !errors.Is(err, ErrUnknown) {
		t.Errorf("of no job: %v", err)
	}
	f.must(f.Migrate(Job{Files: []File{file("a", "1:40@n1", "2:40@n2", "3:40@n9"), file("b", "4:30@n2")}, Facts: Facts{Name: anna("j")}}, f.now))
	want := func(file string, from, most int, rest int, want ...Place) {
		t.Helper()
		if got, left, err := f.Places(anna("j"), file, from, most); err != nil || left != rest || !slices.Equal(got, want) {
			t.Errorf("%s from %d: %v, and %d more, %v; want %v, and %d", file, from, got, left, err, want, rest)
		}
	}
	want("a", 0, 9, 0, Place{40, "n1"}, Place{40, "n2"}, Place{40, ""})
	want("a", 0, 2, 1, Place{40, "n1"}, Place{40, "n2"})
	want("a", 2, 2, 0, Place{40, ""})
	want("a", 7, 2, 0)
	want("c", 0, 9, 0)
	f.must(f.Migrate(Job{Files: []File{file("c", "5:20@n1", "1:40@n1")}, Facts: Facts{Name: anna("j")}}, f.now)) // 1 is in both
	want("c", 0, 9, 0, Place{20, "n1"}, Place{40, "n1"})
	want("a", 0, 9, 0, Place{40, "n2"}, Place{40, ""})
}

// TestLargeJob: what does not fit into one call is placed, and let go, by the next ones.
func TestLargeJob(t *testing.T) {
	f := with(t, Config{JobShare: 1, OwnerShare: 1, PerOwner: 2*endedAtOnce + 1})
	f.must(f.Join("n1", 1, nil, Load{Budget: 1 << 20, Speed: 10}, nil, nil, f.now))
	f.tries = endedAtOnce
	blocks := make([]headrace.Block, 2*endedAtOnce)
	for i := range blocks {
		blocks[i] = headrace.Block{ID: id(i), Bytes: 1, Hosts: []string{"n1"}}
	}
	job := Job{Files: []File{{Name: "a", Blocks: blocks}}, Facts: Facts{Name: anna("j")}}
	f.must(f.Migrate(job, f.now))
	planned := func(n int, untried bool) {
		t.Helper()
		j := f.jobs[job.Name]
		if s, err := f.Status(job.Name, f.now); err != nil || j.blocks[Planned] != n || s.Untried != untried {
			t.Errorf("%d of %d blocks are planned, untried: %v, %v", j.blocks[Planned], len(blocks), s.Untried, err)
		}
	}
	planned(endedAtOnce, true)
	f.Look(f.now)
	planned(len(blocks), false)
	_, err := f.Evict(job.Name, f.now)
	f.must(err)
	if n := f.Totals(); n.Blocks != endedAtOnce || n.Jobs != 0 {
		t.Errorf("right after its end: %+v", n)
	}
	f.must(f.Migrate(job, f.now)) // anew, while the old one is going
	for f.Tidy(endedAtOnce / 3) {
	}
	f.Look(f.now)
	f.Look(f.now) // blocks that two jobs have wanted are more work
	planned(len(blocks), false)
	if n := f.Totals(); n.Blocks != len(blocks) || len(f.nodes["n1"].wants) != len(blocks) {
		t.Errorf("in the end: %+v, %d on the node", n, len(f.nodes["n1"].wants))
	}
}

// TestManyJobsEnd: of many jobs that end at once no more is let go at a time than of a large one.
func TestManyJobsEnd(t *testing.T) {
	const jobs, each = 6, endedAtOnce/2 - 1
	for what, end := range map[string]func(*fixture){
		"their scheduler says so": func(f *fixture) { f.End(func(headrace.JobID) bool { return true }, f.now) },
		"they are evicted": func(f *fixture) {
			for i := range jobs {
				_, err := f.Evict(anna(fmt.Sprint(i)), f.now)
				f.must(err)
			}
		},
	} {
		t.Run(what, func(t *testing.T) {
			f := with(t, Config{}, "n1")
			for i := range jobs {
				blocks := make([]headrace.Block, each)
				for k := range blocks {
					blocks[k] = headrace.Block{ID: id(i*each + k), Bytes: 1, Hosts: []string{"n1"}}
				}
				f.must(f.Migrate(Job{Files: []File{{Name: "a", Blocks: blocks}}, Facts: Facts{Name: anna(fmt.Sprint(i))}}, f.now))
			}
			end(f)
			if n := f.Totals(); n.Jobs != 0 || n.Blocks < jobs*each-endedAtOnce || n.Blocks == jobs*each {
				t.Errorf("right after their end: %+v", n)
			}
			for f.Tidy(endedAtOnce) {
			}
			if n := f.Totals(); n.Blocks != 0 || len(f.owners) != 0 {
				t.Errorf("in the end: %+v", n)
			}
		})
	}
}

// TestMigrationInSteps: whatever comes between the steps by which a job is taken in, what counts for its owner is what is there.
func TestMigrationInSteps(t *testing.T) {
	blocks := []string{"1:40@n1", "2:40@n2", "3:40@n3", "4:40@n1"}
	files := func() []File { return []File{file("a", blocks[:2]...), file("empty"), file("b", blocks[2:]...)} }
	implicit := func() Job { return Job{Files: files(), Facts: Facts{Name: anna("j"), Implicit: true}} }
	counted := func(f *fixture, want int64) {
		t.Helper()
		if all, _ := f.quota.Taken(); all != want {
			t.Errorf("%d count for owners, want %d", all, want)
		}
	}
	for name, c := range map[string]struct {
		between func(f *fixture, step int)
		gone    bool
		is      int64
	}{
		"nothing": {func(*fixture, int) {}, false, 5},
		"looks":   {func(f *fixture, _ int) { f.Look(f.now) }, false, 5},
		"the same job": {func(f *fixture, step int) {
			if step == 7 {
				f.must(f.Migrate(Job{Files: files(), Facts: Facts{Name: anna("j")}}, f.now))
			}
		}, false, 5},
		"the same job, while it is counted": {func(f *fixture, step int) {
			if step == 2 {
				f.must(f.Migrate(Job{Files: files()[:1], Facts: Facts{Name: anna("j")}}, f.now))
			}
		}, false, 5},
		"a node that tells of a block": {func(f *fixture, step int) {
			if step == 6 {
				f.join("n9", Held{Ref: Ref{Name: anna("j"), Block: id(4), Generation: 1, Bytes: 40}, State: Pinned})
			}
		}, false, 5},
		"the job has read some since they were counted": {func(f *fixture, step int) {
			switch step {
			case 0:
				f.must(f.Migrate(implicit(), f.now))
			case 5:
				f.read(3, 4)
			}
		}, false, 5},
		"others have come for what the job has read since": {func(f *fixture, step int) {
			switch step {
			case 0:
				f.must(f.Migrate(implicit(), f.now))
				f.quota.Owner = 5
			case 5:
				f.read(3, 4)
				f.migrate(anna("other"), nil, file("c", "5:40@n1"))
			case 10:
				f.end("other")
			}
		}, false, 3},
		"it is forgotten what the job has read since": {func(f *fixture, step int) {
			switch step {
			case 0:
				f.must(f.Migrate(implicit(), f.now))
				f.spare = 0
			case 4:
				f.read(1, 2, 3)
				if f.Look(f.now); len(f.blocks) != 1 {
					t.Errorf("%d blocks are known", len(f.blocks))
				}
			}
		}, false, 5},
		"its end": {func(f *fixture, step int) {
			if step == 8 {
				_, err := f.Evict(anna("j"), f.now)
				f.must(err)
			}
		}, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := with(t, Config{}, "n1", "n2", "n3")
			g, err := NewMigration(Job{Files: files(), Facts: Facts{Name: anna("j")}})
			f.must(err)
			steps := 0
			for more := true; more && err == nil; steps++ {
				more, err = g.Step(f.Master, 1, f.now)
				c.between(f, steps)
			}
			if errors.Is(err, ErrUnknown) != c.gone || !c.gone && err != nil {
				t.Errorf("after %d steps: %v", steps, err)
			}
			counted(f, c.is)
			if j := f.jobs[anna("j")]; !c.gone && (j == nil || len(j.wants) != 4 || j.adopted || j.entering != 0 || fmt.Sprint(slices.Sorted(slices.Values(j.files))) != "[a b empty]") {
				t.Errorf("it is %+v", j)
			}
			f.Evict(anna("j"), f.now)
			counted(f, 0)
		})
	}
}
