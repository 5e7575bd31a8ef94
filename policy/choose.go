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
	// Delay and Waste are what is expected of the whole choice; Total is the
	// weighted sum that the policy Cost compares, in seconds.
	Delay, Waste time.Duration
	Total        float64
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
	d := newDecision(&headrace.View{Nodes: []headrace.NodeView{n}, Tasks: tasks}, c)
	d.open(&d.nodes[0])
	u := &d.tasks[at]
	if u.TaskView == nil {
		d.enrol(at, d.nodeOf(urgent.Node))
	}
	u.eff = d.c.aged(u.Priority, u.Waiting)
	return d.choose(u, &d.nodes[0])
}

func (d *decision) choose(u *task, n *node) Choice {
	var ch Choice
	if d.laterHolds(u, n) {
		ch.Fits = true
		return ch
	}
	ch.Options = d.allOptions(u, n)
	p := d.planFor(u, spots{home: n})
	if p == nil {
		ch.Wait = d.c.Policy == Wait && possible(u, n)
		return ch
	}
	for i := range ch.Options {
		o := &ch.Options[i]
		o.Chosen = slices.ContainsFunc(p.acts, func(a act) bool {
			return a.t.ID == o.Task && a.mech == o.Mechanism && (a.store < 0 || n.stores[a.store].Name == o.Store)
		})
	}
	ch.Delay, ch.Waste, ch.Total = duration(p.cost.delay), duration(p.cost.waste), p.cost.total
	ch.Wait = p.waits()
	d.apply(u, p, forTask(u))
	ch.Orders = d.orders
	return ch
}

func (d *decision) allOptions(u *task, n *node) []Option {
	d.rank(n)
	var all []Option
	for _, t := range n.running {
		all = append(all, d.option(u, act{t, headrace.Suspend, -1}))
		for i := range n.stores {
			all = append(all, d.option(u, act{t, headrace.Checkpoint, i}))
		}
		all = append(all, d.option(u, act{t, headrace.Kill, -1}), d.option(u, act{t, headrace.Wait, -1}))
	}
	for _, t := range n.suspended {
		if t == u {
			continue
		}
		for i := range n.stores {
			all = append(all, d.option(u, act{t, headrace.Checkpoint, i}))
		}
	}
	return all
}

func (d *decision) option(u *task, a act) Option {
	n := a.t.n
	b := d.balance(u, n).with(a)
	o := Option{Task: a.t.ID, Mechanism: a.mech, Refused: d.refusal(u, a, b)}
	if a.store >= 0 {
		o.Store = n.stores[a.store].Name
		if s := n.stores[a.store]; !(s.Write > 0) || !(s.Read > 0) {
			return o
		}
	}
	page := int64(0)
	if b.fits(n.swap) {
		page = b.page()
	}
	c := d.costOf(u, n, []act{a}, page)
	o.PageOut, o.Delay, o.Waste, o.Total = page, duration(c.delay), duration(c.waste), c.total
	return o
}

// refusal says why a alone does not make room for u, b being what is then
// missing.
func (d *decision) refusal(u *task, a act, b balance) string {
	t, n := a.t, a.t.n
	switch {
	case t.State == headrace.Suspended && !d.movable(u, t):
		return "it is held, not less urgent, or on its way out already"
	case t.State == headrace.Running && a.mech != headrace.Wait && t.Priority >= u.Priority:
		return fmt.Sprintf("its priority %s is not below %s", t.Priority, u.Priority)
	case t.State == headrace.Running && a.mech != headrace.Wait && d.c.protected(t.TaskView, u.eff):
		return d.c.protection(t.TaskView)
	case a.mech == headrace.Suspend && t.NoSuspend != "":
		return t.NoSuspend
	case a.mech == headrace.Checkpoint && !canDump(t, a.store, nil):
		return refusesDump(t, a.store)
	case t.State == headrace.Running && a.mech == headrace.Wait && !d.usable(u, &option{act: a}):
		return "it may not be preempted, and does not say how much of it is done"
	case b.short(n.swap) > 0 && a.mech == headrace.Suspend:
		return fmt.Sprintf("%s would have to be paged out, %s can be", words.Size(b.mem), words.Size(max(0, min(n.swap, b.pageable))))
	case !b.fits(n.swap):
		return "it does not make enough room on its own"
	}
	return ""
}

// refusesDump says why t cannot be checkpointed to store i.
func refusesDump(t *task, i int) string {
	s := &t.n.stores[i]
	switch {
	case t.NoCheckpoint != "":
		return t.NoCheckpoint
	case !(s.Write > 0) || !(s.Read > 0):
		return fmt.Sprintf("the bandwidth of store %s is not known", s.Name)
	}
	return fmt.Sprintf("store %s has %s free, the checkpoint needs %s", s.Name, words.Size(s.free), words.Size(dumpBytes(t.TaskView, s.StoreView)))
}

// noCheckpoint says why t cannot be checkpointed to any store; empty when it can.
func (d *decision) noCheckpoint(t *task) string {
	if t.NoCheckpoint != "" {
		return t.NoCheckpoint
	}
	why := "there is no store"
	for i := range t.n.stores {
		if canDump(t, i, nil) {
			return ""
		}
		why = refusesDump(t, i)
	}
	return why
}
