package policy

import (
	"math"
	"slices"

	"headrace"
)

// allSets is up to how many sets on one node are all tried.
const allSets = 2000

// item is an option of the pool, with what it changes.
type item struct {
	option
	group    int32   // items of one task are one group
	cpus     float64 // what it frees
	mem      int64
	pageable int64 // by how much more could be paged out
}

// pool is the options from which sets are made for one task on one node.
type pool struct {
	u      *task
	n      *node
	start  balance
	weight float64 // of u
	items  []item
	groups []span
	taken  []bool // by group, for greedy
	// free is, for each group, the most that it and those behind it can free.
	free []balance
}

// span is a range of items.
type span struct{ from, to int32 }

// several looks for a way by several acts that costs less than f: by trying all sets
// where they are few, else by greedy choice. Improving step by step what that finds
// gave no better days in simulation.
func (c *chooser) several(u *task, n *node, f *found) {
	if !c.conceivable(u, n) || !c.worthwhile(u, n, f) {
		return
	}
	p := c.gather(u, n, f)
	if len(p.items) < 2 {
		return
	}
	if !p.sets(c.most) {
		c.greedySets(p, f)
		return
	}
	p.sumUp()
	c.acts = slices.Grow(c.acts[:0], len(p.groups))
	c.exhaust(p, 0, p.start, &tally{}, c.acts, f)
}

// A restriction names mechanisms that a set does without. A delay is borne once for
// the whole set, and what a suspend leaves in memory must fit all together, so that
// steps of one task at a time do not lead away from either.
type restriction []headrace.Mechanism

var restrictions = []restriction{
	nil,
	{headrace.Suspend},
	{headrace.Wait},
	{headrace.Suspend, headrace.Wait},
}

// greedySets keeps the cheapest of the sets that greedy makes.
func (c *chooser) greedySets(p *pool, f *found) {
	for _, without := range restrictions {
		for _, by := range scores {
			c.greedy(p, by, without, f)
		}
	}
}

// conceivable reports whether u would fit on n if all that may leave for it did, as
// far as that can be said without looking at how: it is never false when there is a
// set of acts that makes room.
func (c *chooser) conceivable(u *task, n *node) bool {
	b := n.balance(u)
	n.open()
	if !yields(n, u) && b.cpus > slack+rounding {
		return false
	}
	for _, t := range n.running {
		if !t.settled && (t.share || eligible(u, t)) {
			b.cpus -= t.CPUs
			b.mem -= held(t.TaskView)
			b.pageable += t.pageable()
		}
	}
	for _, t := range n.suspended {
		if movable(u, t) {
			b.mem -= t.Resident - t.paging
		}
	}
	return b.cpus <= slack+rounding && b.short(n.swap) == 0
}

// worthwhile reports whether acts for two tasks or more could be part of a set that
// costs less than what is known.
func (c *chooser) worthwhile(u *task, n *node, f *found) bool {
	if !f.ok {
		return true
	}
	tasks := 0
	count := func(t *task) {
		for _, a := range c.actsOn(u, t) {
			if o := c.model.option(n, a); c.model.floor(u, n, &o) < f.cost.total {
				tasks++
				return
			}
		}
	}
	for _, t := range n.running {
		if count(t); tasks > 1 {
			return true
		}
	}
	for _, t := range n.suspended {
		if count(t); tasks > 1 {
			return true
		}
	}
	return false
}

// gather makes the pool. An act that makes room on its own, without page-outs, need
// not be part of a set: the set without the others would be cheaper. Nor need one
// that alone costs as much as the best that is known.
func (c *chooser) gather(u *task, n *node, best *found) *pool {
	p := &c.pool
	*p = pool{u: u, n: n, start: n.balance(u), weight: c.model.weight(u.Priority), items: p.items[:0], groups: p.groups[:0], taken: p.taken, free: p.free[:0]}
	c.rank(n)
	for _, tasks := range [][]*task{n.running, n.suspended} {
		for _, t := range tasks {
			for _, a := range c.actsOn(u, t) {
				o := c.model.option(n, a)
				if best.ok && c.model.floor(u, n, &o) >= best.cost.total {
					continue
				}
				if b := p.start.with(a); !b.fits(n.swap) || b.page() > 0 {
					p.add(newItem(o))
				}
			}
		}
	}
	return p
}

func newItem(o option) item {
	after := balance{}.with(o.act)
	return item{option: o, cpus: -after.cpus, mem: -after.mem, pageable: after.pageable}
}

// add adds an item; those of one task must be added one after the other.
func (p *pool) add(it item) {
	k := int32(len(p.items))
	if k == 0 || p.items[k-1].t != it.t {
		p.groups = append(p.groups, span{k, k})
	}
	it.group = int32(len(p.groups) - 1)
	p.groups[it.group].to = k + 1
	p.items = append(p.items, it)
}

// sets reports whether there are at most so many sets of at most one item from each
// group.
func (p *pool) sets(most int) bool {
	sets := 1
	for _, g := range p.groups {
		if sets *= int(g.to-g.from) + 1; sets > most {
			return false
		}
	}
	return true
}

// plus is the balance after it.
func (b balance) plus(it *item) balance {
	b.cpus -= it.cpus
	b.mem -= it.mem
	b.pageable += it.pageable
	b.blind = b.blind && it.mech != headrace.Suspend
	return b
}

// sumUp fills in what groups can free together.
func (p *pool) sumUp() {
	p.free = append(p.free, make([]balance, len(p.groups)+1)...)
	for g := len(p.groups) - 1; g >= 0; g-- {
		var most balance
		for i := p.groups[g].from; i < p.groups[g].to; i++ {
			it := &p.items[i]
			most.cpus, most.mem, most.pageable = max(most.cpus, it.cpus), max(most.mem, it.mem), max(most.pageable, it.pageable)
		}
		rest := p.free[g+1]
		p.free[g] = balance{cpus: most.cpus + rest.cpus, mem: most.mem + rest.mem, pageable: most.pageable + rest.pageable}
	}
}

// rounding is by how much sums of the same numbers may differ that were made in
// another order. What is within it is added up as it would be for a plan.
const rounding = 1e-7

// outOfReach reports whether u does not fit even if all groups from g on free what
// they can.
func (p *pool) outOfReach(b balance, g int) bool {
	b.cpus -= p.free[g].cpus
	b.mem -= p.free[g].mem
	b.pageable += p.free[g].pageable
	return b.cpus > slack+rounding || b.short(p.n.swap) > 0
}

// exhaust tries all sets of at most one item from each group from g on, added to
// acts, but for those that cannot be cheaper or cannot fit.
func (c *chooser) exhaust(p *pool, g int, b balance, y *tally, acts []act, f *found) {
	if f.ok && y.weighted+y.delay(p.n)*p.weight >= f.cost.total || !y.roomy(p.n) || p.outOfReach(b, g) {
		return
	}
	if g == len(p.groups) {
		c.consider(p.u, p.n, f, acts, b, y)
		return
	}
	c.exhaust(p, g+1, b, y, acts, f)
	for i := p.groups[g].from; i < p.groups[g].to; i++ {
		it := &p.items[i]
		next := *y
		next.count(&it.option)
		c.exhaust(p, g+1, b.plus(it), &next, append(acts, it.act), f)
	}
}

// score says how greedy compares options: less is better.
type score func(added, gained float64) float64

var scores = []score{perRoom, total}

func perRoom(added, gained float64) float64 { return added / gained }
func total(added, _ float64) float64        { return added }

// greedy makes a set by adding items from the pool until u fits, each time the one
// that adds the least cost by the given score, and keeps it in f if it is cheaper.
func (c *chooser) greedy(p *pool, by score, without restriction, f *found) {
	n, b := p.n, p.start
	var y tally
	c.acts = c.acts[:0]
	p.taken = append(p.taken[:0], make([]bool, len(p.groups))...)
	for !b.fits(n.swap) {
		best, least := -1, math.Inf(1)
		delay := y.delay(n)
		before := delay*p.weight + y.weighted
		for i := range p.items {
			it := &p.items[i]
			if p.taken[it.group] || slices.Contains(without, it.mech) {
				continue
			}
			gained := b.gain(b.plus(it), p.start, n.swap)
			if gained <= 0 {
				continue
			}
			after := it.delay
			if s := it.store; it.mech == headrace.Checkpoint {
				if y.bytes[s]+it.bytes > n.stores[s].free {
					continue
				}
				after = n.stores[s].queue + (y.busy[s] + it.delay)
			}
			added := max(delay, after)*p.weight + (y.weighted + it.weighted) - before
			if s := by(added, gained); s < least || best < 0 {
				best, least = i, s
			}
		}
		if best < 0 {
			return
		}
		it := &p.items[best]
		b = b.plus(it)
		y.count(&it.option)
		c.acts, p.taken[it.group] = append(c.acts, it.act), true
	}
	c.consider(p.u, n, f, c.acts, b, &y)
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
