package policy

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// Choice is what the policy would do to make room for one task on one node, and
// everything it considered.
type Choice struct {
	// Orders make the room. They are empty when there is room already or will be
	// once those that are leaving now are gone (Fits), when waiting is cheapest or
	// all that the policy allows (Wait), and when nothing makes room (neither).
	Orders     []headrace.Order
	Fits, Wait bool
	// Total is the weighted sum that the policy Cost compares, in seconds.
	Total float64
	// Options are all mechanisms for all tasks on the node that run or are
	// suspended, each on its own.
	Options []Option
}

// Option is one mechanism for one task.
type Option struct {
	Task      headrace.TaskID
	Mechanism headrace.Mechanism
	Store     string // for Checkpoint
	// PageOut is how much memory would go to swap besides, of whatever task.
	PageOut      int64
	Delay, Waste time.Duration
	// Total is the weighted sum for this option alone, in seconds; meaningful
	// unless Refused.
	Total float64
	// Refused says why the option cannot make room on its own; empty: it can.
	Refused string
	// Chosen options are part of the choice.
	Chosen bool
}

// Choose is the part of Decide that makes room for one task on one node. others
// are all other tasks that are there; urgent itself may be among them or not.
func Choose(urgent headrace.TaskView, n headrace.NodeView, others []headrace.TaskView, c Config) Choice {
	tasks := slices.Clone(others)
	at := slices.IndexFunc(tasks, func(t headrace.TaskView) bool { return t.ID == urgent.ID })
	if at < 0 {
		at = len(tasks)
		tasks = append(tasks, urgent)
	}
	tasks[at] = urgent
	p := newPlanner(&headrace.View{Nodes: []headrace.NodeView{n}, Tasks: tasks}, c)
	p.fleet.nodes[0].open()
	u := &p.fleet.tasks[at]
	if u.TaskView == nil {
		p.fleet.enrol(at, p.fleet.nodeOf(urgent.Node))
	}
	u.eff = p.ageing.aged(u.Priority, u.Waiting)
	return p.choose(u, &p.fleet.nodes[0])
}

// newPlanner is a planner that has taken in v.
func newPlanner(v *headrace.View, c Config) *Planner {
	p := NewPlanner(c)
	p.load(v)
	return p
}

func (p *Planner) choose(u *task, n *node) Choice {
	var ch Choice
	if n.fitsLater(u) {
		ch.Fits = true
		return ch
	}
	ch.Options = p.allOptions(u, n)
	way := p.chooser.choose(u, n)
	if way == nil {
		ch.Wait = p.c.Policy == Wait && n.possible(u)
		return ch
	}
	for i := range ch.Options {
		o := &ch.Options[i]
		o.Chosen = slices.ContainsFunc(way.acts, func(a act) bool {
			return a.t.ID == o.Task && a.mech == o.Mechanism && (a.store < 0 || n.stores[a.store].Name == o.Store)
		})
	}
	ch.Total, ch.Wait = way.cost.total, way.waits()
	p.apply(u, way, "makes room for "+string(u.ID)+" ("+u.Priority.String()+")")
	ch.Orders = p.orders
	return ch
}

func (p *Planner) allOptions(u *task, n *node) []Option {
	p.chooser.rank(n)
	var all []Option
	add := func(t *task, m headrace.Mechanism, store int) { all = append(all, p.option(u, act{t, m, store})) }
	for _, t := range slices.Concat(n.running, n.suspended) {
		if t == u {
			continue
		}
		runs := t.State == headrace.Running
		if runs {
			add(t, headrace.Suspend, -1)
		}
		for i := range n.stores {
			add(t, headrace.Checkpoint, i)
		}
		if runs {
			add(t, headrace.Kill, -1)
			add(t, headrace.Wait, -1)
		}
	}
	return all
}

func (p *Planner) option(u *task, a act) Option {
	n := a.t.n
	b := n.balance(u).with(a)
	o := Option{Task: a.t.ID, Mechanism: a.mech, Refused: p.refusal(u, a, b)}
	if a.store >= 0 {
		o.Store = n.stores[a.store].Name
		if s := n.stores[a.store]; !(s.Write > 0) || !(s.Read > 0) {
			return o
		}
	}
	if b.fits(n.swap) {
		o.PageOut = b.page()
	}
	c := p.model.costOf(u, n, []act{a}, o.PageOut)
	o.Delay, o.Waste, o.Total = words.Seconds(c.delay), words.Seconds(c.waste), c.total
	return o
}

// refusal says why a alone does not make room for u, b being what is then
// missing.
func (p *Planner) refusal(u *task, a act, b balance) string {
	t, n := a.t, a.t.n
	switch {
	case t.State == headrace.Suspended && !movable(u, t):
		return "it is held, not less urgent, or on its way out already"
	case t.State == headrace.Running && a.mech != headrace.Wait && t.Priority >= u.Priority:
		return fmt.Sprintf("its priority %s is not below %s", t.Priority, u.Priority)
	case t.State == headrace.Running && a.mech != headrace.Wait && t.guard.against(u.eff):
		return p.ageing.protection(t.TaskView)
	case a.mech == headrace.Suspend:
		return noSuspend(u, t)
	case a.mech == headrace.Checkpoint && !canDump(t, a.store, nil):
		return refusesDump(t, a.store)
	case t.State == headrace.Running && a.mech == headrace.Wait && !slices.Contains(p.chooser.actsOn(u, t), a):
		return "it may not be preempted, and does not say how much of it is done"
	case !b.fits(n.swap):
		return "it does not make enough room on its own"
	}
	return ""
}
