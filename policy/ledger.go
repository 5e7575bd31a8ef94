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
	tasks       []task  // of the view; only those enrolled mean anything
	next        []int32 // see node.first
	waiting     []*task
	leastMemory int64 // of all nodes

	outs  []out   // of allot
	fresh []*task // of allot
}

// begin opens the books for v, in which nobody has anything yet, and reports whether
// its nodes are others than those before.
func (l *ledger) begin(v *headrace.View) (others bool) {
	l.view = v
	if others = l.every == nil || !l.sameNodes(v.Nodes); others {
		l.nodes = make([]node, len(v.Nodes))
		l.every = make([]*node, len(v.Nodes))
		for i := range v.Nodes {
			l.nodes[i].i, l.nodes[i].id = i, v.Nodes[i].ID
			l.every[i] = &l.nodes[i]
		}
	}
	l.leastMemory = math.MaxInt64
	for i := range l.nodes {
		l.nodes[i].reset(l, &v.Nodes[i])
		l.leastMemory = min(l.leastMemory, v.Nodes[i].Memory)
	}
	if cap(l.tasks) < len(v.Tasks) {
		l.tasks = make([]task, len(v.Tasks)*5/4)
		l.next = make([]int32, len(v.Tasks)*5/4)
	}
	l.tasks = l.tasks[:len(v.Tasks)]
	l.waiting = l.waiting[:0]
	return others
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

// enter enters what task i of the view holds in the accounts of its node, nil when
// that is not there, and lists it if it waits. Of those that run it only keeps where
// they are: most nodes need not be looked at more closely (node.open).
func (l *ledger) enter(i int, n *node) {
	t := &l.view.Tasks[i]
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

// enrol makes task i of the view one that this decision can do something with.
func (l *ledger) enrol(i int, n *node) *task {
	t := &l.tasks[i]
	*t = task{TaskView: &l.view.Tasks[i], i: i, n: n, paging: l.view.Tasks[i].PagingOut}
	return t
}
