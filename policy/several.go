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
	// pageable is what could be paged out as it is, by priority.
	pageable byPriority
	items    []item
	groups   []span
	// The items are the same for all costs of the best known before that are more
	// than above and at most upTo.
	above, upTo float64
	// free is, for each group, the most that it and those behind it can free.
	free []balance
}

type byPriority [headrace.MaxPriority + 1]int64

func (b *byPriority) add(t *task, bytes int64) { b[min(t.Priority, headrace.MaxPriority)] += bytes }

// span is a range of items.
type span struct{ from, to int32 }

// search is what several came to on one node for one class: found, when the best
// known before costs more than above and at most upTo.
type search struct {
	version     uint32 // of the node
	above, upTo float64
	found       found
}

// recall is several for a task of u's class, from memory where that is possible.
func (d *decision) recall(u *task, n *node, memory []search, f *found) {
	before := math.Inf(1)
	if f.ok {
		before = f.cost.total
	}
	if memory == nil {
		if d.conceivable(u, n) {
			d.several(u, n, before, f)
		}
		return
	}
	m := &memory[n.i]
	if m.version != d.versions[n.i] || !(m.above < before && before <= m.upTo) {
		m.version, m.above, m.upTo = d.versions[n.i], math.Inf(-1), math.Inf(1)
		m.found = found{acts: m.found.acts[:0]}
		if d.conceivable(u, n) {
			m.found.cost, m.found.ok = f.cost, f.ok
			m.above, m.upTo = d.several(u, n, before, &m.found)
		}
	}
	if m.found.ok && m.found.cost.total < before {
		*f = m.found
	}
}

// several looks for a way by several acts that costs less than f, which costs as
// much as before says: by trying all sets where they are few, else by greedy choice
// and improvement of what that finds. What it comes to is the same for all costs
// before that are more than above and at most upTo.
func (d *decision) several(u *task, n *node, before float64, f *found) (above, upTo float64) {
	if !d.worthwhile(u, n, f) {
		return math.Inf(-1), before
	}
	p := d.gather(u, n, before)
	if len(p.items) >= 2 && p.sets(d.allSets) {
		p.sumUp()
		d.acts = slices.Grow(d.acts[:0], len(p.groups))
		d.exhaust(p, 0, p.start, &tally{}, d.acts, f)
	} else if len(p.items) >= 2 {
		d.improveAll(p, f)
	}
	if f.ok && f.cost.total < before {
		return p.above, p.upTo
	}
	return p.above, before
}

// improveAll improves all first sets.
func (d *decision) improveAll(p *pool, f *found) {
	d.mix.reset(p)
	d.improve(p, f)
	for _, without := range restrictions {
		for _, by := range scores {
			if d.greedy(p, by, without) {
				d.improve(p, f)
			}
		}
		d.everything(p, without)
		d.improve(p, f)
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
// that alone costs as much as the best known before.
func (d *decision) gather(u *task, n *node, before float64) *pool {
	p := &d.pool
	*p = pool{u: u, n: n, start: d.balance(u, n), weight: d.weight(u.Priority), items: p.items[:0], groups: p.groups[:0], free: p.free[:0], above: math.Inf(-1), upTo: math.Inf(1)}
	for _, t := range n.suspended {
		if t != u && !t.settled {
			p.pageable.add(t, t.pageable())
		}
	}
	options := d.options(n)
	for i := range options {
		o := &options[i]
		if !d.usable(u, o) {
			continue
		}
		floor := d.floor(u, n, o)
		if floor >= before {
			p.upTo = min(p.upTo, floor)
			continue
		}
		if b := p.start.with(o.act); !b.fits(n.swap) || b.page() > 0 {
			p.above = max(p.above, floor)
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
