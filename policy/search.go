package policy

import (
	"cmp"
	"math"
	"slices"

	"headrace"
)

const (
	// wideNodes is on how many nodes sets of several victims are looked for: those
	// where the least is missing. Single victims are looked for on all.
	wideNodes = 16
	// widePasses bounds the improvement of a set of victims.
	widePasses = 4
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
	case o.mech == headrace.Wait && shareKnown(o.t.TaskView):
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

// several looks for a cheaper way by several acts: by trying all sets where they
// are few, else by greedy choice and improvement of what that finds. An act that makes room on its own, without
// page-outs, need not be part of it: the set without the others would be cheaper. Nor need one that alone costs more than the
// best known.
func (d *decision) several(u *task, n *node, f *found) {
	start := d.balance(u, n)
	d.pool = d.pool[:0]
	options := d.options(n)
	for i := range options {
		o := &options[i]
		if !d.usable(u, o) || f.ok && d.least(u, n, o) >= f.cost.total {
			continue
		}
		if b := start.with(o.act); !b.fits(n.swap) || b.page() > 0 {
			d.pool = append(d.pool, o)
		}
	}
	if len(d.pool) < 2 {
		return
	}
	if groups, ok := d.groups(); ok {
		d.exhaust(u, n, start, groups, nil, f)
		return
	}
	d.improve(u, n, start, nil, f)
	for _, without := range restrictions {
		for _, by := range []score{perRoom, total} {
			if set := d.greedy(u, n, start, by, without); set != nil {
				d.improve(u, n, start, set, f)
			}
		}
		d.improve(u, n, start, d.everything(without), f)
	}
}

// least is what any set with o costs at least.
func (d *decision) least(u *task, n *node, o *option) float64 {
	y := d.add(tally{}, o)
	return y.delay(n)*d.weight(u.Priority) + y.weighted
}

// groups sorts the pool by task, unless there are too many sets to try them all.
func (d *decision) groups() ([][]*option, bool) {
	var groups [][]*option
	sets := 1
	for i := 0; i < len(d.pool); {
		j := i + 1
		for j < len(d.pool) && d.pool[j].t == d.pool[i].t {
			j++
		}
		groups = append(groups, d.pool[i:j])
		if sets *= j - i + 1; sets > d.allSets {
			return nil, false
		}
		i = j
	}
	return groups, true
}

// exhaust tries all sets of at most one option from each group.
func (d *decision) exhaust(u *task, n *node, start balance, groups [][]*option, set []*option, f *found) {
	if len(groups) == 0 {
		d.try(u, n, start, set, f)
		return
	}
	d.exhaust(u, n, start, groups[1:], set, f)
	for _, o := range groups[0] {
		d.exhaust(u, n, start, groups[1:], append(set, o), f)
	}
}

// A restriction names mechanisms that a first set does without. A delay is borne
// once for the whole set, and what a suspend leaves in memory must fit all
// together, so that steps of one task at a time do not lead away from either.
type restriction []headrace.Mechanism

var restrictions = []restriction{
	nil,
	{headrace.Suspend},
	{headrace.Wait},
	{headrace.Suspend, headrace.Wait},
}

// everything is a set of one option for each task in the pool, the cheapest, the
// dearest tasks first, so that improve drops those first.
func (d *decision) everything(without restriction) []*option {
	var set []*option
	for _, o := range d.pool {
		if slices.Contains(without, o.mech) {
			continue
		}
		i := slices.IndexFunc(set, func(m *option) bool { return m.t == o.t })
		if i < 0 {
			set = append(set, o)
		} else if d.alone(o) < d.alone(set[i]) {
			set[i] = o
		}
	}
	slices.SortStableFunc(set, func(a, b *option) int { return cmp.Compare(d.alone(b), d.alone(a)) })
	return set
}

// alone is roughly what o costs, for comparing options.
func (d *decision) alone(o *option) float64 {
	return (o.delay + o.waste) * d.weight(o.t.Priority)
}

// score says how greedy compares options: less is better.
type score func(added, gained float64) float64

func perRoom(added, gained float64) float64 { return added / gained }
func total(added, _ float64) float64        { return added }

// greedy adds options from the pool until u fits, each time the one that adds the
// least cost by the given score.
func (d *decision) greedy(u *task, n *node, start balance, by score, without restriction) []*option {
	b := start
	var y tally
	var set []*option
	taken := d.taken[:0]
	for !b.fits(n.swap) {
		best, least := -1, math.Inf(1)
		before := y.delay(n)*d.weight(u.Priority) + y.weighted
		for i, o := range d.pool {
			if slices.Contains(without, o.mech) || slices.Contains(taken, o.t) {
				continue
			}
			gained := b.gain(b.with(o.act), start, n.swap)
			if gained <= 0 {
				continue
			}
			next := d.add(y, o)
			if !next.roomy(n) {
				continue
			}
			added := next.delay(n)*d.weight(u.Priority) + next.weighted - before
			if s := by(added, gained); s < least || best < 0 {
				best, least = i, s
			}
		}
		if best < 0 {
			return nil
		}
		o := d.pool[best]
		b, y = b.with(o.act), d.add(y, o)
		set, taken = append(set, o), append(taken, o.t)
	}
	d.taken = taken
	return set
}

// gain is by which share of what was missing at the start next is nearer to
// fitting than b.
func (b balance) gain(next, start balance, swap int64) float64 {
	var g float64
	if start.cpus > slack {
		g += (max(0, b.cpus) - max(0, next.cpus)) / start.cpus
	}
	missing := max(start.short(swap), b.short(swap), next.short(swap))
	if missing > 0 {
		g += float64(b.short(swap)-next.short(swap)) / float64(missing)
	}
	return g
}

// improve drops, replaces and adds members of set as long as that makes it
// cheaper.
func (d *decision) improve(u *task, n *node, start balance, set []*option, f *found) {
	best := found{}
	d.try(u, n, start, set, &best)
	for range widePasses {
		next := d.pass(u, n, start, set, &best)
		if slices.Equal(next, set) {
			break
		}
		set = next
	}
	if best.ok && (!f.ok || best.cost.total < f.cost.total) {
		*f = best
	}
}

// pass tries every single change to set once.
func (d *decision) pass(u *task, n *node, start balance, set []*option, best *found) []*option {
	for i := 0; i < len(set); i++ {
		if next := without(set, i); d.try(u, n, start, next, best) {
			set = next
			i--
			continue
		}
		for _, o := range d.pool {
			if next, ok := replaced(set, i, o); ok && d.try(u, n, start, next, best) {
				set = next
			}
		}
	}
	for _, o := range d.pool {
		if next, ok := replaced(append(slices.Clone(set), nil), len(set), o); ok && d.try(u, n, start, next, best) {
			set = next
		}
	}
	return set
}

func (d *decision) try(u *task, n *node, start balance, set []*option, f *found) bool {
	d.acts = d.acts[:0]
	b := start
	var y tally
	for _, o := range set {
		d.acts = append(d.acts, o.act)
		b, y = b.with(o.act), d.add(y, o)
	}
	return d.consider(u, n, f, d.acts, b, &y)
}

func without(set []*option, i int) []*option {
	return append(slices.Clone(set[:i]), set[i+1:]...)
}

// replaced is set with member i replaced by o, unless o's task is in it already.
func replaced(set []*option, i int, o *option) ([]*option, bool) {
	for j, m := range set {
		if m != nil && (m == o || j != i && m.t == o.t) {
			return nil, false
		}
	}
	next := slices.Clone(set)
	next[i] = o
	return next, true
}

// cheapest is the plan of the policy Cost for u on one of the given nodes, or nil
// when nothing would make room.
func (d *decision) cheapest(u *task, nodes []*node) *plan {
	d.plan.n = nil
	better := func(n *node, f *found) {
		if f.ok && (d.plan.n == nil || f.cost.total < d.plan.cost.total) {
			d.plan = plan{n: n, acts: append(d.plan.acts[:0], f.acts...), page: f.page, cost: f.cost}
		}
	}
	if n := d.lowestBid(u, nodes); n != nil {
		f := d.single(u, n)
		better(n, &f)
	}
	for _, n := range d.nearest(u, nodes) {
		if !d.conceivable(u, n) {
			continue
		}
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

// nearest are those of the nodes where u comes nearest to fitting, as far as sets of
// several are looked for. All of them must have been asked (lowestBid). It is valid
// until the next call.
func (d *decision) nearest(u *task, nodes []*node) []*node {
	if len(nodes) <= wideNodes {
		return nodes
	}
	bids := d.bids(u, nodes)
	near := d.near[:0]
	for _, n := range nodes {
		missing := bids[n.i].missing
		i := len(near)
		for i > 0 && missing < bids[near[i-1].i].missing {
			i--
		}
		if i < wideNodes {
			near = slices.Insert(near[:min(len(near), wideNodes-1)], i, n)
		}
	}
	d.near = near
	return near
}

// conceivable reports whether u would fit on n if all that may leave for it did, as
// far as that can be said without looking at how: it is never false when there is a
// set of acts that makes room.
func (d *decision) conceivable(u *task, n *node) bool {
	const rounding = 1e-6
	b := d.balance(u, n)
	d.open(n)
	for _, t := range n.running {
		if !t.settled && (d.eligible(u, t) || shareKnown(t.TaskView)) {
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

func sortByDelay(options []option) {
	slices.SortStableFunc(options, func(a, b option) int { return cmp.Compare(a.delay, b.delay) })
}
