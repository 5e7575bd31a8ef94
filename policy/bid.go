package policy

// bid is what it would take to make room for a task on a node, as far as nodes are
// compared by it: for the named policies, the number of those that must leave and
// the sums of their priorities and ranks; for Cost, the cost in keys.
type bid struct {
	// version is that of the node when this was found out; 0: never.
	version uint32
	// ok: there is a way.
	ok      bool
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

// planFor is the policy's plan for u on one of the nodes, or nil. It is valid until
// the next call.
func (d *decision) planFor(u *task, nodes []*node) *plan {
	if d.c.Policy == Cost {
		return d.cheapest(u, nodes)
	}
	if n := d.lowestBid(u, nodes); n != nil {
		return d.named(u, n)
	}
	return nil
}

// lowestBid is the one of the nodes that the policy prefers, the first of those
// that it likes as well, or nil. A node is asked again only when something has
// changed on it since it was asked for one of u's class.
func (d *decision) lowestBid(u *task, nodes []*node) *node {
	bids := d.bids(u, nodes)
	if u.class == nil || len(nodes) == 1 {
		for _, n := range nodes {
			bids[n.i].version = 0
		}
	}
	var best *node
	for _, n := range nodes {
		b := &bids[n.i]
		if version := d.versions[n.i]; b.version != version {
			*b = d.ask(u, n)
			b.version = version
		}
		if b.ok && (best == nil || b.sooner(&bids[best.i])) {
			best = n
		}
	}
	return best
}

// bids are what the nodes were found to take for u, indexed as the nodes are.
func (d *decision) bids(u *task, nodes []*node) []bid {
	if c := u.class; c != nil && len(nodes) > 1 {
		if len(c.bids) == 0 {
			c.bids = blank(c.bids, len(d.nodes))
		}
		return c.bids
	}
	if len(d.scratch) < len(d.nodes) {
		d.scratch = blank(d.scratch, len(d.nodes))
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

// ask finds out what n would take.
func (d *decision) ask(u *task, n *node) bid {
	if d.c.Policy == Cost {
		f := d.single(u, n)
		return bid{ok: f.ok, keys: f.cost.total, missing: d.missing(u, n)}
	}
	acts, ok := d.leaving(u, n)
	b := bid{ok: ok, victims: int32(len(acts))}
	for _, a := range acts {
		b.keys += a.t.rank
		if d.c.Policy != Adaptive {
			b.urgency += int32(a.t.Priority)
		}
	}
	return b
}
