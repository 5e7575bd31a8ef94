package policy

import (
	"math"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
	"headrace/policy/internal/words"
)

// Verdict is how a task gives way that another scheduler has chosen for it.
type Verdict struct {
	// Mechanism is Wait when the task is not to give way now.
	Mechanism headrace.Mechanism
	// Store is where to, for Checkpoint; Bytes is what the dump writes there, and Dump
	// how long it takes once it is its turn.
	Store string
	Bytes int64
	Dump  time.Duration
	// PageOut is how much of its memory to write to swap, for Suspend.
	PageOut int64
	// PageOuts write memory of other suspended tasks to swap besides.
	PageOuts []headrace.Order
	// Delay is how long it is expected to take until the room is there, Waste the work
	// thrown away, in task time.
	Delay, Waste time.Duration
	// Cost is what Cost weighs: both, weighted by priorities, in seconds. Infinite where there is
	// no way.
	Cost float64
	// Reason is one line for a person.
	Reason string
}

// GiveWay decides about a task that another scheduler has chosen to make room for
// something of priority urgent: whether it leaves now, and how. others are all other tasks of which it is known that they are on
// the node, in order of submission; the victim may be among them.
//
// What is to come is taken to need what the victim has: its CPUs, and the memory that
// it has requested, on a node without other free CPUs. Others that run stay; the
// memory of those that are suspended may be paged out; those that are leaving leave
// for somebody who will need the memory that they had requested. A node on which more
// is requested than there is counts as just full: the room that the victim leaves is
// enough for what comes.
//
// The scheduler's choice stands: an urgent priority that is not above the victim's
// counts as one step above it. MinRun protects the victim as in Decide.
//
// The policies keep to what they may do. Kill, Adaptive and Cost always have a way
// for a task that is not protected. Suspend and Checkpoint never kill: where neither
// mechanism is possible they wait, and Reason says why. A scheduler that must have the
// room all the same takes it as it would without us.
//
// A victim that does not run, or is leaving already, is to wait. c must be valid.
func GiveWay(victim headrace.TaskView, n headrace.NodeView, others []headrace.TaskView, urgent headrace.Priority, c Config) Verdict {
	if victim.State != headrace.Running || victim.Leaving || victim.Starting {
		return Verdict{Cost: math.Inf(1), Reason: "it does not run, or is leaving already"}
	}
	victim, u := opponents(victim, urgent)
	victim.Node = n.ID
	tasks := []headrace.TaskView{u}
	used, claimed := books.Held(&victim), int64(0)
	there := false
	for _, t := range others {
		if t.ID == victim.ID {
			tasks, there = append(tasks, victim), true
			continue
		}
		t.Node, t.CPUs, t.Gang = n.ID, 0, 0
		switch {
		case t.Leaving:
			claimed += t.MemoryRequest
			used += books.Residue(&t)
		case t.Starting:
			used += books.Demand(&t, &n)
		case t.State == headrace.Running:
			t.Held = true
			used += books.Held(&t)
		case t.State == headrace.Suspended:
			t.Held = true
			used += t.Resident - t.PagingOut
		}
		tasks = append(tasks, t)
	}
	if !there {
		tasks = append(tasks, victim)
	}
	n.CPUs = victim.CPUs
	n.Memory = max(n.Memory-claimed, used)
	p := NewPlanner(c)
	p.load(&headrace.View{Nodes: []headrace.NodeView{n}, Tasks: tasks})
	return p.giveWay()
}

// opponents returns the victim and what it makes room for, with priorities of which the
// second is higher.
func opponents(victim headrace.TaskView, urgent headrace.Priority) (v, u headrace.TaskView) {
	v = victim
	v.Held, v.Gang = false, 0
	v.Priority = min(v.Priority, headrace.MaxPriority-1)
	if !(v.CPUs > 2*books.Slack) {
		v.CPUs = 1 // how many makes no difference
	}
	u = headrace.TaskView{
		State: headrace.Pending, CPUs: v.CPUs, MemoryRequest: v.MemoryRequest,
		Priority: min(max(urgent, v.Priority+1), headrace.MaxPriority),
	}
	if u.MemoryRequest <= 0 {
		u.MemoryRequest = v.Resident
	}
	return v, u
}

// giveWay decides about the only task that may leave the only node for the first task
// of the view, which waits.
func (p *Planner) giveWay() Verdict {
	u, n := &p.fleet.Tasks[0], &p.fleet.Nodes[0]
	u.Aged = u.Priority
	n.Open()
	v := n.Running[0]
	way := p.chooser.Choose(u, n)
	switch {
	case way == nil:
		return Verdict{Cost: math.Inf(1), Reason: p.whyNot(u, v)}
	case way.Waits():
		left := price.Remaining(v.TaskView)
		return Verdict{Delay: left, Cost: way.Cost.Total, Reason: "to wait is cheapest: it is expected to end in about " + words.Short(left.Seconds())}
	}
	verdict := Verdict{Delay: words.Seconds(way.Cost.Delay), Waste: words.Seconds(way.Cost.Waste), Cost: way.Cost.Total}
	for _, a := range way.Acts {
		if a.By == headrace.Checkpoint {
			s := n.Stores[a.Store].StoreView
			verdict.Bytes, verdict.Dump = books.DumpBytes(a.Task.TaskView, s), words.Seconds(books.Dump(a.Task.TaskView, s))
		}
	}
	p.apply(u, way, "its scheduler needs the room")
	for _, o := range p.orders {
		if o.Task != v.ID {
			verdict.PageOuts = append(verdict.PageOuts, o)
			continue
		}
		verdict.Mechanism, verdict.Store, verdict.PageOut, verdict.Reason = o.Mechanism, o.Store, o.PageOut, o.Reason
	}
	return verdict
}
