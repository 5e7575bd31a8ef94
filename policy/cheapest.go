package policy

import "headrace"

// found is the best set so far.
type found struct {
	acts []act
	page int64
	cost cost
	ok   bool
}

// consider keeps acts, which it copies, when they fit and cost less.
func (c *chooser) consider(u *task, n *node, f *found, acts []act, b balance, y *tally) bool {
	if !b.fits(n.swap) || !y.roomy(n) {
		return false
	}
	if f.ok && y.weighted+y.delay(n)*c.model.weight(u.Priority) >= f.cost.total {
		return false // page-outs only add to that
	}
	is := c.model.sum(u, n, y, acts, b.page())
	if f.ok && is.total >= f.cost.total {
		return false
	}
	*f = found{append(f.acts[:0], acts...), b.page(), is, true}
	return true
}

// forget forgets the plan, before one is looked for on several nodes.
func (c *chooser) forget() { c.plan.n = nil }

// improveAlone makes the plan what costs least on n by at most one act, if that is less.
func (c *chooser) improveAlone(u *task, n *node) {
	f := c.single(u, n)
	c.better(n, &f)
}

// improve makes the plan what costs least on n by several acts, if that is less.
func (c *chooser) improve(u *task, n *node) {
	var f found
	if c.plan.n != nil {
		f.cost, f.ok = c.plan.cost, true
	}
	c.several(u, n, &f)
	c.better(n, &f)
}

func (c *chooser) better(n *node, f *found) {
	if f.ok && (c.plan.n == nil || f.cost.total < c.plan.cost.total) {
		c.plan = plan{n: n, acts: append(c.plan.acts[:0], f.acts...), page: f.page, cost: f.cost}
	}
}

// chosen is the plan, nil if there is none.
func (c *chooser) chosen() *plan {
	if c.plan.n == nil {
		return nil
	}
	return &c.plan
}

// single finds the cheapest way to make room for u on n by at most one act; of those
// that cost the same the first, as options lists them. It needs neither prices of
// all options nor victims in order. The result is valid until the next call.
func (c *chooser) single(u *task, n *node) found {
	start := n.balance(u)
	f := found{acts: c.best[:0]}
	c.consider(u, n, &f, nil, start, &tally{}) // nothing but page-outs
	n.open()
	running := n.running
	if !yields(n, u) {
		running = nil
	}
	for _, t := range running {
		if start.cpus-t.CPUs > slack {
			continue
		}
		for _, a := range c.actsOn(u, t) {
			c.weigh(u, n, &f, start, a)
		}
	}
	if start.cpus <= slack && len(n.suspended) > 0 {
		n.lineUp()
		for _, t := range n.suspended {
			for _, a := range c.actsOn(u, t) {
				c.weigh(u, n, &f, start, a)
			}
		}
	}
	c.best = f.acts
	return f
}

// weigh keeps a when it makes room on its own and costs less than what was found,
// or as much and comes before it.
func (c *chooser) weigh(u *task, n *node, f *found, start balance, a act) {
	b := start.with(a)
	if !b.fits(n.swap) {
		return
	}
	o := c.model.option(n, a)
	if f.ok && c.model.floor(u, n, &o) > f.cost.total {
		return // page-outs only add to that
	}
	var y tally
	y.count(&o)
	c.one[0] = a
	is := c.model.sum(u, n, &y, c.one[:], b.page())
	if f.ok && is.total >= f.cost.total && !(is.total == f.cost.total && c.listedBefore(a, f.acts)) {
		return
	}
	*f = found{append(f.acts[:0], a), b.page(), is, true}
}

// listedBefore reports whether options lists a before the one act in acts, those
// of one task being compared in their order.
func (c *chooser) listedBefore(a act, acts []act) bool {
	return len(acts) == 1 && acts[0].t.State == headrace.Running && a.t.State == headrace.Running &&
		c.compareVictims(a.t, acts[0].t) < 0
}
