package books

import (
	"math"

	"headrace"
)

// Ledger is the books of all nodes of a view. What is kept from one view to the next
// is memory.
type Ledger struct {
	// Reserve is the share of the swap that is never used, Overlap that of a page-out
	// during which the task that it makes room for already runs.
	Reserve, Overlap float64
	// Meet fills in Rank, KnowsShare and Guard of a task that runs, when its node is
	// opened.
	Meet func(*Task)

	view        *headrace.View
	Nodes       []Node
	Every       []*Node // all of them
	byID        map[headrace.NodeID]*Node
	recent      []*Node // see NodeOf
	Tasks       []Task  // of the view; only those enrolled mean anything
	next        []int32 // see Node.first
	Waiting     []*Task // those that wait, in the order of the view
	moving      []moving
	expected    int   // for so many of moving room is kept
	LeastMemory int64 // of all nodes
	gangs       gangs
	trial       trial
	restoring   map[line]restores
	// MostNet and MostRead are the greatest bandwidths of any node and any store.
	MostNet, MostRead float64
	// leastDisk is the least bandwidth of reading inputs that is known of a node; 0: none is.
	leastDisk float64

	outs  []Out   // of Allot
	fresh []*Task // of Allot
}

// Load takes in a view: it enters what all tasks hold in the accounts of their nodes and
// lists those that wait. Of those that run it only keeps where they are: most nodes need
// not be looked at more closely (Node.Open).
func (l *Ledger) Load(v *headrace.View) {
	l.view = v
	l.loadNodes(v.Nodes)
	if cap(l.Tasks) < len(v.Tasks) {
		l.Tasks = make([]Task, len(v.Tasks)*5/4)
		l.next = make([]int32, len(v.Tasks)*5/4)
	}
	l.Tasks = l.Tasks[:len(v.Tasks)]
	l.Waiting, l.moving = l.Waiting[:0], l.moving[:0]
	if l.restoring == nil {
		l.restoring = map[line]restores{}
	}
	clear(l.restoring)
	l.gangs.forget()
	for i := range v.Tasks {
		t := &v.Tasks[i]
		var n *Node
		if t.Node != "" {
			n = l.NodeOf(t.Node)
		}
		queued := Waiting(t)
		if queued || t.State == headrace.Suspended {
			l.Enrol(i, n)
		}
		if queued {
			l.Waiting = append(l.Waiting, &l.Tasks[i])
		}
		if t.Gang != 0 {
			if g := l.gangs.add(t.Gang, i); queued {
				l.Tasks[i].Whole = g
				g.Waiting = append(g.Waiting, &l.Tasks[i])
			}
		}
		if n != nil {
			n.account(i, t)
		}
		l.move(t, n)
	}
	l.urgentFirst()
	l.settleGangs()
	for i := range l.Nodes {
		l.Nodes[i].balanceSwap()
	}
}

// loadNodes empties the accounts of all nodes.
func (l *Ledger) loadNodes(views []headrace.NodeView) {
	if l.byID == nil || !l.sameNodes(views) {
		l.Nodes = make([]Node, len(views))
		l.Every = make([]*Node, len(views))
		for i := range views {
			l.Nodes[i].Index, l.Nodes[i].name = i, views[i].ID
			l.Every[i] = &l.Nodes[i]
		}
		l.index()
	}
	l.LeastMemory, l.MostNet, l.MostRead, l.leastDisk = math.MaxInt64, 0, 0, 0
	for i := range l.Nodes {
		v := &views[i]
		l.Nodes[i].reset(l, v)
		l.LeastMemory, l.MostNet = min(l.LeastMemory, v.Memory), max(l.MostNet, v.Net)
		if v.Disk > 0 && (l.leastDisk == 0 || v.Disk < l.leastDisk) {
			l.leastDisk = v.Disk
		}
		for j := range v.Stores {
			l.MostRead = max(l.MostRead, v.Stores[j].Read)
		}
	}
}

func (l *Ledger) sameNodes(views []headrace.NodeView) bool {
	if len(views) != len(l.Nodes) {
		return false
	}
	for i := range views {
		if views[i].ID != l.Nodes[i].name {
			return false
		}
	}
	return true
}

// index lists the nodes by their names.
func (l *Ledger) index() {
	l.byID = make(map[headrace.NodeID]*Node, len(l.Nodes))
	for _, n := range l.Every {
		l.byID[n.name] = n
	}
	size := 64
	for size < 4*len(l.Nodes) {
		size *= 2
	}
	l.recent = make([]*Node, size)
}

// Node is the node of that name, or nil. A table of those that were asked for
// last saves most of the look-ups; names of nodes tend to differ in their last
// letters.
func (l *Ledger) NodeOf(id headrace.NodeID) *Node {
	h := uint(len(id))
	for i := max(0, len(id)-4); i < len(id); i++ {
		h = h*10 + uint(id[i])
	}
	recent := &l.recent[h&uint(len(l.recent)-1)]
	if *recent != nil && (*recent).name == id {
		return *recent
	}
	n := l.byID[id]
	if n != nil {
		*recent = n
	}
	return n
}

// needOf returns what t needs of each counted resource, nil for nothing.
func (l *Ledger) needOf(t *headrace.TaskView) []float64 {
	if t.Need == 0 {
		return nil
	}
	return l.view.Needs[t.Need-1]
}

// Enrol makes task i of the view one that this decision can do something with.
func (l *Ledger) Enrol(i int, n *Node) *Task {
	t := &l.Tasks[i]
	v := &l.view.Tasks[i]
	*t = Task{TaskView: v, Index: i, Home: n, Paging: v.PagingOut, Counted: l.needOf(v)}
	return t
}
