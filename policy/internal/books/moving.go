package books

import (
	"cmp"
	"slices"

	"headrace"
)

// moving is a task that leaves for another node, where room is kept for it.
type moving struct {
	*headrace.TaskView
	to, from *Node // from is nil when it is not in the view
}

// move lists t if it leaves its node n for another one.
func (l *Ledger) move(t *headrace.TaskView, n *Node) {
	if !t.Leaving || t.State != headrace.Suspended || t.Room == "" || t.Room == t.Node {
		return
	}
	if to := l.NodeOf(t.Room); to != nil {
		l.moving = append(l.moving, moving{t, to, n})
	}
}

// urgentFirst puts those that move in the order in which Expect takes them.
func (l *Ledger) urgentFirst() {
	slices.SortStableFunc(l.moving, func(a, b moving) int { return cmp.Compare(b.Priority, a.Priority) })
	l.expected = 0
}

// Expect keeps room for tasks of a priority or a higher one that are on their way to another node, and
// calls changed for each such node. It is to be called before one of that priority is served: room is not
// kept from who is more urgent. To write a task may take long, and nobody runs there who could
// leave.
func (l *Ledger) Expect(from headrace.Priority, changed func(*Node)) {
	for ; l.expected < len(l.moving) && l.moving[l.expected].Priority >= from; l.expected++ {
		t := &l.moving[l.expected]
		t.expect()
		changed(t.to)
	}
}

// expect gives t its room where it is on its way to, if that is still there.
func (t *moving) expect() {
	n := t.to
	if !n.Later.Holds(t.CPUs, Demand(t.TaskView, n.NodeView)) || !holds(n.counted.later, n.of.needOf(t.TaskView)) {
		return
	}
	n.Expect(t.TaskView)
	if t.LeavingBy != headrace.Checkpoint || t.from == nil {
		return
	}
	// In which store it is written is not known: that of its last checkpoint, else the first.
	name := ""
	if t.Checkpoint != nil {
		name = t.Checkpoint.Store
	}
	if s := t.from.StoreFor(name); s != nil {
		n.Fetch(t.TaskView, s.Name, ImageBytes(t.TaskView, s.StoreView))
	}
}
