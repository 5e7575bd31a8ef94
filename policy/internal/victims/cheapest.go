package victims

import (
	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
)

// found is the best set so far.
type found struct {
	acts []books.Act
	page int64
	cost price.Cost
	ok   bool
}

// consider keeps acts, which it copies, when they fit and cost less.
func (c *Chooser) consider(u *books.Task, n *books.Node, f *found, acts []books.Act, b books.Balance, y *price.Tally) bool {
	if !b.Fits(n.Swap) || !y.Roomy(n) {
		return false
	}
	if f.ok && y.Weighted+y.Delay(u, n)*c.model.Urgency(u) >= f.cost.Total {
		return false // page-outs only add to that
	}
	is := c.model.Sum(u, n, y, acts, b.Page())
	if f.ok && is.Total >= f.cost.Total {
		return false
	}
	*f = found{append(f.acts[:0], acts...), b.Page(), is, true}
	return true
}

// Forget forgets the plan, before one is looked for on several nodes.
func (c *Chooser) Forget() { c.plan.Node = nil }

// ImproveAlone makes the plan what costs least on n by at most one act, if that is less. slot
// is what n costs besides (Slot).
func (c *Chooser) ImproveAlone(u *books.Task, n *books.Node, slot float64) {
	f := c.single(u, n)
	c.better(n, &f, slot)
}

// Improve makes the plan what costs least on n by several acts, if that is less. slot is what
// n costs besides (Slot).
func (c *Chooser) Improve(u *books.Task, n *books.Node, slot float64) {
	var f found
	if c.plan.Node != nil {
		f.cost, f.ok = c.plan.Cost, true
		f.cost.Total += c.plan.slot - slot
	}
	c.several(u, n, &f)
	if len(f.acts) > 0 {
		c.better(n, &f, slot)
	}
}

func (c *Chooser) better(n *books.Node, f *found, slot float64) {
	if f.ok && (c.plan.Node == nil || f.cost.Total+slot < c.plan.Cost.Total+c.plan.slot) {
		c.plan = Plan{Node: n, Acts: append(c.plan.Acts[:0], f.acts...), Page: f.page, Cost: f.cost, slot: slot}
	}
}

// Chosen returns the plan, nil if there is none.
func (c *Chooser) Chosen() *Plan {
	if c.plan.Node == nil {
		return nil
	}
	return &c.plan
}

// single finds the cheapest way to make room for u on n by at most one act; of those
// that cost the same the first, as ActsOn lists them, victims in their order.
// They need not be sorted for that. The result is valid until the next call.
func (c *Chooser) single(u *books.Task, n *books.Node) found {
	start := n.Balance(u)
	f := found{acts: c.best[:0]}
	c.consider(u, n, &f, nil, start, &price.Tally{}) // nothing but page-outs
	if yields(n, u) {
		n.Open()
		for _, t := range n.Running {
			if start.CPUs-t.CPUs <= books.Slack {
				c.weighAll(u, n, &f, start, t)
			}
		}
	}
	if start.CPUs <= books.Slack {
		for _, tasks := range [][]*books.Task{books.SuspendedBelow(n, u.Priority), n.Away} {
			for _, t := range tasks {
				c.weighAll(u, n, &f, start, t)
			}
		}
	}
	c.best = f.acts
	return f
}

// weighAll weighs the acts on t, where u fits once t is gone: no act frees more.
func (c *Chooser) weighAll(u *books.Task, n *books.Node, f *found, start books.Balance, t *books.Task) {
	if !start.With(books.By(t, headrace.Kill)).Fits(n.Swap) {
		return
	}
	for _, a := range c.ActsOn(u, t) {
		c.weigh(u, n, f, start, a)
	}
}

// weigh keeps a when it makes room on its own and costs less than what was found,
// or as much and comes before it.
func (c *Chooser) weigh(u *books.Task, n *books.Node, f *found, start books.Balance, a books.Act) {
	b := start.With(a)
	if !b.Fits(n.Swap) {
		return
	}
	alone := c.model.Of(n, a)
	if f.ok && c.model.Floor(u, n, a, alone) > f.cost.Total {
		return // page-outs only add to that
	}
	var y price.Tally
	o := c.model.Option(n, a, alone)
	y.Count(&o)
	c.one[0] = a
	is := c.model.Sum(u, n, &y, c.one[:], b.Page())
	if f.ok && is.Total >= f.cost.Total && !(is.Total == f.cost.Total && c.listedBefore(a, f.acts)) {
		return
	}
	*f = found{append(f.acts[:0], a), b.Page(), is, true}
}

// listedBefore reports whether a comes before the one act in acts: whether its task is
// the earlier victim.
func (c *Chooser) listedBefore(a books.Act, acts []books.Act) bool {
	return len(acts) == 1 && acts[0].Task.State == headrace.Running && a.Task.State == headrace.Running &&
		c.compareVictims(a.Task, acts[0].Task) < 0
}
