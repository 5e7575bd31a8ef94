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
	f.ledger.load(v)
	if len(f.versions) != len(f.nodes) {
		f.versions = make([]uint32, len(f.nodes))
	}
	if cap(f.class) < len(v.Tasks) {
		f.class = make([]*class, len(v.Tasks)*5/4)
	}
	f.class = f.class[:len(v.Tasks)]
	f.free.reset(len(f.nodes))
	f.coming.reset(len(f.nodes))
	for i := range f.nodes {
		n := &f.nodes[i]
		f.versions[i]++
		f.free.leaf(i, least(n.now, n.later))
		f.coming.leaf(i, n.later)
	}
	f.free.build()
	f.coming.build()
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
