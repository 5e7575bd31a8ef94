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
	kept     bool
}

// move lists t if it leaves its node n for another one.
func (l *Ledger) move(t *headrace.TaskView, n *Node) {
	if !t.Leaving || t.State != headrace.Suspended || t.Room == "" || t.Room == t.Node {
		return
	}
	if to := l.NodeOf(t.Room); to != nil {
		l.moving = append(l.moving, moving{TaskView: t, to: to, from: n})
	}
}

// urgentFirst puts those that move in the order in which Expect takes them.
func (l *Ledger) urgentFirst() {
	slices.SortStableFunc(l.moving, func(a, b moving) int { return cmp.Compare(b.Priority, a.Priority) })
	l.expected = 0
}

// Expect keeps room for tasks of a priority or a higher one that are on their way to another node, and
// calls changed for each such node. It is to be called before one of that priority is served: room is not
// kept from who is more urgent (see Yield). To write a task may take long, and nobody runs there who could
// leave.
func (l *Ledger) Expect(from headrace.Priority, changed func(*Node)) {
	for ; l.expected < len(l.moving) && l.moving[l.expected].Priority >= from; l.expected++ {
		t := &l.moving[l.expected]
		t.expect()
		changed(t.to)
	}
}

// Yield takes room back that is kept for who moves, where u, which is more urgent, fits then, and returns the node; nil:
// there is none. It was kept already if somebody less urgent stands before u by what it has waited.
func (l *Ledger) Yield(u *Task, may func(*Node) bool) (n *Node) {
	var taken []*moving
	for i := l.expected - 1; i >= 0 && n == nil && l.moving[i].Priority < u.Priority; i-- {
		t := &l.moving[i]
		if !t.kept || !may(t.to) {
			continue
		}
		Release(t.to, t.TaskView)
		taken = append(taken, t)
		if t.to.Fits(u) {
			n = t.to
		}
	}
	for _, t := range taken {
		if t.kept = t.to != n; t.kept {
			t.to.Expect(t.TaskView)
		}
	}
	return n
}

// expect gives t its room where it is on its way to, if that is still there.
func (t *moving) expect() {
	n := t.to
	if !n.Later.Holds(t.CPUs, Demand(t.TaskView, n.NodeView)) || !holds(n.counted.later, n.of.needOf(t.TaskView)) {
		return
	}
	n.Expect(t.TaskView)
	t.kept = true
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
