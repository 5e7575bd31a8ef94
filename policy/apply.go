package policy

import (
	"headrace"
	"headrace/policy/internal/words"
)

// apply enters in the accounts what the plan does to make room for u, and emits the
// orders, with the beginning of a reason. A plan that waits has no orders, but what it
// counts on is spoken for.
func (p *Planner) apply(u *task, way *plan, why string) {
	n := way.n
	outs := n.allot(u, way.acts, way.page)
	for _, a := range way.acts {
		n.credit(a)
	}
	for _, o := range outs {
		n.pageOut(o)
	}
	p.fleet.touch(n)
	p.fleet.roomMade()
	if way.waits() {
		return
	}
	for _, a := range way.acts {
		p.emit(p.preempt(u, way, a, outs, why), a.t)
	}
	for _, o := range outs {
		p.pageOut(u, n, o, why)
	}
}

// preempt is the order for one act of the plan, to which the page-outs outs belong.
func (p *Planner) preempt(u *task, way *plan, a act, outs []out, why string) headrace.Order {
	o := headrace.Order{
		Verb: headrace.OrderPreempt, Task: a.t.ID, Node: way.n.ID, Mechanism: a.mech, For: u.ID,
		Delay: words.Seconds(way.cost.delay), Waste: words.Seconds(p.model.price(way.n, a).waste),
	}
	switch a.mech {
	case headrace.Checkpoint:
		o.Store = way.n.stores[a.store].Name
	case headrace.Suspend:
		for _, out := range outs {
			if out.t == a.t {
				o.PageOut = out.bytes
				o.Waste += words.Seconds(p.model.paging(way.n, out.bytes).waste)
			}
		}
	}
	o.Reason = why + p.because(way, a)
	return o
}

// pageOut orders a page-out, unless it is part of the order that suspends the task.
func (p *Planner) pageOut(u *task, n *node, o out, why string) {
	if o.t.settled {
		return
	}
	price := p.model.paging(n, o.bytes)
	if o.t.order > 0 {
		old := &p.orders[o.t.order-1]
		old.PageOut += o.bytes
		old.Waste += words.Seconds(price.waste)
		return
	}
	p.emit(headrace.Order{
		Verb: headrace.OrderPageOut, Task: o.t.ID, Node: n.ID, PageOut: o.bytes, For: u.ID,
		Delay: words.Seconds(price.delay), Waste: words.Seconds(price.waste), Reason: why,
	}, o.t)
}

func (p *Planner) emit(o headrace.Order, t *task) {
	p.orders = append(p.orders, o)
	t.order = len(p.orders)
}
