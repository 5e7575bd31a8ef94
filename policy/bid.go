package policy

// bid is what it would take to make room for a task on a node, as far as nodes are
// compared by it: for the named policies, the number of those that must leave and
// the sums of their priorities and ranks; for Cost, the cost in keys.
type bid struct {
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

// bid is what it would take to make room for u on n.
func (c *chooser) bid(u *task, n *node) bid {
	b := bid{promising: c.promising(u, n)}
	switch {
	case !b.promising:
	case c.weighs():
		f := c.single(u, n)
		b.ok, b.keys, b.missing = f.ok, f.cost.total, n.missing(u)
	default:
		acts, ok := c.leaving(u, n)
		b.ok, b.victims = ok, int32(len(acts))
		for _, a := range acts {
			b.keys += a.t.rank
			if c.policy != ruleAdaptive {
				b.urgency += int32(a.t.Priority)
			}
		}
	}
	return b
}

// promising reports whether there is anything on n that could make room for u.
func (c *chooser) promising(u *task, n *node) bool {
	return n.possible(u) && (n.lowest < u.Priority || n.pageable > 0 || c.weighs() && n.first >= 0)
}
