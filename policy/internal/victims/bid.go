package victims

import (
	"headrace"
	"headrace/policy/internal/books"
)

// Bid is what it would take to make room for a task on a node, as far as nodes are
// compared by it: for the named policies, the number of those that must leave and
// the sums of their priorities and ranks; for Cost, the cost in keys.
type Bid struct {
	// Promising: there could be a way, for Cost if all leave who may. OK: there is one, for
	// Cost by a single act at most.
	Promising, OK bool

	victims int32
	urgency int32
	keys    float64
	// alone is the one task that would leave, nil where none would; only for Cost,
	// where it counts between bids that cost the same.
	alone *books.Task
	// Missing is how much is missing on the node as it is; only for Cost.
	Missing float64
}

// Sooner reports whether the policy prefers a to b: fewer victims, then less urgent
// ones, then those that the victim order puts first. Cost prefers what costs less, then
// the victim that comes first; more is by how much the node of a costs more for other reasons.
func (c *Chooser) Sooner(a, b *Bid, more float64) bool {
	if a.victims != b.victims {
		return a.victims < b.victims
	}
	if a.urgency != b.urgency {
		return a.urgency < b.urgency
	}
	if keys := a.keys + more; keys != b.keys {
		return keys < b.keys
	}
	switch x, y := a.alone, b.alone; {
	case x == nil || y == nil:
		return x == nil && y != nil
	case x.Whole != nil && x.Whole == y.Whole:
		return false // it is the same gang
	default:
		return c.compareVictims(x, y) < 0
	}
}

// Bid says what it would take to make room for u on n.
func (c *Chooser) Bid(u *books.Task, n *books.Node) Bid {
	b := Bid{Promising: c.promising(u, n)}
	switch {
	case !b.Promising:
	case c.Weighs():
		f := c.single(u, n)
		b.OK, b.keys, b.Missing = f.ok, f.cost.Total, n.Missing(u)
		if len(f.acts) == 1 && f.acts[0].By != headrace.Wait {
			b.alone = f.acts[0].Task
		}
		b.Promising = b.OK || c.conceivable(u, n)
	default:
		acts, ok := c.leaving(u, n)
		b.OK = ok
		for _, a := range acts {
			b.victims += int32(a.Task.Heads())
			b.keys += a.Task.Rank
			if c.policy != Adaptive {
				b.urgency += int32(a.Task.Priority)
			}
		}
	}
	return b
}

// promising reports whether there is anything on n that could make room for u.
func (c *Chooser) promising(u *books.Task, n *books.Node) bool {
	return n.Possible(u) && (books.Lowest(n) < u.Priority || n.Pageable > 0 || c.Weighs() && n.Runs())
}
