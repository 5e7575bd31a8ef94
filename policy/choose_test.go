package policy

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/victims"
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

// Choose does the part of Decide that makes room for one task on one node. others
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
	p.fleet.Nodes[0].Open()
	u := &p.fleet.Tasks[at]
	if u.TaskView == nil {
		p.fleet.Enrol(at, p.fleet.NodeOf(urgent.Node))
	}
	u.Aged = p.ageing.Aged(u.Priority, u.Waiting)
	return p.choose(u, &p.fleet.Nodes[0])
}

// newPlanner returns a planner that has taken in v.
func newPlanner(v *headrace.View, c Config) *Planner {
	p := NewPlanner(c)
	p.load(v)
	return p
}

func (p *Planner) choose(u *books.Task, n *books.Node) Choice {
	var ch Choice
	if n.FitsLater(u) {
		ch.Fits = true
		return ch
	}
	ch.Options = p.allOptions(u, n)
	way := p.chooser.Choose(u, n)
	if way == nil {
		ch.Wait = p.c.Policy == Wait && n.Possible(u)
		return ch
	}
	for i := range ch.Options {
		o := &ch.Options[i]
		o.Chosen = slices.ContainsFunc(way.Acts, func(a books.Act) bool {
			return a.Task.ID == o.Task && a.By == o.Mechanism && (a.Store < 0 || n.Stores[a.Store].Name == o.Store)
		})
	}
	ch.Total, ch.Wait = way.Cost.Total, way.Waits()
	p.apply(u, way, "makes room for "+string(u.ID)+" ("+u.Priority.String()+")")
	ch.Orders = p.orders
	return ch
}

func (p *Planner) allOptions(u *books.Task, n *books.Node) []Option {
	p.chooser.Rank(n)
	var all []Option
	add := func(t *books.Task, m headrace.Mechanism, store int) {
		all = append(all, p.option(u, books.Act{Task: t, By: m, Store: store}))
	}
	for _, t := range slices.Concat(n.Running, n.Suspended) {
		if t == u {
			continue
		}
		runs := t.State == headrace.Running
		if runs {
			add(t, headrace.Suspend, -1)
		}
		for i := range n.Stores {
			add(t, headrace.Checkpoint, i)
		}
		if runs {
			add(t, headrace.Kill, -1)
			add(t, headrace.Wait, -1)
		}
	}
	return all
}

func (p *Planner) option(u *books.Task, a books.Act) Option {
	n := a.Task.Home
	b := n.Balance(u).With(a)
	o := Option{Task: a.Task.ID, Mechanism: a.By, Refused: p.refusal(u, a, b)}
	if a.Store >= 0 {
		o.Store = n.Stores[a.Store].Name
		if s := n.Stores[a.Store]; !(s.Write > 0) || !(s.Read > 0) {
			return o
		}
	}
	if b.Fits(n.Swap) {
		o.PageOut = b.Page()
	}
	c := p.model.Plan(u, n, []books.Act{a}, o.PageOut)
	o.Delay, o.Waste, o.Total = words.Seconds(c.Delay), words.Seconds(c.Waste), c.Total
	return o
}

// refusal says why a alone does not make room for u, b being what is then
// missing.
func (p *Planner) refusal(u *books.Task, a books.Act, b books.Balance) string {
	t, n := a.Task, a.Task.Home
	switch {
	case t.State == headrace.Suspended && !victims.Movable(u, t):
		return "it is held, not less urgent, or on its way out already"
	case t.State == headrace.Running && a.By != headrace.Wait && t.Priority >= u.Priority:
		return fmt.Sprintf("its priority %s is not below %s", t.Priority, u.Priority)
	case t.State == headrace.Running && a.By != headrace.Wait && t.Guard.Against(u.Aged):
		return p.ageing.Protection(t.TaskView)
	case a.By == headrace.Kill && !t.KilledFor(u):
		return fmt.Sprintf("it is not killed for %s", u.Priority)
	case a.By == headrace.Suspend:
		return noSuspend(u, t)
	case a.By == headrace.Checkpoint && !books.CanDump(t, a.Store, nil):
		return refusesDump(t, a.Store)
	case t.State == headrace.Running && a.By == headrace.Wait && !slices.Contains(p.chooser.ActsOn(u, t), a):
		return "it may not be preempted, and does not say how much of it is done"
	case !b.Fits(n.Swap):
		return "it does not make enough room on its own"
	}
	return ""
}
