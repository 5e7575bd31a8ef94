package fleet

import (
	"headrace"
	"headrace/policy/internal/books"
)

// class is waiting tasks between which a decision makes no difference, wherever
// they could go: what is found out about one of them, or about what a node would
// take to make room for it, holds for all, for as long as the node stays as it is.
type class struct {
	classKey
	// refuted is how many failures of each kind have been compared, and covered
	// whether one was found that covers the class, as of the given clearing.
	refuted  [kinds]int
	covered  [kinds]bool
	clearing int
	// bids is what each node would take, once asked, and stay what it would if those that are being
	// checkpointed were to stay.
	bids, stay []asked
}

// classKey is what a decision looks at. need is the memory that they need on
// whichever node; request, what they asked for, differs from it for what comes
// back from a checkpoint.
type classKey struct {
	cpus          float64
	request, need int64
	priority, eff headrace.Priority
	counted       int32 // TaskView.Need
	abreast       int32 // how many must find room together, and how many wait for them
	together      int32
	owner         int64 // see owners
}

// owners are the users whose dumps wait longer or shorter at some store than those of others.
type owners map[uint32]bool

// load takes in a view.
func (o *owners) load(v *headrace.View) {
	clear(*o)
	for i := range v.Nodes {
		for j := range v.Nodes[i].Stores {
			for _, q := range v.Nodes[i].Stores[j].Queues {
				if *o == nil {
					*o = owners{}
				}
				(*o)[q.User] = true
			}
		}
	}
}

// of returns the owner of u, or what is the same for all for whom dumps wait as long.
func (o owners) of(u *books.Task) int64 {
	if o[u.User] {
		return int64(u.User)
	}
	return -1
}

// classes are the classes of one decision.
type classes struct {
	byKey map[classKey]*class
	all   []*class // kept for their memory; used of them are in byKey
	used  int
	last  *class
}

func (s *classes) forget() {
	if s.byKey == nil {
		s.byKey = map[classKey]*class{}
	}
	clear(s.byKey)
	s.used, s.last = 0, nil
}

func (s *classes) of(k classKey) *class {
	if s.last != nil && s.last.classKey == k {
		return s.last
	}
	c := s.byKey[k]
	if c == nil {
		if s.used == len(s.all) {
			s.all = append(s.all, new(class))
		}
		c = s.all[s.used]
		s.used++
		*c = class{classKey: k, bids: c.bids[:0], stay: c.stay[:0]}
		s.byKey[k] = c
	}
	s.last = c
	return c
}

// none is the class of tasks that have none.
var none = &class{}

// classOf returns the class of u, nil when it can go to one node only or needs more
// memory on some nodes than on others (books.Demand). The place of u in the queue must be known.
func (f *Fleet) classOf(u *books.Task) *class {
	c := f.class[u.Index]
	if c == nil {
		if c = none; alikeEverywhere(f, u) {
			c = f.classes.of(classKey{u.CPUs, u.MemoryRequest, f.leastDemand(u), u.Priority, u.Aged, u.Need, int32(u.Abreast()), int32(u.Together()), f.failed.owners.of(u)})
		}
		f.class[u.Index] = c
	}
	if c == none {
		return nil
	}
	return c
}

// alikeEverywhere reports whether u may go to several nodes and needs as much memory on each.
func alikeEverywhere(f *Fleet, u *books.Task) bool {
	m := books.Measured(u.TaskView)
	return u.State != headrace.Suspended && (m <= u.MemoryRequest || m <= f.LeastMemory)
}

// leastDemand says what u needs at least, on whichever node.
func (f *Fleet) leastDemand(u *books.Task) int64 {
	if alikeEverywhere(f, u) {
		return max(u.MemoryRequest, books.Measured(u.TaskView))
	}
	return u.MemoryRequest
}

// Kind is what may fail: to find room at once, when those that are leaving are gone, or by
// making it.
type Kind int

const (
	Now Kind = iota
	Later
	Planned
	kinds
)

// failures remembers tasks for which nothing was found on any node, so that those
// behind them in the queue that need as much are not tried in vain.
type failures struct {
	of     [kinds][]failure
	owners owners
	// clearing counts how often some have been forgotten.
	clearing int
	// muted: something is tried that may be undone, so that what fails is not remembered.
	muted bool
}

type failure struct {
	cpus     float64
	mem      int64
	priority headrace.Priority
	counted  int32
	abreast  int32
	owner    int64
	// alike: it says nothing of those that need more or are less urgent.
	alike bool
}

// mostFailures is how many failures of a kind are remembered.
const mostFailures = 64

// note remembers the failure of u, whose demand must be what it has requested.
func (f *failures) note(u *books.Task, k Kind) {
	if books.Begun(u.TaskView) || f.muted || len(f.of[k]) >= mostFailures || u.Whole != nil && !u.Whole.Alike {
		return
	}
	f.of[k] = append(f.of[k], failure{u.CPUs, u.MemoryRequest, u.Priority, u.Need, int32(u.Abreast()), f.owners.of(u), false})
}

// clear forgets what no longer holds once victims have made room.
func (f *failures) clear() {
	f.of[Later] = f.of[Later][:0]
	f.of[Planned] = f.of[Planned][:0]
	f.clearing++
}

func (f *failures) forget() {
	f.of[Now] = f.of[Now][:0]
	f.clear()
}

// cover reports whether u fails where one of those from the i-th on has failed. What failed last needs least.
func (f *failures) cover(u *books.Task, k Kind, i int) bool {
	abreast, owner := int32(u.Abreast()), f.owners.of(u)
	for j := len(f.of[k]) - 1; j >= i; j-- {
		x := &f.of[k][j]
		if k == Planned && x.owner != owner { // what room costs is another price for it
			continue
		}
		if x.alike && (u.CPUs != x.cpus || u.MemoryRequest != x.mem || u.Priority != x.priority || u.Need != x.counted) {
			continue
		}
		if u.CPUs >= x.cpus && u.MemoryRequest >= x.mem && (k != Planned || u.Priority <= x.priority) && (x.counted == 0 || x.counted == u.Need) && x.abreast <= abreast {
			return true
		}
	}
	return false
}

// few is of how many failures it takes less time to compare them than to look up a class.
const few = 4

// fails reports whether u fails where another has failed before.
func (f *Fleet) fails(u *books.Task, k Kind) bool {
	failed := &f.failed
	if failed.muted {
		return false
	}
	last := max(0, len(failed.of[k])-few)
	if failed.cover(u, k, last) {
		return true
	}
	if last == 0 {
		return false
	}
	c := f.classOf(u)
	if c == nil {
		return failed.cover(u, k, 0)
	}
	if c.clearing != failed.clearing {
		c.clearing, c.refuted, c.covered = failed.clearing, [kinds]int{}, [kinds]bool{}
	}
	if !c.covered[k] && c.refuted[k] < len(failed.of[k]) {
		c.covered[k] = failed.cover(u, k, c.refuted[k])
		c.refuted[k] = len(failed.of[k])
	}
	return c.covered[k]
}

// Hopeless reports whether it is known without looking that nothing can be done for
// u, neither now nor later, nor by looking for victims. It is the same for
// all of its class that have not been begun, so that long queues of them take little
// time.
func (f *Fleet) Hopeless(u *books.Task) bool {
	if books.Begun(u.TaskView) || !alikeEverywhere(f, u) {
		return false
	}
	return f.fails(u, Now) && f.fails(u, Later) && f.fails(u, Planned)
}

// A Trial is something that Undo undoes, or Commit makes last: the start of a gang.
type Trial struct{ f *Fleet }

// Try begins one.
func (f *Fleet) Try() Trial {
	f.failed.muted = true
	f.Ledger.Try()
	return Trial{f}
}

// Undo undoes what was tried.
func (t Trial) Undo() {
	t.f.Ledger.Undo(t.f.Touch)
	t.f.failed.muted = false
}

// Commit makes what was tried last.
func (t Trial) Commit() {
	t.f.Ledger.Commit()
	t.f.failed.muted = false
}

// CommitClaims makes what was claimed last, as far as it is free.
func (t Trial) CommitClaims() {
	t.f.Ledger.CommitClaims(t.f.Touch)
	t.f.failed.muted = false
}

// Failed remembers that the gang of u, one of those that wait, fails; or, where alike, that u waits
// for others without room being kept for it, and so do those behind it that are alike. Fails
// reports whether that is known without trying.
func (f *Fleet) Failed(u *books.Task, k Kind, alike bool) {
	switch {
	case !alike:
		f.failed.note(u, k)
	case !books.Begun(u.TaskView):
		f.failed.of[k] = append(f.failed.of[k], failure{u.CPUs, u.MemoryRequest, u.Priority, u.Need, int32(u.Abreast()), f.failed.owners.of(u), true})
	}
}

func (f *Fleet) Fails(u *books.Task, k Kind) bool { return !books.Begun(u.TaskView) && f.fails(u, k) }
