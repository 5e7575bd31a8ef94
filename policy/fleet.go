package policy

import (
	"headrace"
)

// fleet is the nodes of a view, many of them, and what is remembered within a decision
// so that nodes need not be asked again and again. It is the only place with caches;
// touch keeps them true.
type fleet struct {
	*ledger
	chooser *chooser
	// bySubmission chooses no node by what of an input is in memory.
	bySubmission bool

	byID   map[headrace.NodeID]*node
	recent []*node // see nodeOf

	// free is what is free on each node both now and later, coming what is later.
	// versions counts the changes to each node (touch).
	free, coming fitTree
	versions     []uint32

	class   []*class // of each task of the view that waits; nil: it has none
	classes classes
	failed  failures
	scratch []asked

	far, near []*node
	ends      []end
}

// newFleet is a fleet whose books are in l.
func newFleet(l *ledger, c *chooser, bySubmission bool) *fleet {
	return &fleet{ledger: l, chooser: c, bySubmission: bySubmission}
}

// load takes in a view: it enters what all tasks hold in the accounts of their nodes.
func (f *fleet) load(v *headrace.View) {
	f.failed.forget()
	f.classes.forget()
	if f.begin(v) {
		f.index()
	}
	if cap(f.class) < len(v.Tasks) {
		f.class = make([]*class, len(v.Tasks)*5/4)
	}
	f.class = f.class[:len(v.Tasks)]
	for i := range v.Tasks {
		var n *node
		if id := v.Tasks[i].Node; id != "" {
			n = f.nodeOf(id)
		}
		f.enter(i, n)
	}
	f.free.reset(len(f.nodes))
	f.coming.reset(len(f.nodes))
	for i := range f.nodes {
		n := &f.nodes[i]
		n.balanceSwap()
		f.versions[i]++
		f.free.leaf(i, least(n.now, n.later))
		f.coming.leaf(i, n.later)
	}
	f.free.build()
	f.coming.build()
}

// index lists the nodes by their names.
func (f *fleet) index() {
	f.versions = make([]uint32, len(f.nodes))
	f.byID = make(map[headrace.NodeID]*node, len(f.nodes))
	for _, n := range f.every {
		f.byID[n.id] = n
	}
	size := 64
	for size < 4*len(f.nodes) {
		size *= 2
	}
	f.recent = make([]*node, size)
}

// nodeOf is the node of that name, or nil. A table of those that were asked for
// last saves most of the look-ups; names of nodes tend to differ in their last
// letters.
func (f *fleet) nodeOf(id headrace.NodeID) *node {
	h := uint(len(id))
	for i := max(0, len(id)-4); i < len(id); i++ {
		h = h*10 + uint(id[i])
	}
	recent := &f.recent[h&uint(len(f.recent)-1)]
	if *recent != nil && (*recent).id == id {
		return *recent
	}
	n := f.byID[id]
	if n != nil {
		*recent = n
	}
	return n
}

// touch must follow every change to the accounts of n, or to what may be done to
// its tasks: what is known about n for others is then known to be old.
func (f *fleet) touch(n *node) {
	f.versions[n.i]++
	f.free.set(n.i, least(n.now, n.later))
	f.coming.set(n.i, n.later)
}

// roomMade must follow what makes room for somebody: what failed may succeed.
func (f *fleet) roomMade() { f.failed.clear() }

// anyRoom reports whether u may fit somewhere at once; false: nowhere.
func (f *fleet) anyRoom(u *task) bool { return f.free.anywhere(u.CPUs, f.leastDemand(u)) }
