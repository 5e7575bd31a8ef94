package sim

import (
	"fmt"

	"headrace"
)

// decide asks the policy and carries out what it orders.
func (e *engine) decide() error {
	e.refresh()
	orders := e.planner.Decide(&e.view)
	if e.c.Observe != nil {
		e.c.Observe(e.now, &e.view, orders)
	}
	e.decided, e.changed = e.now, false
	e.r.Counts.Decisions++
	if len(orders) == 0 && len(e.queue.heap) == 0 && e.next == len(e.w.Tasks) {
		e.stuck++
	} else {
		e.stuck = 0
	}
	for i := range orders {
		if err := e.carryOut(&orders[i]); err != nil {
			return err
		}
	}
	if e.c.Check {
		return e.verify()
	}
	return nil
}

// refresh brings the view up to date.
func (e *engine) refresh() {
	for i := range e.nodes {
		e.refreshNode(&e.nodes[i])
	}
	for _, t := range e.order {
		if t != nil {
			t.refresh(e.now, e.c.KnowShare)
		}
	}
}

// carryOut does what o says.
func (e *engine) carryOut(o *headrace.Order) error {
	t := e.byTask[o.Task]
	if t == nil {
		return fmt.Errorf("sim: at %v the policy orders %s of %s, which is not there", e.now, o.Verb, o.Task)
	}
	n := e.byNode[o.Node]
	if n == nil {
		return fmt.Errorf("sim: at %v the policy orders %s of %s on %q, which is no node", e.now, o.Verb, o.Task, o.Node)
	}
	if why := t.refuses(o, n); why != "" {
		return fmt.Errorf("sim: at %v the policy orders %s of %s on %s: %s", e.now, o.Verb, o.Task, o.Node, why)
	}
	if o.For != "" {
		if u := e.byTask[o.For]; u != nil {
			u.v.Room = o.Node
		}
	}
	switch o.Verb {
	case headrace.OrderStart:
		e.start(t, n)
	case headrace.OrderResume:
		e.resume(t)
	case headrace.OrderRestore:
		e.restore(t, n)
	case headrace.OrderPageOut:
		t.v.PagingOut += o.PageOut
		e.pageOut(t, o.PageOut)
	case headrace.OrderPreempt:
		e.preempt(t, o)
	}
	return nil
}

// refuses says why o cannot be carried out, which would be a bug of the policy.
func (t *task) refuses(o *headrace.Order, n *node) string {
	v := t.v
	switch {
	case v.Starting || v.Leaving:
		return "it is on its way"
	case o.Verb == headrace.OrderStart && v.State != headrace.Pending,
		o.Verb == headrace.OrderResume && (v.State != headrace.Suspended || t.node != n),
		o.Verb == headrace.OrderRestore && (v.Checkpoint == nil || v.State != headrace.Checkpointed && v.State != headrace.Pending),
		o.Verb == headrace.OrderPageOut && v.State != headrace.Suspended,
		o.Verb == headrace.OrderPreempt && (t.node != n || v.State != headrace.Running && (v.State != headrace.Suspended || o.Mechanism != headrace.Checkpoint)):
		return "it is " + v.State.String()
	}
	return ""
}
