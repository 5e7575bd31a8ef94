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
	// bids is what each node would take, once asked.
	bids []asked
}

// classKey is what a decision looks at. need is the memory that they need on
// whichever node; request, what they asked for, differs from it for what comes
// back from a checkpoint.
type classKey struct {
	cpus          float64
	request, need int64
	priority, eff headrace.Priority
	counted       int32 // TaskView.Need
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
		*c = class{classKey: k, bids: c.bids[:0]}
		s.byKey[k] = c
	}
	s.last = c
	return c
}

// Classify finds the class of u, none when it can go to one node only or needs more
// memory on some nodes than on others (books.Demand). It must be called for each task that
// waits, once its place in the queue is known.
func (f *Fleet) Classify(u *books.Task) {
	f.class[u.Index] = nil
	m := books.Measured(u.TaskView)
	if u.State == headrace.Suspended || m > u.MemoryRequest && m > f.LeastMemory {
		return
	}
	f.class[u.Index] = f.classes.of(classKey{u.CPUs, u.MemoryRequest, max(u.MemoryRequest, m), u.Priority, u.Aged, u.Need})
}

// leastDemand says what u needs at least, on whichever node.
func (f *Fleet) leastDemand(u *books.Task) int64 {
	if c := f.class[u.Index]; c != nil {
		return c.need
	}
	return u.MemoryRequest
}

// kind is what failed.
type kind int

const (
	kindNow kind = iota
	kindLater
	kindPlan
	kinds
)

// failures remembers tasks for which nothing was found on any node, so that those
// behind them in the queue that need as much are not tried in vain.
type failures struct {
	of [kinds][]failure
	// clearing counts how often some have been forgotten.
	clearing int
}

type failure struct {
	cpus     float64
	mem      int64
	priority headrace.Priority
	counted  int32
}

// mostFailures is how many failures of a kind are remembered.
const mostFailures = 64

// note remembers the failure of u, whose demand must be what it has requested.
func (f *failures) note(u *books.Task, k kind) {
	if books.Begun(u.TaskView) || len(f.of[k]) >= mostFailures {
		return
	}
	f.of[k] = append(f.of[k], failure{u.CPUs, u.MemoryRequest, u.Priority, u.Need})
}

// clear forgets what no longer holds once victims have made room.
func (f *failures) clear() {
	f.of[kindLater] = f.of[kindLater][:0]
	f.of[kindPlan] = f.of[kindPlan][:0]
	f.clearing++
}

func (f *failures) forget() {
	f.of[kindNow] = f.of[kindNow][:0]
	f.clear()
}

// cover reports whether u fails where one of those from the i-th on has failed.
func (f *failures) cover(u *books.Task, k kind, i int) bool {
	for _, x := range f.of[k][i:] {
		if u.CPUs >= x.cpus && u.MemoryRequest >= x.mem && (k != kindPlan || u.Priority <= x.priority) && (x.counted == 0 || x.counted == u.Need) {
			return true
		}
	}
	return false
}

// fails reports whether u fails where another has failed before.
func (f *Fleet) fails(u *books.Task, k kind) bool {
	failed, c := &f.failed, f.class[u.Index]
	if c == nil {
		return failed.cover(u, k, 0)
	}
	if c.clearing != failed.clearing {
		c.clearing = failed.clearing
		c.refuted[kindLater], c.covered[kindLater] = 0, false
		c.refuted[kindPlan], c.covered[kindPlan] = 0, false
	}
	if !c.covered[k] && c.refuted[k] < len(failed.of[k]) {
		c.covered[k] = failed.cover(u, k, c.refuted[k])
		c.refuted[k] = len(failed.of[k])
	}
	return c.covered[k]
}

// Planless reports whether it is known without looking that there is no plan for u.
func (f *Fleet) Planless(u *books.Task) bool { return f.fails(u, kindPlan) }

// Hopeless reports whether it is known without looking that nothing can be done for
// u, neither now nor later, nor by looking for victims. It is the same for
// all of its class that have not been begun, so that long queues of them take little
// time.
func (f *Fleet) Hopeless(u *books.Task) bool {
	if f.class[u.Index] == nil || books.Begun(u.TaskView) {
		return false
	}
	return f.fails(u, kindNow) && f.fails(u, kindLater) && f.fails(u, kindPlan)
}
