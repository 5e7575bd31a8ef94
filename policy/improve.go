package policy

import (
	"cmp"
	"math"
	"slices"

	"headrace"
)

// mix is a set of items of a pool that is being improved, with its sums.
type mix struct {
	set   []int32 // indices of items
	taken []bool  // by group
	b     balance
	y     tally
	// stops, kills and dumps count the items of a kind; wait is the longest wait and
	// wait2 the longest but one.
	stops, kills int
	dumps        [maxStores]int
	wait2        float64
	pageable     byPriority
	// tried are the sets that have been improved.
	tried [][]int32
	// best is the best that came of this set; order and before are buffers.
	best   found
	order  []int32
	before []int32
}

func (m *mix) reset(p *pool) {
	m.set, m.tried = m.set[:0], m.tried[:0]
	m.taken = append(m.taken[:0], make([]bool, len(p.groups))...)
}

// put replaces the set.
func (m *mix) put(set []int32, p *pool) {
	for _, i := range m.set {
		m.taken[p.items[i].group] = false
	}
	m.set = append(m.set[:0], set...)
	for _, i := range m.set {
		m.taken[p.items[i].group] = true
	}
}

// sum adds the set up.
func (m *mix) sum(p *pool) {
	m.b, m.y = p.start, tally{}
	m.stops, m.kills, m.dumps, m.wait2, m.pageable = 0, 0, [maxStores]int{}, 0, p.pageable
	for _, i := range m.set {
		it := &p.items[i]
		switch it.mech {
		case headrace.Suspend:
			m.stops++
		case headrace.Kill:
			m.kills++
		case headrace.Checkpoint:
			m.dumps[it.store]++
		case headrace.Wait:
			m.wait2 = max(m.wait2, min(m.y.wait, it.delay))
		}
		m.pageable.add(it.t, it.pageable)
		m.b = m.b.plus(it)
		m.y.count(&it.option, it.weighted, it.bytes)
	}
}

// again reports whether the set has been improved before, and remembers it.
func (m *mix) again() bool {
	for _, set := range m.tried {
		if slices.Equal(set, m.set) {
			return true
		}
	}
	k := len(m.tried)
	if k < cap(m.tried) {
		m.tried = m.tried[:k+1]
	} else {
		m.tried = append(m.tried, nil)
	}
	m.tried[k] = append(m.tried[k][:0], m.set...)
	return false
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

// everything makes the set one item for each task in the pool, the cheapest, the
// dearest tasks first, so that improve drops those first.
func (d *decision) everything(p *pool, without restriction) {
	m := &d.mix
	m.order = m.order[:0]
	for i := range p.items {
		it := &p.items[i]
		if slices.Contains(without, it.mech) {
			continue
		}
		last := len(m.order) - 1
		if last < 0 || p.items[m.order[last]].group != it.group {
			m.order = append(m.order, int32(i))
		} else if d.alone(it) < d.alone(&p.items[m.order[last]]) {
			m.order[last] = int32(i)
		}
	}
	slices.SortStableFunc(m.order, func(a, b int32) int {
		return cmp.Compare(d.alone(&p.items[b]), d.alone(&p.items[a]))
	})
	m.put(m.order, p)
}

// alone is roughly what an item costs, for comparing items.
func (d *decision) alone(it *item) float64 {
	return (it.delay + it.waste) * d.weight(it.t.Priority)
}

// score says how greedy compares options: less is better.
type score func(added, gained float64) float64

var scores = []score{perRoom, total}

func perRoom(added, gained float64) float64 { return added / gained }
func total(added, _ float64) float64        { return added }

// greedy makes a set by adding items from the pool until u fits, each time the one
// that adds the least cost by the given score. It reports whether there is such a
// set, which then has at least one item.
func (d *decision) greedy(p *pool, by score, without restriction) bool {
	m, n := &d.mix, p.n
	m.put(nil, p)
	b := p.start
	var y tally
	for !b.fits(n.swap) {
		best, least := -1, math.Inf(1)
		delay := y.delay(n)
		before := delay*p.weight + y.weighted
		for i := range p.items {
			it := &p.items[i]
			if m.taken[it.group] || slices.Contains(without, it.mech) {
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
			return false
		}
		it := &p.items[best]
		b = b.plus(it)
		y.count(&it.option, it.weighted, it.bytes)
		m.set, m.taken[it.group] = append(m.set, int32(best)), true
	}
	return len(m.set) > 0
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

// improve drops, replaces and adds members of the set as long as that makes it
// cheaper, and keeps in f the cheapest that fits.
func (d *decision) improve(p *pool, f *found) {
	m := &d.mix
	if m.again() {
		return // with what came of it then
	}
	m.sum(p)
	m.best = found{acts: m.best.acts[:0]}
	d.acts = d.acts[:0]
	for _, i := range m.set {
		d.acts = append(d.acts, p.items[i].act)
	}
	d.consider(p.u, p.n, &m.best, d.acts, m.b, &m.y)
	for range widePasses {
		m.before = append(m.before[:0], m.set...)
		d.pass(p)
		if slices.Equal(m.before, m.set) {
			break
		}
	}
	if m.best.ok && (!f.ok || m.best.cost.total < f.cost.total) {
		acts := append(f.acts[:0], m.best.acts...)
		*f = m.best
		f.acts = acts
	}
}

// pass tries every single change to the set once.
func (d *decision) pass(p *pool) {
	m := &d.mix
	for i := 0; i < len(m.set); i++ {
		if d.change(p, i, -1) {
			i--
			continue
		}
		for k := range p.items {
			own := &p.items[m.set[i]]
			if g := p.items[k].group; (!m.taken[g] || g == own.group) && int32(k) != m.set[i] {
				d.change(p, i, k)
			}
		}
	}
	for k := range p.items {
		if !m.taken[p.items[k].group] {
			d.change(p, len(m.set), k)
		}
	}
}

// change replaces member i of the set, or none when i is their number, by item k of
// the pool, or by nothing when k is -1, if that is cheaper; it reports whether it
// was.
func (d *decision) change(p *pool, i, k int) bool {
	m := &d.mix
	var out, in *item
	if i < len(m.set) {
		out = &p.items[m.set[i]]
	}
	if k >= 0 {
		in = &p.items[k]
	}
	if !d.mayPay(p, out, in) {
		return false
	}
	b, y := p.start, tally{}
	d.acts = d.acts[:0]
	count := func(it *item) {
		if it != nil {
			d.acts = append(d.acts, it.act)
			b = b.plus(it)
			y.count(&it.option, it.weighted, it.bytes)
		}
	}
	for j, member := range m.set {
		if j == i {
			count(in)
		} else {
			count(&p.items[member])
		}
	}
	if i == len(m.set) {
		count(in)
	}
	if !d.consider(p.u, p.n, &m.best, d.acts, b, &y) {
		return false
	}
	switch {
	case out == nil:
		m.set = append(m.set, int32(k))
	case in == nil:
		m.set = slices.Delete(m.set, i, i+1)
	default:
		m.set[i] = int32(k)
	}
	if out != nil {
		m.taken[out.group] = false
	}
	if in != nil {
		m.taken[in.group] = true
	}
	m.sum(p)
	return true
}

// mayPay is false only when the set, with out replaced by in, either of them perhaps
// nil, does not fit or is not cheaper than the best. It takes the same time however
// large the set is.
func (d *decision) mayPay(p *pool, out, in *item) bool {
	m, n := &d.mix, p.n
	b, stops, kills, wait, weighted := m.b, m.stops, m.kills, m.y.wait, m.y.weighted
	exact := true // weighted is what adding up would give
	if out != nil {
		b.cpus += out.cpus
		b.mem += out.mem
		b.pageable -= out.pageable
		switch out.mech {
		case headrace.Suspend:
			stops--
		case headrace.Kill:
			kills--
		case headrace.Wait:
			if out.delay == wait {
				wait = m.wait2
			}
		}
		exact = out.weighted == 0 && out.mech != headrace.Checkpoint
		weighted -= out.weighted
	}
	if in != nil {
		b.cpus -= in.cpus
		b.mem -= in.mem
		b.pageable += in.pageable
		switch in.mech {
		case headrace.Suspend:
			stops++
		case headrace.Kill:
			kills++
		case headrace.Wait:
			wait = max(wait, in.delay)
		}
		exact = exact && in.weighted == 0 && in.mech != headrace.Checkpoint
		weighted += in.weighted
	}
	b.blind = p.start.blind && stops == 0
	if b.cpus > slack+rounding || b.short(n.swap) > 0 {
		return false
	}
	if !m.best.ok {
		return true
	}
	stop, delay := 0.0, wait
	if kills > 0 {
		delay = max(delay, d.c.KillTime.Seconds())
	}
	if stops > 0 {
		stop = d.c.StopTime.Seconds()
	}
	delay = max(delay, stop, d.dumping(p, out, in))
	if page := b.page(); page > 0 {
		exact = false
		paging := d.paging(n, page)
		delay = max(delay, stop+paging.delay)
		weighted += d.pagingWaste(p, out, in, page)
	}
	least := weighted + delay*p.weight
	if exact {
		return least < m.best.cost.total
	}
	return least < m.best.cost.total*(1+rounding)+rounding
}

// pagingWaste is the weighted waste of paging out so many bytes, those of the least
// urgent tasks first, from the set with out replaced by in.
func (d *decision) pagingWaste(p *pool, out, in *item, bytes int64) float64 {
	pageable := d.mix.pageable
	if out != nil {
		pageable.add(out.t, -out.pageable)
	}
	if in != nil {
		pageable.add(in.t, in.pageable)
	}
	var waste float64
	for i := 0; bytes > 0 && i < len(pageable); i++ {
		if some := min(bytes, pageable[i]); some > 0 {
			waste += d.paging(p.n, some).waste * d.weights[i]
			bytes -= some
		}
	}
	return waste
}

// dumping is how long the dumps of the set take, with out replaced by in.
func (d *decision) dumping(p *pool, out, in *item) float64 {
	m := &d.mix
	longest := 0.0
	for s := range min(len(p.n.stores), maxStores) {
		dumps, busy := m.dumps[s], m.y.busy[s]
		if out != nil && out.mech == headrace.Checkpoint && out.store == s {
			dumps--
			busy -= out.delay
		}
		if in != nil && in.mech == headrace.Checkpoint && in.store == s {
			dumps++
			busy += in.delay
		}
		if dumps > 0 {
			longest = max(longest, p.n.stores[s].queue+busy)
		}
	}
	return longest
}
