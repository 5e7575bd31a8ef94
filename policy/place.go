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
		d.apply(u, p, u.ID, forTask(u))
		d.reserve(u, p.n)
		d.notePlan(u, p)
		return
	}
	d.block(u, spots)
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
		spots = d.alone(u)
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
	return nil, d.alone(u)
}

// alone is a list of u's own node alone, empty when u could never run there.
func (d *decision) alone(u *task) []*node {
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
		mem := demand(u.TaskView, n.NodeView)
		_, own := d.own(u)
		if n.later.holds(u.CPUs, mem-own) || mem <= 0 && n.later.holds(u.CPUs, 0) {
			return n
		}
	}
	if fresh {
		d.failed.note(u, kindLater)
	}
	return nil
}

// search finds the policy's plan for u, or nil.
func (d *decision) search(u *task, spots []*node) *plan {
	fresh := !begun(u.TaskView)
	if fresh && d.failed.covers(u, kindPlan) {
		return nil
	}
	if fresh || len(spots) > 1 {
		if d.c.Attempts > 0 && d.attempts >= d.c.Attempts {
			return nil
		}
		d.attempts++
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
	if d.donate(u, spots) {
		return
	}
	if !slices.ContainsFunc(spots, func(n *node) bool { return possible(u, n) }) {
		d.note(u, "%s", d.nowhere(u))
		return
	}
	d.note(u, "waits for room")
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
	best.kept = u
	d.reserve(u, best)
}

// donate lets a task that comes before u, and cannot preempt because it owes its
// place to ageing, use u's priority: u makes room for it and follows when its
// turn comes.
func (d *decision) donate(u *task, spots []*node) bool {
	for _, n := range spots {
		t := n.kept
		if t == nil || t.Priority >= u.Priority || n.lowest >= u.Priority {
			continue
		}
		d.release(t, n)
		mine, eff := t.TaskView, t.eff
		lent := *mine
		lent.Priority = u.Priority
		t.TaskView, t.eff = &lent, max(eff, u.eff)
		p := d.planFor(t, []*node{n})
		t.TaskView, t.eff = mine, eff
		if p != nil {
			n.kept = nil
			d.apply(t, p, u.ID, fmt.Sprintf("makes room for %s, which has waited longer than %s and goes first", t.ID, u.ID))
			d.note(u, "waits for %s, which has waited longer", t.ID)
		}
		d.reserve(t, n)
		if p != nil {
			return true
		}
	}
	return false
}

// release undoes reserve.
func (d *decision) release(t *task, n *node) {
	t.settled = false
	mem := demand(t.TaskView, n.NodeView)
	now, later := d.own(t)
	n.now.take(-t.CPUs, now-mem)
	n.later.take(-t.CPUs, later-mem)
	if t.State == headrace.Suspended {
		n.pageable += t.pageable()
	}
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
		o.Reason = "there is room"
	}
	if u.eff > u.Priority {
		o.Reason += fmt.Sprintf("; by waiting it has risen from %s to %s", u.Priority, u.eff)
	}
	d.reserve(u, n)
	d.emit(o, u)
}
