package policy

import (
	"slices"

	"headrace"
)

// fits reports whether u can be started on n at once.
func (d *decision) fits(u *task, n *node) bool {
	own, later := d.own(u)
	if n != u.n {
		own, later = 0, 0
	}
	mem := demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.now.holds(u.CPUs, 0) && n.later.holds(u.CPUs, 0)
	}
	return n.now.holds(u.CPUs, mem-own) && n.later.holds(u.CPUs, mem-later)
}

// possible reports whether u could be on n if n were empty.
func possible(u *task, n *node) bool {
	return u.CPUs <= n.CPUs+slack && demand(u.TaskView, n.NodeView) <= max(0, n.Memory)
}

// reserve gives u its room on n.
func (d *decision) reserve(u *task, n *node) {
	mem := demand(u.TaskView, n.NodeView)
	now, later := d.own(u)
	n.now.take(u.CPUs, mem-now)
	n.later.take(u.CPUs, mem-later)
	if u.State == headrace.Suspended {
		n.pageable -= u.pageable()
	}
	u.settled = true
	d.touch(n)
}

// place decides about one waiting task: start it, let it wait for room that is on
// its way, make room, or keep room.
func (d *decision) place(u *task) {
	if u.order > 0 || u.settled {
		d.note(u, "its memory is needed by a more urgent task")
		return
	}
	now, s := d.spots(u)
	if now != nil {
		d.begin(u, now)
		return
	}
	if d.none(u, s) {
		d.noteNowhere(u)
		return
	}
	if n := d.fitsLater(u, s); n != nil {
		d.reserve(u, n)
		d.note(u, "room is being made on ", string(n.ID))
		return
	}
	if p := d.search(u, s); p != nil {
		if p.waits() {
			d.await(u, p)
		} else {
			d.apply(u, p, forTask(u))
			d.reserve(u, p.n)
		}
		d.notePlan(u, p)
		return
	}
	d.block(u, s)
}

// await lets u wait for its plan. What the plan will free and what it would page
// out are spoken for, and so is what of u's need goes beyond; but nobody counts on
// what may be left over some day.
func (d *decision) await(u *task, p *plan) {
	n := p.n
	now, later := n.now, n.later
	d.apply(u, p, "")
	d.reserve(u, n)
	more := room{min(0, n.later.cpus-later.cpus), min(0, n.later.mem-later.mem)}
	n.now = room{now.cpus + more.cpus, now.mem + more.mem}
	n.later = room{later.cpus + more.cpus, later.mem + more.mem}
	d.touch(n)
}

// search finds the policy's plan for u, or nil.
func (d *decision) search(u *task, s spots) *plan {
	fresh := !begun(u.TaskView)
	if fresh && d.fails(u, kindPlan) {
		return nil
	}
	if fresh || d.severalSpots(u, s) {
		if d.attempts++; d.c.attempts > 0 && d.attempts > d.c.attempts {
			return nil
		}
	}
	p := d.planFor(u, s)
	if p == nil && fresh {
		d.failed.note(u, kindPlan)
	}
	return p
}

// block keeps what is free for u on the node where the least is missing, so that
// smaller tasks behind it do not eat it up for ever: for one task that can go
// anywhere, and for one on each node that cannot. What is missing there can only
// become less, so that the choice is stable.
func (d *decision) block(u *task, s spots) {
	anywhere := u.State != headrace.Suspended && d.severalSpots(u, s)
	if anywhere && d.keeping && !d.explain {
		return
	}
	spots := d.list(u, s)
	if !slices.ContainsFunc(spots, func(n *node) bool { return possible(u, n) }) {
		d.noteNowhere(u)
		return
	}
	d.noteRefusal(u, s)
	if anywhere && d.keeping {
		return
	}
	var best *node
	var least float64
	for _, n := range spots {
		if n.kept != nil || !possible(u, n) {
			continue
		}
		if m := d.missing(u, n); (best == nil || m < least) && d.mayFit(u, n) {
			best, least = n, m
		}
	}
	if best == nil {
		return
	}
	d.keeping = d.keeping || anywhere
	d.keep(u, best)
}

// mayFit reports whether u will fit on n once all that runs there has ended. If not,
// suspended tasks hold what is missing and have to run first: to keep room from them
// would have both wait for ever.
func (d *decision) mayFit(u *task, n *node) bool {
	b := d.balance(u, n)
	if b.fits(n.swap) {
		return true
	}
	d.open(n)
	for _, t := range n.running {
		if !t.settled {
			b = b.with(act{t, headrace.Wait, -1})
		}
	}
	return b.fits(n.swap)
}

// keep sets aside for u what is free on n, as far as u needs it.
func (d *decision) keep(u *task, n *node) {
	mem := demand(u.TaskView, n.NodeView)
	now, later := d.own(u)
	n.now.take(clamp(u.CPUs, n.now.cpus), clamp(mem-now, n.now.mem))
	n.later.take(clamp(u.CPUs, n.later.cpus), clamp(mem-later, n.later.mem))
	if u.State == headrace.Suspended {
		n.pageable -= u.pageable()
	}
	u.settled = true
	n.kept = u
	d.touch(n)
}

// clamp is what of a need can be met from what is free.
func clamp[T int64 | float64](need, free T) T { return max(0, min(need, free)) }

// redeem gives u the room that was made for it by earlier orders, before anybody
// else is served, and reports whether that room is still there.
func (d *decision) redeem(u *task) bool {
	n := d.nodeOf(u.Room)
	if n == nil || u.order > 0 || !d.may(u, n) {
		return false
	}
	switch {
	case d.fits(u, n):
		d.begin(u, n)
		return true
	case d.laterHolds(u, n):
		d.reserve(u, n)
		d.note(u, "room is being made on ", string(n.ID))
		return true
	}
	return false
}

// may reports whether u can be brought to run on n at all.
func (d *decision) may(u *task, n *node) bool {
	switch {
	case u.State == headrace.Suspended:
		return u.n == n
	case restorable(u.TaskView) && u.n != n:
		if u.n == nil {
			return false
		}
		_, ok := remoteOverhead(u, n)
		return ok
	}
	return true
}

// begin orders u to run on n.
func (d *decision) begin(u *task, n *node) {
	o := headrace.Order{Task: u.ID, Node: n.ID}
	switch {
	case u.State == headrace.Suspended:
		o.Verb = headrace.OrderResume
		if n.SwapIn > 0 {
			o.Delay = duration(float64(u.Swapped) / n.SwapIn)
		}
		o.Reason = "there is room again"
	case restorable(u.TaskView):
		o.Verb = headrace.OrderRestore
		o.Delay, o.Reason = d.comeBack(u, n)
	default:
		o.Verb = headrace.OrderStart
		attraction := d.attraction(u, n)
		o.Reason = "there is room" + attraction + u.passing(attraction != "")
	}
	if u.eff > u.Priority {
		o.Reason += "; by waiting it has risen from " + u.Priority.String() + " to " + u.eff.String()
	}
	d.reserve(u, n)
	d.emit(o, u)
}
