package policy

import (
	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/victims"
	"headrace/policy/internal/words"
)

// apply enters in the accounts what the plan does to make room for u, and emits the
// orders, with the beginning of a reason. A plan that waits has no orders, but what it
// counts on is spoken for.
func (p *Planner) apply(u *books.Task, way *victims.Plan, why string) {
	n := way.Node
	outs, waits := n.Allot(u, way.Acts, way.Page), way.Waits()
	for _, a := range way.Acts {
		n.Credit(a)
		p.creditRest(a, waits)
	}
	for _, o := range outs {
		n.PageOut(o)
	}
	p.fleet.Touch(n)
	p.fleet.RoomMade()
	if waits {
		return
	}
	for _, a := range way.Acts {
		p.orderRest(a, n)
	}
	acts, outs := split(way.Acts, outs)
	for _, a := range acts {
		p.emit(p.preempt(u, way, a, outs, why), a.Task)
	}
	for _, o := range outs {
		p.pageOut(u, n, o, why)
	}
}

// preempt returns the order for one act of the plan, to which the page-outs outs belong.
func (p *Planner) preempt(u *books.Task, way *victims.Plan, a books.Act, outs []books.Out, why string) headrace.Order {
	o := headrace.Order{
		Verb: headrace.OrderPreempt, Task: a.Task.ID, Node: way.Node.ID, Mechanism: a.By, For: u.ID,
		Delay: words.Seconds(way.Cost.Delay), Waste: words.Seconds(p.model.Of(way.Node, a).Waste),
	}
	switch a.By {
	case headrace.Checkpoint:
		o.Store = way.Node.Stores[a.Store].Name
	case headrace.Suspend:
		for _, out := range outs {
			if out.Task == a.Task {
				o.PageOut = out.Bytes
				o.Waste += words.Seconds(p.model.Paging(way.Node, out.Bytes).Waste)
			}
		}
	}
	o.Reason = why + p.because(u, way, a)
	if p.fleet.Slots.Gains(way.Node) {
		o.Reason += p.fleet.Attraction(u, way.Node) + " there"
	}
	return o
}

// pageOut orders a page-out, unless it is part of the order that suspends the task.
func (p *Planner) pageOut(u *books.Task, n *books.Node, o books.Out, why string) {
	if o.Task.Settled {
		return
	}
	price := p.model.Paging(n, o.Bytes)
	if o.Task.Order > 0 {
		old := &p.orders[o.Task.Order-1]
		old.PageOut += o.Bytes
		old.Waste += words.Seconds(price.Waste)
		return
	}
	p.emit(headrace.Order{
		Verb: headrace.OrderPageOut, Task: o.Task.ID, Node: n.ID, PageOut: o.Bytes, For: u.ID,
		Delay: words.Seconds(price.Delay), Waste: words.Seconds(price.Waste), Reason: why,
	}, o.Task)
}

func (p *Planner) emit(o headrace.Order, t *books.Task) {
	p.orders = append(p.orders, o)
	t.Order = len(p.orders)
}
