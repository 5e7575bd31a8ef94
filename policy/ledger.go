package policy

import (
	"math"

	"headrace"
)

// ledger is the books of all nodes of a view. What is kept from one view to the next
// is memory.
type ledger struct {
	// reserve is the share of the swap that is never used, overlap that of a page-out
	// during which the task that it makes room for already runs.
	reserve, overlap float64
	// meet fills in what is to be known of a task that runs, when its node is opened.
	meet func(*task)

	view        *headrace.View
	nodes       []node
	every       []*node // all of them
	byID        map[headrace.NodeID]*node
	recent      []*node // see nodeOf
	tasks       []task  // of the view; only those enrolled mean anything
	next        []int32 // see node.first
	waiting     []*task
	leastMemory int64 // of all nodes

	outs  []out   // of allot
	fresh []*task // of allot
}

// load takes in a view: it enters what all tasks hold in the accounts of their nodes and
// lists those that wait. Of those that run it only keeps where they are: most nodes need
// not be looked at more closely (node.open).
func (l *ledger) load(v *headrace.View) {
	l.view = v
	l.loadNodes(v.Nodes)
	if cap(l.tasks) < len(v.Tasks) {
		l.tasks = make([]task, len(v.Tasks)*5/4)
		l.next = make([]int32, len(v.Tasks)*5/4)
	}
	l.tasks = l.tasks[:len(v.Tasks)]
	l.waiting = l.waiting[:0]
	for i := range v.Tasks {
		t := &v.Tasks[i]
		var n *node
		if t.Node != "" {
			n = l.nodeOf(t.Node)
		}
		queued := waiting(t)
		if queued || t.State == headrace.Suspended {
			l.enrol(i, n)
		}
		if queued {
			l.waiting = append(l.waiting, &l.tasks[i])
		}
		if n != nil {
			n.account(i, t)
		}
	}
	for i := range l.nodes {
		l.nodes[i].balanceSwap()
	}
}

// loadNodes empties the accounts of all nodes.
func (l *ledger) loadNodes(views []headrace.NodeView) {
	if l.byID == nil || !l.sameNodes(views) {
		l.nodes = make([]node, len(views))
		l.every = make([]*node, len(views))
		for i := range views {
			l.nodes[i].i, l.nodes[i].id = i, views[i].ID
			l.every[i] = &l.nodes[i]
		}
		l.index()
	}
	l.leastMemory = math.MaxInt64
	for i := range l.nodes {
		l.nodes[i].reset(l, &views[i])
		l.leastMemory = min(l.leastMemory, views[i].Memory)
	}
}

func (l *ledger) sameNodes(views []headrace.NodeView) bool {
	if len(views) != len(l.nodes) {
		return false
	}
	for i := range views {
		if views[i].ID != l.nodes[i].id {
			return false
		}
	}
	return true
}

// index lists the nodes by their names.
func (l *ledger) index() {
	l.byID = make(map[headrace.NodeID]*node, len(l.nodes))
	for _, n := range l.every {
		l.byID[n.id] = n
	}
	size := 64
	for size < 4*len(l.nodes) {
		size *= 2
	}
	l.recent = make([]*node, size)
}

// nodeOf is the node of that name, or nil. A table of those that were asked for
// last saves most of the look-ups; names of nodes tend to differ in their last
// letters.
func (l *ledger) nodeOf(id headrace.NodeID) *node {
	h := uint(len(id))
	for i := max(0, len(id)-4); i < len(id); i++ {
		h = h*10 + uint(id[i])
	}
	recent := &l.recent[h&uint(len(l.recent)-1)]
	if *recent != nil && (*recent).id == id {
		return *recent
	}
	n := l.byID[id]
	if n != nil {
		*recent = n
	}
	return n
}

// enrol makes task i of the view one that this decision can do something with.
func (l *ledger) enrol(i int, n *node) *task {
	t := &l.tasks[i]
	*t = task{TaskView: &l.view.Tasks[i], i: i, n: n, paging: l.view.Tasks[i].PagingOut}
	return t
}
