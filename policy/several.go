package policy

import (
	"math"
	"slices"

	"headrace"
)

// item is an option of the pool, with what it changes.
type item struct {
	option
	group    int32   // items of one task are one group
	weighted float64 // its waste
	cpus     float64 // what it frees
	mem      int64
	pageable int64 // by how much more could be paged out
	bytes    int64 // to be written to its store
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
func (d *decision) several(u *task, n *node, f *found) {
	if !d.conceivable(u, n) || !d.worthwhile(u, n, f) {
		return
	}
	p := d.gather(u, n, f)
	if len(p.items) < 2 {
		return
	}
	if !p.sets(d.allSets) {
		d.greedySets(p, f)
		return
	}
	p.sumUp()
	d.acts = slices.Grow(d.acts[:0], len(p.groups))
	d.exhaust(p, 0, p.start, &tally{}, d.acts, f)
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
func (d *decision) greedySets(p *pool, f *found) {
	for _, without := range restrictions {
		for _, by := range scores {
			d.greedy(p, by, without, f)
		}
	}
}

// floor is what any set with o costs at least.
func (d *decision) floor(u *task, n *node, o *option) float64 {
	delay := o.delay
	if o.mech == headrace.Checkpoint {
		delay += n.stores[o.store].queue
	}
	return o.waste*d.weight(o.t.Priority) + delay*d.weight(u.Priority)
}

// worthwhile reports whether acts for two tasks or more could be part of a set that
// costs less than what is known.
func (d *decision) worthwhile(u *task, n *node, f *found) bool {
	if !f.ok {
		return true
	}
	tasks := 0
	pays := func(a act) bool { return d.floor(u, n, &option{a, d.price(n, a)}) < f.cost.total }
	dumps := func(t *task) bool {
		for i := range min(len(n.stores), maxStores) {
			if canDump(t, i, nil) && pays(act{t, headrace.Checkpoint, i}) {
				return true
			}
		}
		return false
	}
	for _, t := range n.running {
		switch {
		case t.settled:
			continue
		case !d.eligible(u, t):
			if !t.share || !pays(act{t, headrace.Wait, -1}) {
				continue
			}
		case t.NoSuspend == "" && pays(act{t, headrace.Suspend, -1}):
		case !pays(act{t, headrace.Kill, -1}) && !pays(act{t, headrace.Wait, -1}) && !dumps(t):
			continue
		}
		if tasks++; tasks > 1 {
			return true
		}
	}
	for _, t := range n.suspended {
		if d.movable(u, t) && dumps(t) {
			if tasks++; tasks > 1 {
				return true
			}
		}
	}
	return false
}

// gather makes the pool. An act that makes room on its own, without page-outs, need
// not be part of a set: the set without the others would be cheaper. Nor need one
// that alone costs as much as the best that is known.
func (d *decision) gather(u *task, n *node, best *found) *pool {
	p := &d.pool
	*p = pool{u: u, n: n, start: d.balance(u, n), weight: d.weight(u.Priority), items: p.items[:0], groups: p.groups[:0], taken: p.taken, free: p.free[:0]}
	options := d.options(n)
	for i := range options {
		o := &options[i]
		if !d.usable(u, o) {
			continue
		}
		if best.ok && d.floor(u, n, o) >= best.cost.total {
			continue
		}
		if b := p.start.with(o.act); !b.fits(n.swap) || b.page() > 0 {
			p.add(d.item(n, o))
		}
	}
	return p
}

func (d *decision) item(n *node, o *option) item {
	it := item{option: *o, weighted: o.waste * d.weight(o.t.Priority)}
	after := balance{}.with(o.act)
	it.cpus, it.mem, it.pageable = -after.cpus, -after.mem, after.pageable
	if o.mech == headrace.Checkpoint {
		it.bytes = dumpBytes(o.t.TaskView, n.stores[o.store].StoreView)
	}
	return it
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
func (d *decision) exhaust(p *pool, g int, b balance, y *tally, acts []act, f *found) {
	if f.ok && y.weighted+y.delay(p.n)*p.weight >= f.cost.total || !y.roomy(p.n) || p.outOfReach(b, g) {
		return
	}
	if g == len(p.groups) {
		d.consider(p.u, p.n, f, acts, b, y)
		return
	}
	d.exhaust(p, g+1, b, y, acts, f)
	for i := p.groups[g].from; i < p.groups[g].to; i++ {
		it := &p.items[i]
		next := *y
		next.count(&it.option, it.weighted, it.bytes)
		d.exhaust(p, g+1, b.plus(it), &next, append(acts, it.act), f)
	}
}

// score says how greedy compares options: less is better.
type score func(added, gained float64) float64

var scores = []score{perRoom, total}

func perRoom(added, gained float64) float64 { return added / gained }
func total(added, _ float64) float64        { return added }

// greedy makes a set by adding items from the pool until u fits, each time the one
// that adds the least cost by the given score, and keeps it in f if it is cheaper.
func (d *decision) greedy(p *pool, by score, without restriction, f *found) {
	n, b := p.n, p.start
	var y tally
	d.acts = d.acts[:0]
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
		y.count(&it.option, it.weighted, it.bytes)
		d.acts, p.taken[it.group] = append(d.acts, it.act), true
	}
	d.consider(p.u, n, f, d.acts, b, &y)
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
