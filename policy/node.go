package policy

import (
	"math"
	"slices"

	"headrace"
)

// node is a node of the view with its accounts. What is free counts every task
// on it: now, and later, when all that is leaving or being paged out is gone and
// all that this decision gave away is taken.
type node struct {
	*headrace.NodeView
	of         *ledger
	i          int
	id         headrace.NodeID
	now, later room
	// swap is what may still be ordered out; pageable what suspended tasks have;
	// swapped what all tasks have there.
	swap, pageable, swapped int64
	stores                  []store
	// lowest is the least priority among running and suspended tasks that are
	// not held; above MaxPriority when there are none.
	lowest headrace.Priority
	// first and last are the tasks that may be preempted as far as their state goes,
	// chained by ledger.next; -1 when there are none.
	first, last int32
	// running is the same tasks once opened, of which whoever looks for victims has
	// sorted so many; suspended are those whose memory may be paged out.
	running, suspended []*task
	sorted             int
	opened, linedUp    bool
	shares             bool // some of running say how much of them is done
	// kept is a task that nothing can be done for yet: what is free is kept for it.
	kept *task
}

// store is a store with what this decision has added to its queue.
type store struct {
	*headrace.StoreView
	queue float64 // seconds
	free  int64
}

// reset empties the accounts and keeps the memory of the lists.
func (n *node) reset(l *ledger, v *headrace.NodeView) {
	*n = node{
		NodeView: v, of: l, i: n.i, id: n.id, lowest: headrace.MaxPriority + 1, first: -1, last: -1,
		now: room{v.CPUs, v.Memory}, later: room{v.CPUs, v.Memory},
		stores: n.stores[:0], running: n.running[:0], suspended: n.suspended[:0],
	}
	for j := range v.Stores {
		s := &v.Stores[j]
		n.stores = append(n.stores, store{s, s.Queue.Seconds(), s.Free})
	}
}

// account enters what task i of the view holds on n.
func (n *node) account(i int, t *headrace.TaskView) {
	n.swapped += t.Swapped
	n.swap -= t.PagingOut
	switch {
	case t.State.Final():
	case t.Starting:
		mem := demand(t, n.NodeView)
		n.now.take(t.CPUs, mem)
		n.later.take(t.CPUs, mem)
	case t.State == headrace.Running:
		mem := held(t)
		n.now.take(t.CPUs, mem)
		if t.Leaving {
			n.later.take(0, residue(t))
			break
		}
		n.later.take(t.CPUs, mem)
		if !t.Held {
			n.chain(i)
			n.lowest = min(n.lowest, t.Priority)
		}
	case t.State == headrace.Suspended && t.Leaving:
		n.now.take(0, t.Resident)
		n.later.take(0, residue(t))
	case t.State == headrace.Suspended:
		n.now.take(0, t.Resident-n.onTheWay(t))
		n.later.take(0, t.Resident-t.PagingOut)
		n.suspended = append(n.suspended, &n.of.tasks[i])
		n.pageable += n.of.tasks[i].pageable()
		if !t.Held {
			n.lowest = min(n.lowest, t.Priority)
		}
	}
}

// chain adds task i to those that run on n and may be preempted as far as their
// state goes.
func (n *node) chain(i int) {
	n.of.next[i] = -1
	if n.last < 0 {
		n.first = int32(i)
	} else {
		n.of.next[n.last] = int32(i)
	}
	n.last = int32(i)
}

// balanceSwap makes n.swap what may still be ordered out, when all tasks have been
// entered; until then it is what was ordered out and is not there yet, as a negative
// number.
func (n *node) balanceSwap() {
	if n.SwapOut <= 0 || n.SwapIn <= 0 {
		n.swap = 0
		return
	}
	n.swap += n.SwapFree - int64(math.Ceil(n.of.reserve*float64(n.SwapFree+n.swapped)))
}

// open makes the tasks known that run on n.
func (n *node) open() {
	if n.opened {
		return
	}
	n.opened = true
	for i := n.first; i >= 0; i = n.of.next[i] {
		t := n.of.enrol(int(i), n)
		n.of.meet(t)
		n.shares = n.shares || t.share
		n.running = append(n.running, t)
	}
}

// lineUp sorts the suspended tasks of n so that those come first whose memory will
// be needed last.
func (n *node) lineUp() {
	if !n.linedUp {
		n.linedUp = true
		slices.SortFunc(n.suspended, lastToReturn)
	}
}

// onTheWay is how much of the memory of the suspended task t counts as free for a
// start though it is still on its way to swap: all of it, once no more than the
// share overlap of what goes is still to go.
func (n *node) onTheWay(t *headrace.TaskView) int64 {
	if float64(t.PagingOut) <= n.of.overlap*float64(t.PagingOut+t.Swapped) {
		return t.PagingOut
	}
	return 0
}

// own is what the suspended task u already holds on its node, as it is counted
// in now and in later. Other waiting tasks hold nothing.
func (n *node) own(u *task) (now, later int64) {
	if u.State != headrace.Suspended {
		return 0, 0
	}
	return u.Resident - n.onTheWay(u.TaskView), u.Resident - u.paging
}

// possible reports whether u could be on n if n were empty.
func (n *node) possible(u *task) bool {
	return u.CPUs <= n.CPUs+slack && demand(u.TaskView, n.NodeView) <= max(0, n.Memory)
}

// fits reports whether u can be started on n at once.
func (n *node) fits(u *task) bool {
	own, later := n.own(u)
	if n != u.n {
		own, later = 0, 0
	}
	mem := demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.now.holds(u.CPUs, 0) && n.later.holds(u.CPUs, 0)
	}
	return n.now.holds(u.CPUs, mem-own) && n.later.holds(u.CPUs, mem-later)
}

// fitsLater reports whether u can be started on n once those that are leaving are gone.
func (n *node) fitsLater(u *task) bool {
	mem := demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.later.holds(u.CPUs, 0)
	}
	_, own := n.own(u)
	return n.later.holds(u.CPUs, mem-own)
}

// mayFit reports whether u will fit on n once all that runs there has ended. If not,
// suspended tasks hold what is missing and have to run first: to keep room from them
// would have both wait for ever.
func (n *node) mayFit(u *task) bool {
	b := n.balance(u)
	if b.fits(n.swap) {
		return true
	}
	n.open()
	for _, t := range n.running {
		if !t.settled {
			b = b.with(act{t, headrace.Wait, -1})
		}
	}
	return b.fits(n.swap)
}

// missing is how much is missing on n for u, as a share of what u needs.
func (n *node) missing(u *task) float64 {
	b := n.balance(u)
	var m float64
	if u.CPUs > 0 {
		m += max(0, b.cpus) / u.CPUs
	}
	if mem := demand(u.TaskView, n.NodeView); mem > 0 {
		m += float64(b.short(n.swap)) / float64(mem)
	}
	return m
}

// reserve gives u its room on n.
func (n *node) reserve(u *task) {
	mem := demand(u.TaskView, n.NodeView)
	now, later := n.own(u)
	n.now.take(u.CPUs, mem-now)
	n.later.take(u.CPUs, mem-later)
	n.settle(u)
}

// keep sets aside for u what is free on n, as far as u needs it.
func (n *node) keep(u *task) {
	mem := demand(u.TaskView, n.NodeView)
	now, later := n.own(u)
	n.now.take(clamp(u.CPUs, n.now.cpus), clamp(mem-now, n.now.mem))
	n.later.take(clamp(u.CPUs, n.later.cpus), clamp(mem-later, n.later.mem))
	n.settle(u)
	n.kept = u
}

// clamp is what of a need can be met from what is free.
func clamp[T int64 | float64](need, free T) T { return max(0, min(need, free)) }

// settle takes note that this decision has dealt with u, which waited.
func (n *node) settle(u *task) {
	if u.State == headrace.Suspended {
		n.pageable -= u.pageable()
	}
	u.settled = true
}

// credit enters what a frees on n.
func (n *node) credit(a act) {
	t := a.t
	after := balance{}.with(a)
	n.later.take(after.cpus, after.mem)
	if t.State == headrace.Suspended {
		n.pageable -= t.pageable()
	}
	t.settled = true
	if a.mech == headrace.Checkpoint {
		s := &n.stores[a.store]
		s.queue += dump(t.TaskView, s.StoreView)
		s.free -= dumpBytes(t.TaskView, s.StoreView)
	}
}

// pageOut enters that o goes to swap.
func (n *node) pageOut(o out) {
	n.swap -= o.bytes
	n.later.mem += o.bytes
	o.t.paging += o.bytes
	if o.t.State == headrace.Suspended {
		n.pageable -= o.bytes
	}
}

// forgo gives up what is free beyond the given rooms of before: nobody counts on it.
func (n *node) forgo(now, later room) {
	more := room{min(0, n.later.cpus-later.cpus), min(0, n.later.mem-later.mem)}
	n.now = room{now.cpus + more.cpus, now.mem + more.mem}
	n.later = room{later.cpus + more.cpus, later.mem + more.mem}
}
