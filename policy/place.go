package policy

import (
	"fmt"
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
}

// place decides about one waiting task: start it, let it wait for room that is on
// its way, make room, or keep room.
func (d *decision) place(u *task) {
	if u.order > 0 || u.settled {
		d.note(u, "its memory is needed by a more urgent task")
		return
	}
	now, spots := d.spots(u)
	if now != nil {
		d.begin(u, now)
		return
	}
	if len(spots) == 0 {
		d.note(u, "%s", d.nowhere(u))
		return
	}
	if n := d.fitsLater(u, spots); n != nil {
		d.reserve(u, n)
		d.note(u, "room is being made on %s", n.ID)
		return
	}
	if p := d.search(u, spots); p != nil {
		if p.waits() {
			d.await(u, p)
		} else {
			d.apply(u, p, forTask(u))
			d.reserve(u, p.n)
		}
		d.notePlan(u, p)
		return
	}
	d.block(u, spots)
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
}

// spots finds the node on which u can start at once, or else the nodes on which
// it may wait for room, preferred ones first.
func (d *decision) spots(u *task) (now *node, spots []*node) {
	switch {
	case u.State == headrace.Suspended:
		return d.local(u)
	case restorable(u.TaskView):
		n, stay := d.algorithm2(u)
		if n != nil || u.n == nil {
			return n, nil
		}
		spots = d.atHome(u)
		if !stay {
			spots = append(spots, d.remotes(u)...)
		}
		return nil, spots
	}
	if d.failed.covers(u, kindNow) {
		return nil, d.all()
	}
	for i := range d.nodes {
		if n := &d.nodes[i]; d.fits(u, n) {
			return n, nil
		}
	}
	d.failed.note(u, kindNow)
	return nil, d.all()
}

func (d *decision) local(u *task) (now *node, spots []*node) {
	if u.n == nil {
		return nil, nil
	}
	if d.fits(u, u.n) {
		return u.n, nil
	}
	return nil, d.atHome(u)
}

// atHome is a list of u's own node alone, empty when u could never run there.
func (d *decision) atHome(u *task) []*node {
	if !possible(u, u.n) {
		return nil
	}
	return []*node{u.n}
}

// remotes are the other nodes to which u's checkpoint could be moved.
func (d *decision) remotes(u *task) []*node {
	var far []*node
	for i := range d.nodes {
		n := &d.nodes[i]
		if _, ok := remoteOverhead(u, n); ok && n != u.n && possible(u, n) {
			far = append(far, n)
		}
	}
	return far
}

// all is every node, built once.
func (d *decision) all() []*node {
	if d.every == nil {
		d.every = make([]*node, len(d.nodes))
		for i := range d.nodes {
			d.every[i] = &d.nodes[i]
		}
	}
	return d.every
}

// fitsLater is the first node on which u fits once those that are leaving now are
// gone.
func (d *decision) fitsLater(u *task, spots []*node) *node {
	fresh := !begun(u.TaskView)
	if fresh && d.failed.covers(u, kindLater) {
		return nil
	}
	for _, n := range spots {
		if d.laterHolds(u, n) {
			return n
		}
	}
	if fresh {
		d.failed.note(u, kindLater)
	}
	return nil
}

func (d *decision) laterHolds(u *task, n *node) bool {
	mem := demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.later.holds(u.CPUs, 0)
	}
	_, own := d.own(u)
	return n.later.holds(u.CPUs, mem-own)
}

// search finds the policy's plan for u, or nil.
func (d *decision) search(u *task, spots []*node) *plan {
	fresh := !begun(u.TaskView)
	if fresh && d.failed.covers(u, kindPlan) {
		return nil
	}
	if fresh || len(spots) > 1 {
		if d.attempts++; d.c.Attempts > 0 && d.attempts > d.c.Attempts {
			return nil
		}
	}
	p := d.planFor(u, d.promising(u, spots))
	if p == nil && fresh {
		d.failed.note(u, kindPlan)
	}
	return p
}

// promising are the spots on which there is anything that could make room.
func (d *decision) promising(u *task, spots []*node) []*node {
	d.maybe = d.maybe[:0]
	for _, n := range spots {
		if !possible(u, n) {
			continue
		}
		if n.lowest < u.Priority || n.pageable > 0 || d.c.Policy == Cost && len(n.running) > 0 {
			d.maybe = append(d.maybe, n)
		}
	}
	return d.maybe
}

// planFor is the policy's plan for u on one of the nodes, or nil.
func (d *decision) planFor(u *task, nodes []*node) *plan {
	if d.c.Policy == Cost {
		return d.cheapest(u, nodes)
	}
	var best *plan
	for _, n := range nodes {
		if p := d.named(u, n); p != nil && (best == nil || p.sooner(best)) {
			best = p
		}
	}
	return best
}

// block keeps what is free for u on the node where the least is missing, so that
// smaller tasks behind it do not eat it up for ever: for one task that can go
// anywhere, and for one on each node that cannot. What is missing there can only
// become less, so that the choice is stable.
func (d *decision) block(u *task, spots []*node) {
	if !slices.ContainsFunc(spots, func(n *node) bool { return possible(u, n) }) {
		d.note(u, "%s", d.nowhere(u))
		return
	}
	d.noteRefusal(u, spots)
	anywhere := u.State != headrace.Suspended && len(spots) > 1
	if anywhere && d.keeping {
		return
	}
	var best *node
	var least float64
	for _, n := range spots {
		if n.kept != nil || !possible(u, n) {
			continue
		}
		if m := d.missing(u, n); best == nil || m < least {
			best, least = n, m
		}
	}
	if best == nil {
		return
	}
	d.keeping = d.keeping || anywhere
	d.keep(u, best)
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
}

// clamp is what of a need can be met from what is free.
func clamp[T int64 | float64](need, free T) T { return max(0, min(need, free)) }

// redeem gives u the room that was made for it by earlier orders, before anybody
// else is served, and reports whether that room is still there.
func (d *decision) redeem(u *task) bool {
	n := d.byID[u.Room]
	if n == nil || u.order > 0 || !d.may(u, n) {
		return false
	}
	switch {
	case d.fits(u, n):
		d.begin(u, n)
		return true
	case d.laterHolds(u, n):
		d.reserve(u, n)
		d.note(u, "room is being made on %s", n.ID)
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
		o.Reason = "there is room" + u.inMemory()
	}
	if u.eff > u.Priority {
		o.Reason += fmt.Sprintf("; by waiting it has risen from %s to %s", u.Priority, u.eff)
	}
	d.reserve(u, n)
	d.emit(o, u)
}
