package policy

import (
	"headrace"
)

// act is one thing that a plan does to one task: a mechanism for a running
// victim, or Checkpoint for a suspended one. store counts only for Checkpoint.
type act struct {
	t     *task
	mech  headrace.Mechanism
	store int
}

// plan is a way of making room for one task on one node.
type plan struct {
	n    *node
	acts []act
	// page is how much memory must go to swap besides.
	page int64
	cost cost
}

// waits reports whether a part of the plan is to wait, so that nothing is to be
// done yet.
func (p *plan) waits() bool {
	for _, a := range p.acts {
		if a.mech == headrace.Wait {
			return true
		}
	}
	return false
}

// balance is what is missing on a node for a task to fit there in the end.
type balance struct {
	cpus float64 // missing CPUs
	mem  int64   // missing bytes
	// pageable is how much of what is missing could come from page-outs, by what
	// suspended tasks hold.
	pageable int64
	// blind: the task needs no more memory than it holds, or has not said how much,
	// so that memory does not keep it out; it does keep victims from being
	// suspended.
	blind bool
}

// balance is what is missing on n for u before anything is done.
func (d *decision) balance(u *task, n *node) balance {
	mem := demand(u.TaskView, n.NodeView)
	_, own := d.own(u)
	b := balance{cpus: u.CPUs - n.later.cpus, mem: mem - own - n.later.mem, pageable: n.pageable, blind: mem <= own}
	if u.State == headrace.Suspended {
		b.pageable -= u.pageable()
	}
	return b
}

// with is the balance after a.
func (b balance) with(a act) balance {
	t := a.t
	switch {
	case t.State == headrace.Suspended:
		b.mem -= t.Resident - t.paging
		b.pageable -= t.pageable()
	case a.mech == headrace.Suspend:
		b.cpus -= t.CPUs
		b.mem -= held(t.TaskView) - t.Resident
		b.pageable += t.pageable()
		b.blind = false
	default:
		b.cpus -= t.CPUs
		b.mem -= held(t.TaskView)
	}
	return b
}

// short is how many bytes are missing even if all that can be is paged out. This
// is the guard: what stays resident and what comes must fit in memory and the
// swap that may be used (os-assisted-preemption, section III.A).
func (b balance) short(swap int64) int64 {
	if b.blind {
		return 0
	}
	return max(0, b.mem-max(0, min(swap, b.pageable)))
}

func (b balance) fits(swap int64) bool { return b.cpus <= slack && b.short(swap) == 0 }

// page is how much has to be paged out.
func (b balance) page() int64 {
	if b.blind {
		return 0
	}
	return max(0, b.mem)
}

// better reports whether b is nearer to fitting than old.
func (b balance) better(old balance, swap int64) bool {
	if old.cpus > slack && b.cpus < old.cpus {
		return true
	}
	return b.short(swap) < old.short(swap)
}

// sum is b after all acts.
func (b balance) sum(acts []act) balance {
	for _, a := range acts {
		b = b.with(a)
	}
	return b
}

// out is a page-out of some of a task's memory.
type out struct {
	t     *task
	bytes int64
}

// allot spreads bytes to be paged out over the suspended tasks of n and those
// that acts suspend, those first that return last. The result is valid until the
// next call.
func (d *decision) allot(u *task, n *node, acts []act, bytes int64) []out {
	d.outs = d.outs[:0]
	if bytes <= 0 {
		return nil
	}
	d.lineUp(n)
	fresh := d.suspending(acts)
	old := n.suspended
	for bytes > 0 && len(old)+len(fresh) > 0 {
		var t *task
		if len(fresh) == 0 || len(old) > 0 && lastToReturn(old[0], fresh[0]) < 0 {
			t, old = old[0], old[1:]
			if t == u || t.settled || checkpointed(acts, t) {
				continue
			}
		} else {
			t, fresh = fresh[0], fresh[1:]
		}
		if some := min(bytes, t.pageable()); some > 0 {
			d.outs = append(d.outs, out{t, some})
			bytes -= some
		}
	}
	return d.outs
}

// suspending lists the tasks that acts suspend, those first that return last.
func (d *decision) suspending(acts []act) []*task {
	d.fresh = d.fresh[:0]
	for _, a := range acts {
		if a.mech != headrace.Suspend {
			continue
		}
		i := len(d.fresh)
		d.fresh = append(d.fresh, a.t)
		for ; i > 0 && lastToReturn(d.fresh[i], d.fresh[i-1]) < 0; i-- {
			d.fresh[i], d.fresh[i-1] = d.fresh[i-1], d.fresh[i]
		}
	}
	return d.fresh
}

func checkpointed(acts []act, t *task) bool {
	for _, a := range acts {
		if a.t == t {
			return true
		}
	}
	return false
}

// apply enters in the accounts what p does to make room for u, and emits the
// orders, with the beginning of a reason. A plan that waits has no orders, but what it counts on is spoken for.
func (d *decision) apply(u *task, p *plan, why string) {
	n := p.n
	outs := d.allot(u, n, p.acts, p.page)
	for _, a := range p.acts {
		d.enter(n, a)
	}
	for _, o := range outs {
		n.swap -= o.bytes
		n.later.mem += o.bytes
		o.t.paging += o.bytes
		if o.t.State == headrace.Suspended {
			n.pageable -= o.bytes
		}
	}
	d.touch(n)
	d.failed.clear()
	if p.waits() {
		return
	}
	for _, a := range p.acts {
		d.emit(d.preempt(u, p, a, why), a.t)
	}
	for _, o := range outs {
		d.pageOut(u, n, o, why)
	}
}

// enter credits n with what a frees.
func (d *decision) enter(n *node, a act) {
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

func (d *decision) preempt(u *task, p *plan, a act, why string) headrace.Order {
	price := d.price(p.n, a)
	o := headrace.Order{
		Verb: headrace.OrderPreempt, Task: a.t.ID, Node: p.n.ID, Mechanism: a.mech, For: u.ID,
		Delay: duration(p.cost.delay), Waste: duration(price.waste),
	}
	switch a.mech {
	case headrace.Checkpoint:
		o.Store = p.n.stores[a.store].Name
	case headrace.Suspend:
		for _, out := range d.outs {
			if out.t == a.t {
				o.PageOut = out.bytes
				o.Waste += duration(d.paging(p.n, out.bytes).waste)
			}
		}
	}
	o.Reason = why + d.because(p, a)
	return o
}

// because says why the policy took this mechanism.
func (d *decision) because(p *plan, a act) string {
	switch {
	case a.t.State == headrace.Suspended:
		return "; its memory is needed and swap has no room for it"
	case d.c.Policy == Suspend && a.mech == headrace.Checkpoint:
		if why := a.t.NoSuspend; why != "" {
			return "; it cannot be suspended: " + why
		}
		return "; checkpoint instead of suspend: memory and swap would not hold all that stays"
	case d.c.Policy == Checkpoint && a.mech == headrace.Suspend:
		return "; suspend instead of checkpoint: " + d.noCheckpoint(a.t)
	case d.c.Policy == Adaptive:
		return d.whyAdaptive(a)
	case d.c.Policy == Cost:
		return "; cheapest: delay " + short(p.cost.delay) + ", waste " + short(p.cost.waste)
	}
	return ""
}

func (d *decision) pageOut(u *task, n *node, o out, why string) {
	if o.t.settled {
		return // part of the order that suspends it
	}
	waste := duration(d.paging(n, o.bytes).waste)
	if o.t.order > 0 {
		old := &d.orders[o.t.order-1]
		old.PageOut += o.bytes
		old.Waste += waste
		return
	}
	order := headrace.Order{
		Verb: headrace.OrderPageOut, Task: o.t.ID, Node: n.ID, PageOut: o.bytes, For: u.ID,
		Delay: duration(d.paging(n, o.bytes).delay), Waste: waste, Reason: why,
	}
	d.emit(order, o.t)
}

func (d *decision) emit(o headrace.Order, t *task) {
	d.orders = append(d.orders, o)
	t.order = len(d.orders)
}

// forTask is the beginning of a reason.
func forTask(u *task) string {
	return "makes room for " + string(u.ID) + " (" + u.Priority.String() + ")"
}
