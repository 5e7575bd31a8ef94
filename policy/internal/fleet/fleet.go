package fleet

import (
	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/victims"
)

// Fleet is the nodes of a view, many of them, and what is remembered within a decision
// so that nodes need not be asked again and again. It is the only place with caches;
// Touch keeps them true.
type Fleet struct {
	*books.Ledger
	chooser *victims.Chooser
	// bySubmission chooses no node by what of an input is in memory.
	bySubmission bool

	// free is what is free on each node both now and later, coming what is later, and soon what of
	// that is not only once dumps are done. versions counts the changes to each node (Touch).
	free, coming, soon fitTree
	versions           []uint32

	class   []*class // of each task of the view, none if it has none; nil: not looked for yet (classOf)
	classes classes
	failed  failures
	scratch []asked

	far, near []*books.Node
	odds      odds

	Slots Slots // of the task that was planned for last
}

// New returns a fleet whose books are in l.
func New(l *books.Ledger, c *victims.Chooser, bySubmission bool) *Fleet {
	return &Fleet{Ledger: l, chooser: c, bySubmission: bySubmission}
}

// Load takes in a view: it enters what all tasks hold in the accounts of their nodes.
func (f *Fleet) Load(v *headrace.View) {
	f.failed.forget()
	f.failed.owners.load(v)
	f.Slots = f.Slots[:0]
	f.classes.forget()
	f.Ledger.Load(v)
	if len(f.versions) != len(f.Nodes) {
		f.versions = make([]uint32, len(f.Nodes))
	}
	if cap(f.class) < len(v.Tasks) {
		f.class = make([]*class, len(v.Tasks)*5/4)
	}
	f.class = f.class[:len(v.Tasks)]
	clear(f.class)
	f.free.reset(len(f.Nodes))
	f.coming.reset(len(f.Nodes))
	f.soon.reset(len(f.Nodes))
	for i := range f.Nodes {
		n := &f.Nodes[i]
		f.versions[i]++
		f.free.leaf(i, least(n.Now, n.Later))
		f.coming.leaf(i, n.Later)
		f.soon.leaf(i, soon(n))
	}
	f.free.build()
	f.coming.build()
	f.soon.build()
}

// Touch must follow every change to the accounts of n, or to what may be done to
// its tasks: what is known about n for others is then known to be old.
func (f *Fleet) Touch(n *books.Node) {
	f.versions[n.Index]++
	f.free.set(n.Index, least(n.Now, n.Later))
	f.coming.set(n.Index, n.Later)
	f.soon.set(n.Index, soon(n))
}

// soon is what will be free on n once those that are leaving are gone, but for those for whose dumps one has to wait.
func soon(n *books.Node) books.Room {
	if n.Dumping() <= 0 {
		return n.Later
	}
	defer n.WithoutDumps()()
	return n.Later
}

// RoomMade must follow what makes room for somebody: what failed may succeed.
func (f *Fleet) RoomMade() { f.failed.clear() }

// Yield finds room for u that is kept for who is less urgent and moves, and takes it back from that one.
func Yield(f *Fleet, u *books.Task) *books.Node {
	n := f.Ledger.Yield(u, func(n *books.Node) bool { return May(u, n) })
	if n != nil {
		f.Touch(n)
		f.failed.forget()
	}
	return n
}

// AnyRoom reports whether u may fit somewhere at once; false: nowhere.
func (f *Fleet) AnyRoom(u *books.Task) bool { return f.free.anywhere(u.CPUs, f.leastDemand(u)) }
