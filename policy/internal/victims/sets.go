package victims

import (
	"cmp"
	"slices"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
)

// allSets is up to how many sets on one node are all tried.
const allSets = 2000

// item is an option of the pool, with what it changes.
type item struct {
	price.Option
	group    int32   // items of one task are one group
	cpus     float64 // what it frees
	mem      int64
	pageable int64 // by how much more could be paged out
}

// ranked is an option as greedy compares them: the item of that index.
type ranked struct {
	score float64
	at    int32
}

// pool is the options from which sets are made for one task on one node.
type pool struct {
	u      *books.Task
	n      *books.Node
	start  books.Balance
	weight float64 // of u
	items  []item
	groups []span
	taken  []bool // by group, for greedy
	ranked []ranked
	// free is, for each group, the most that it and those behind it can free.
	free []books.Balance
}

// span is a range of items.
type span struct{ from, to int32 }

// several looks for a way by several acts that costs less than f: by trying all sets
// where they are few, else by greedy choice. Improving step by step what that finds
// gave no better days in simulation.
func (c *Chooser) several(u *books.Task, n *books.Node, f *found) {
	if !c.conceivable(u, n) || !c.worthwhile(u, n, f) {
		return
	}
	p := c.gather(u, n, f)
	if len(p.items) < 2 {
		return
	}
	if !p.sets(c.Most) {
		c.greedySets(p, f)
		return
	}
	p.sumUp()
	c.acts = slices.Grow(c.acts[:0], len(p.groups))
	c.exhaust(p, 0, p.start, &price.Tally{}, c.acts, f)
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

// greedySets keeps the cheapest of the sets that greedy makes. A restriction by what the pool does
// not have leads to a set that has been made already.
func (c *Chooser) greedySets(p *pool, f *found) {
	for _, without := range restrictions {
		if slices.ContainsFunc(without, func(m headrace.Mechanism) bool { return !p.has(m) }) {
			continue
		}
		for _, by := range scores {
			c.greedy(p, by, without, f)
		}
	}
}

// has reports whether an item of p is by m.
func (p *pool) has(m headrace.Mechanism) bool {
	return slices.ContainsFunc(p.items, func(it item) bool { return it.By == m })
}

// conceivable reports whether u would fit on n if all that may leave for it did, as
// far as that can be said without looking at how: it is never false when there is a
// set of acts that makes room.
func (c *Chooser) conceivable(u *books.Task, n *books.Node) bool {
	b := n.Balance(u)
	if yields(n, u) {
		n.Open()
		for _, t := range n.Running {
			if !t.Settled && (t.KnowsShare || eligible(u, t)) {
				b.CPUs -= t.CPUs
				b.Mem -= books.Held(t.TaskView)
				b.Pageable += t.Pageable()
			}
		}
	}
	if b.CPUs > books.Slack+rounding {
		return false
	}
	for _, t := range books.SuspendedBelow(n, u.Priority) {
		if Movable(u, t) {
			b.Mem -= t.Resident - t.Paging
		}
	}
	for _, t := range n.Away {
		b.Mem -= books.Stays(t.TaskView)
	}
	return b.Short(n.Swap) == 0
}

// worthwhile reports whether acts for two tasks or more could be part of a set that
// costs less than what is known.
func (c *Chooser) worthwhile(u *books.Task, n *books.Node, f *found) bool {
	if !f.ok {
		return true
	}
	tasks := 0
	cheaper := func(a books.Act) bool { return c.model.Floor(u, n, a, c.model.Of(n, a)) < f.cost.Total }
	for _, some := range [][]*books.Task{n.Running, books.SuspendedBelow(n, u.Priority), n.Away} {
		for _, t := range some {
			if slices.ContainsFunc(c.ActsOn(u, t), cheaper) {
				if tasks++; tasks > 1 {
					return true
				}
			}
		}
	}
	return false
}

// gather makes the pool. An act that makes room on its own, without page-outs, need
// not be part of a set: the set without the others would be cheaper. Nor need one
// that alone costs as much as the best that is known.
func (c *Chooser) gather(u *books.Task, n *books.Node, best *found) *pool {
	p := &c.pool
	*p = pool{u: u, n: n, start: n.Balance(u), weight: c.model.Urgency(u), items: p.items[:0], groups: p.groups[:0], taken: p.taken, ranked: p.ranked, free: p.free[:0]}
	c.Rank(n)
	for _, tasks := range [][]*books.Task{n.Running, books.SuspendedBelow(n, u.Priority), n.Away} {
		for _, t := range tasks {
			for _, a := range c.ActsOn(u, t) {
				alone := c.model.Of(n, a)
				if best.ok && c.model.Floor(u, n, a, alone) >= best.cost.Total {
					continue
				}
				if b := p.start.With(a); !b.Fits(n.Swap) || b.Page() > 0 {
					p.add(newItem(c.model.Option(n, a, alone)))
				}
			}
		}
	}
	return p
}

func newItem(o price.Option) item {
	after := books.Balance{}.With(o.Act)
	return item{Option: o, cpus: -after.CPUs, mem: -after.Mem, pageable: after.Pageable}
}

// add adds an item; those of one task must be added one after the other.
func (p *pool) add(it item) {
	k := int32(len(p.items))
	if k == 0 || p.items[k-1].Task != it.Task {
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

// after returns the balance b after it.
func (it *item) after(b books.Balance) books.Balance {
	b.CPUs -= it.cpus
	b.Mem -= it.mem
	b.Pageable += it.pageable
	if b.Rest != nil {
		b.Rest = b.Rest.After(it.Act)
	}
	return b
}

// sumUp fills in what groups can free together.
func (p *pool) sumUp() {
	p.free = append(p.free, make([]books.Balance, len(p.groups)+1)...)
	for g := len(p.groups) - 1; g >= 0; g-- {
		var most books.Balance
		for i := p.groups[g].from; i < p.groups[g].to; i++ {
			it := &p.items[i]
			most.CPUs, most.Mem, most.Pageable = max(most.CPUs, it.cpus), max(most.Mem, it.mem), max(most.Pageable, it.pageable)
		}
		rest := p.free[g+1]
		p.free[g] = books.Balance{CPUs: most.CPUs + rest.CPUs, Mem: most.Mem + rest.Mem, Pageable: most.Pageable + rest.Pageable}
	}
}

// rounding is by how much sums of the same numbers may differ that were made in
// another order. What is within it is added up as it would be for a plan.
const rounding = 1e-7

// outOfReach reports whether u does not fit even if all groups from g on free what
// they can.
func (p *pool) outOfReach(b books.Balance, g int) bool {
	b.CPUs -= p.free[g].CPUs
	b.Mem -= p.free[g].Mem
	b.Pageable += p.free[g].Pageable
	return b.CPUs > books.Slack+rounding || b.Short(p.n.Swap) > 0
}

// exhaust tries all sets of at most one item from each group from g on, added to
// acts, but for those that cannot be cheaper or cannot fit.
func (c *Chooser) exhaust(p *pool, g int, b books.Balance, y *price.Tally, acts []books.Act, f *found) {
	if f.ok && y.Weighted+y.Delay(p.u, p.n)*p.weight >= f.cost.Total || !y.Roomy(p.n) || p.outOfReach(b, g) {
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
		next.Count(&it.Option)
		c.exhaust(p, g+1, it.after(b), &next, append(acts, it.Act), f)
	}
}

// score says how greedy compares options: less is better.
type score func(added, gained float64) float64

var scores = []score{perRoom, total}

func perRoom(added, gained float64) float64 { return added / gained }
func total(added, _ float64) float64        { return added }

// fewTaken is up to how many victims greedy looks at all options again for each. Of more it
// takes as many at a time as it has, so that very many small ones take no more time each.
const fewTaken = 16

// greedy makes a set by adding items from the pool until u fits, each time the one
// that adds the least cost by the given score, and keeps it in f if it is cheaper.
func (c *Chooser) greedy(p *pool, by score, without restriction, f *found) {
	n, b := p.n, p.start
	var y price.Tally
	c.acts = c.acts[:0]
	p.taken = append(p.taken[:0], make([]bool, len(p.groups))...)
	for !b.Fits(n.Swap) {
		if f.ok && y.Weighted+y.Delay(p.u, n)*p.weight >= f.cost.Total {
			return // what is added only adds to that
		}
		before := len(c.acts)
		for _, r := range p.rank(b, &y, by, without, before < fewTaken) {
			it := &p.items[r.at]
			if p.taken[it.group] || len(c.acts) > before && !(gain(b, it.after(b), p.start, n.Swap) > 0 && it.roomy(&y, n)) {
				continue
			}
			b = it.after(b)
			y.Count(&it.Option)
			c.acts, p.taken[it.group] = append(c.acts, it.Act), true
			if before < fewTaken || len(c.acts) == 2*before || b.Fits(n.Swap) {
				break
			}
		}
		if len(c.acts) == before {
			return
		}
	}
	c.consider(p.u, n, f, c.acts, b, &y)
}

// rank returns the items that bring u nearer to fitting, those first that add the least cost
// by the given score to a set of balance b and tally y; as long as few are taken only the first
// of them. It is valid until the next call.
func (p *pool) rank(b books.Balance, y *price.Tally, by score, without restriction, few bool) []ranked {
	n := p.n
	delay := y.Delay(p.u, n)
	before := delay*p.weight + y.Weighted
	p.ranked = p.ranked[:0]
	for i := range p.items {
		it := &p.items[i]
		if p.taken[it.group] || slices.Contains(without, it.By) {
			continue
		}
		gained := gain(b, it.after(b), p.start, n.Swap)
		if gained <= 0 || !it.roomy(y, n) {
			continue
		}
		after := it.Delay
		if s := it.Store; it.By == headrace.Checkpoint {
			after = n.Stores[s].Wait(p.u.TaskView) + (y.Busy[s] + it.Delay)
		}
		r := ranked{by(max(delay, after)*p.weight+(y.Weighted+it.Weighted)-before, gained), int32(i)}
		switch {
		case !few || len(p.ranked) == 0:
			p.ranked = append(p.ranked, r)
		case r.score < p.ranked[0].score:
			p.ranked[0] = r
		}
	}
	if !few {
		slices.SortFunc(p.ranked, func(a, b ranked) int { return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.at, b.at)) })
	}
	return p.ranked
}

// roomy reports whether there is room for it in its store besides those of y.
func (it *item) roomy(y *price.Tally, n *books.Node) bool {
	return it.By != headrace.Checkpoint || y.Bytes[it.Store]+it.Bytes <= n.Stores[it.Store].Free
}

// gain says by which share of what was missing at the start next is nearer to
// fitting than b.
func gain(b, next, start books.Balance, swap int64) float64 {
	var g float64
	if start.CPUs > books.Slack {
		g += (max(0, b.CPUs) - max(0, next.CPUs)) / start.CPUs
	}
	if start.Rest != nil {
		if lacks := start.Rest.Lacking(); lacks > 0 {
			g += (b.Rest.Lacking() - next.Rest.Lacking()) / lacks
		}
	}
	missing := max(start.Short(swap), b.Short(swap), next.Short(swap))
	if missing > 0 {
		g += float64(b.Short(swap)-next.Short(swap)) / float64(missing)
	}
	return g
}
