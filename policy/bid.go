package policy

// bid is what it would take to make room for a task on a node, as far as nodes are
// compared by it: for the named policies, the number of those that must leave and
// the sums of their priorities and ranks; for Cost, the cost in keys.
type bid struct {
	// version is that of the node when this was found out; 0: never.
	version uint32
	// promising: there could be a way. ok: there is one, for Cost by a single act at
	// most.
	promising, ok bool

	victims int32
	urgency int32
	keys    float64
	// missing is how much is missing on the node as it is; only for Cost.
	missing float64
}

// sooner reports whether the policy prefers a to b: fewer victims, then less urgent
// ones, then those that the victim order puts first.
func (a *bid) sooner(b *bid) bool {
	if a.victims != b.victims {
		return a.victims < b.victims
	}
	if a.urgency != b.urgency {
		return a.urgency < b.urgency
	}
	return a.keys < b.keys
}

// planFor is the policy's plan for u on one of its spots, or nil. It is valid until
// the next call.
func (d *decision) planFor(u *task, s spots) *plan {
	bids := d.bids(u, s)
	n := d.lowestBid(u, s, bids)
	switch {
	case d.c.Policy == Cost:
		return d.cheapest(u, s, bids, n)
	case n == nil:
		return nil
	}
	return d.named(u, n)
}

// lowestBid is the spot that the policy prefers, the first of those that it likes as
// well, or nil.
func (d *decision) lowestBid(u *task, s spots, bids []bid) *node {
	var best *node
	if s.home != nil && d.ask(u, s.home, bids).ok {
		best = s.home
	}
	if !s.several() {
		return best
	}
	for i, n := range d.every {
		b := &bids[i]
		if b.version != d.versions[i] {
			b = d.ask(u, n, bids)
		}
		if b.ok && n != s.home && (best == nil || b.sooner(&bids[best.i])) && d.isSpot(u, s, n) {
			best = n
		}
	}
	return best
}

// bids are what the nodes were found to take for u, indexed as the nodes are.
func (d *decision) bids(u *task, s spots) []bid {
	if c := u.class; c != nil && s.several() {
		if len(c.bids) == 0 {
			c.bids = blank(c.bids, len(d.nodes))
		}
		return c.bids
	}
	if s.several() || len(d.scratch) < len(d.nodes) {
		d.scratch = blank(d.scratch, len(d.nodes))
	}
	if s.home != nil {
		d.scratch[s.home.i] = bid{}
	}
	return d.scratch
}

// blank is so many empty bids, in the memory of old if that is enough.
func blank(old []bid, n int) []bid {
	if cap(old) < n {
		return make([]bid, n)
	}
	old = old[:n]
	clear(old)
	return old
}

// ask is what n would take for u. A node is asked again only when something has
// changed on it since it was asked for one of u's class.
func (d *decision) ask(u *task, n *node, bids []bid) *bid {
	b := &bids[n.i]
	if b.version == d.versions[n.i] {
		return b
	}
	*b = bid{version: d.versions[n.i], promising: d.promising(u, n)}
	switch {
	case !b.promising:
	case d.c.Policy == Cost:
		f := d.single(u, n)
		b.ok, b.keys, b.missing = f.ok, f.cost.total, d.missing(u, n)
	default:
		acts, ok := d.leaving(u, n)
		b.ok, b.victims = ok, int32(len(acts))
		for _, a := range acts {
			b.keys += a.t.rank
			if d.c.Policy != Adaptive {
				b.urgency += int32(a.t.Priority)
			}
		}
	}
	return b
}

// promising reports whether there is anything on n that could make room for u.
func (d *decision) promising(u *task, n *node) bool {
	return possible(u, n) && (n.lowest < u.Priority || n.pageable > 0 || d.c.Policy == Cost && n.first >= 0)
}
