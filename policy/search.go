package policy

import (
	"cmp"
	"slices"

	"headrace"
)

const (
	// wideNodes is on how many nodes sets of several victims are looked for: those
	// where the least is missing. Single victims are looked for on all. Sixteen gave no
	// better days in simulation, and took half as long again.
	wideNodes = 4
	// allSets is up to how many sets on one node are all tried.
	allSets = 2000
)

// options are the acts that could make room on n, with their prices, built once
// per decision. Whether one may be used for a certain task is asked later.
func (d *decision) options(n *node) []option {
	if n.priced {
		return n.prices
	}
	n.priced = true
	d.rank(n)
	add := func(a act) { n.prices = append(n.prices, option{a, d.price(n, a)}) }
	checkpoints := func(t *task) {
		for i := range min(len(n.stores), maxStores) {
			if s := &n.stores[i]; dumps(t, s.StoreView) && dumpBytes(t.TaskView, s.StoreView) <= s.offered {
				add(act{t, headrace.Checkpoint, i})
			}
		}
	}
	for _, t := range n.running {
		if t.NoSuspend == "" {
			add(act{t, headrace.Suspend, -1})
		}
		checkpoints(t)
		add(act{t, headrace.Kill, -1})
		add(act{t, headrace.Wait, -1})
	}
	for _, t := range n.suspended {
		checkpoints(t)
	}
	return n.prices
}

// usable reports whether o may be used for u now. One may wait for any task that
// says how much of it is done, for others only in place of preempting them: of
// many unknown ages one is always small.
func (d *decision) usable(u *task, o *option) bool {
	switch {
	case o.t == u || o.t.settled:
		return false
	case o.t.State == headrace.Suspended:
		return d.movable(u, o.t)
	case o.mech == headrace.Wait && o.t.share:
		return true
	}
	return d.eligible(u, o.t)
}

// found is the best set so far.
type found struct {
	acts []act
	page int64
	cost cost
	ok   bool
}

// consider keeps acts, which it copies, when they fit and cost less.
func (d *decision) consider(u *task, n *node, f *found, acts []act, b balance, y *tally) bool {
	if !b.fits(n.swap) || !y.roomy(n) {
		return false
	}
	if f.ok && y.weighted+y.delay(n)*d.weight(u.Priority) >= f.cost.total {
		return false // page-outs only add to that
	}
	c := d.sum(u, n, y, acts, b.page())
	if f.ok && c.total >= f.cost.total {
		return false
	}
	*f = found{append(f.acts[:0], acts...), b.page(), c, true}
	return true
}

// cheapest is the plan of the policy Cost for u on one of its spots, or nil when
// nothing would make room; n is where a single act costs least.
func (d *decision) cheapest(u *task, s spots, bids []bid, n *node) *plan {
	d.plan.n = nil
	better := func(n *node, f *found) {
		if f.ok && (d.plan.n == nil || f.cost.total < d.plan.cost.total) {
			d.plan = plan{n: n, acts: append(d.plan.acts[:0], f.acts...), page: f.page, cost: f.cost}
		}
	}
	if n != nil {
		f := d.single(u, n)
		better(n, &f)
	}
	for _, n := range d.nearest(u, s, bids) {
		var f found
		if d.plan.n != nil {
			f.cost, f.ok = d.plan.cost, true
		}
		d.several(u, n, &f)
		better(n, &f)
	}
	if d.plan.n == nil {
		return nil
	}
	return &d.plan
}

// nearest are those of the spots where u comes nearest to fitting, as far as sets of
// several are looked for; all promising ones where they are few. All of them must
// have been asked. It is valid until the next call.
func (d *decision) nearest(u *task, s spots, bids []bid) []*node {
	near := d.near[:0]
	few := true
	add := func(n *node) {
		if few && len(near) == wideNodes {
			slices.SortStableFunc(near, func(a, b *node) int { return cmp.Compare(bids[a.i].missing, bids[b.i].missing) })
			few = false
		}
		if few {
			near = append(near, n)
			return
		}
		i := len(near)
		for i > 0 && bids[n.i].missing < bids[near[i-1].i].missing {
			i--
		}
		if i < wideNodes {
			near = slices.Insert(near[:wideNodes-1], i, n)
		}
	}
	if s.home != nil && bids[s.home.i].promising {
		add(s.home)
	}
	if s.several() {
		for i, n := range d.every {
			if !bids[i].promising || n == s.home || !few && bids[i].missing >= bids[near[wideNodes-1].i].missing {
				continue
			}
			if d.isSpot(u, s, n) {
				add(n)
			}
		}
	}
	d.near = near
	return near
}

// conceivable reports whether u would fit on n if all that may leave for it did, as
// far as that can be said without looking at how: it is never false when there is a
// set of acts that makes room.
func (d *decision) conceivable(u *task, n *node) bool {
	b := d.balance(u, n)
	d.open(n)
	if !n.yields(u) && b.cpus > slack+rounding {
		return false
	}
	for _, t := range n.running {
		if !t.settled && (t.share || d.eligible(u, t)) {
			b.cpus -= t.CPUs
			b.mem -= held(t.TaskView)
			b.pageable += t.pageable()
		}
	}
	for _, t := range n.suspended {
		if d.movable(u, t) {
			b.mem -= t.Resident - t.paging
		}
	}
	return b.cpus <= slack+rounding && b.short(n.swap) == 0
}

// missing is how much is missing on n for u, as a share of what u needs.
func (d *decision) missing(u *task, n *node) float64 {
	b := d.balance(u, n)
	var m float64
	if u.CPUs > 0 {
		m += max(0, b.cpus) / u.CPUs
	}
	if mem := demand(u.TaskView, n.NodeView); mem > 0 {
		m += float64(b.short(n.swap)) / float64(mem)
	}
	return m
}
