package victims

import (
	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
)

// Plan is a way of making room for one task on one node.
type Plan struct {
	Node *books.Node
	Acts []books.Act
	// Page is how much memory must go to swap besides.
	Page int64
	Cost price.Cost
	// slot is what the node costs for what it has of the input of the task that comes.
	slot float64
}

// Waits reports whether a part of the plan is to wait, so that nothing is to be
// done yet.
func (p *Plan) Waits() bool {
	for _, a := range p.Acts {
		if a.By == headrace.Wait {
			return true
		}
	}
	return false
}

// OnlyWaits reports whether the plan is only to wait for tasks that could not be preempted
// for u, before it is applied.
func (p *Plan) OnlyWaits(u *books.Task) bool {
	for _, a := range p.Acts {
		if a.By != headrace.Wait || eligible(u, a.Task) {
			return false
		}
	}
	return len(p.Acts) > 0
}

// Chooser chooses who leaves a node, and how.
type Chooser struct {
	policy Policy
	order  Order
	model  *price.Model
	// Most is up to how many sets on one node are all tried.
	Most int

	plan              Plan
	acts, prefs, best []books.Act
	tried             []books.Act // of ActsOn
	one               [1]books.Act
	pool              pool
}

// New returns a chooser for a policy, which sorts victims by the given order.
func New(p Policy, by Order, m *price.Model) *Chooser {
	return &Chooser{policy: p, order: by, model: m, Most: allSets}
}

// Weighs reports whether bids are costs, so that sets of several victims on another
// node than that of the lowest bid may cost less.
func (c *Chooser) Weighs() bool { return c.policy == Cost }

// Slot says what it costs that u runs on n, which has so much of its input in memory.
func (c *Chooser) Slot(u *books.Task, n *books.Node, resident int64) float64 {
	return c.model.Slot(u, n, resident)
}

// Choose returns the policy's plan for u on n, or nil. It is valid until the next call.
func (c *Chooser) Choose(u *books.Task, n *books.Node) *Plan {
	switch {
	case !c.promising(u, n):
		return nil
	case c.Weighs():
		c.Forget()
		c.ImproveAlone(u, n, 0)
		c.Improve(u, n, 0)
		return c.Chosen()
	}
	return c.Named(u, n)
}

// eligible reports whether v, which runs on a node that has been opened, may be
// preempted for u.
func eligible(u, v *books.Task) bool {
	return !v.Settled && v.Priority < u.Priority && !v.Guard.Against(u.Aged)
}

// yields reports whether any task that runs on n could be preempted for u, or waited
// for by Cost.
func yields(n *books.Node, u *books.Task) bool { return n.LowestRunning < u.Priority || n.Shares }

// Movable reports whether the suspended task v may be turned into a checkpoint
// for u, or for nobody in particular when u is nil.
func Movable(u, v *books.Task) bool {
	return !v.Settled && !v.Held && v.Order == 0 && v.PagingOut == 0 && v != u &&
		(u == nil || v.Priority < u.Priority)
}

// ActsOn returns the acts on t that may be used for u now, on their own or with others. One
// may wait for any task that says how much of it is done, for others only in place of
// preempting them: of many unknown ages one is always small. It is valid until the next
// call.
func (c *Chooser) ActsOn(u, t *books.Task) []books.Act {
	c.tried = c.tried[:0]
	switch {
	case t.State == headrace.Suspended && t.Members != nil:
		if Movable(u, t) && t.Whole != u.Whole && !t.Whole.Done {
			c.tryKill(u, t) // it holds memory and devices
		}
	case t.State == headrace.Suspended:
		if Movable(u, t) {
			c.tryDumps(t)
			if u.Counted != nil && t.Counted != nil && t.Gang == 0 {
				c.tryKill(u, t) // it holds its devices
			}
		}
	case eligible(u, t):
		if t.NoSuspend == "" {
			c.tried = append(c.tried, books.By(t, headrace.Suspend))
		}
		c.tryDumps(t)
		c.tryKill(u, t)
		c.tried = append(c.tried, books.By(t, headrace.Wait))
	case t.KnowsShare && !t.Settled:
		c.tried = append(c.tried, books.By(t, headrace.Wait))
	}
	return c.tried
}

func (c *Chooser) tryKill(u, t *books.Task) {
	if t.KilledFor(u) {
		c.tried = append(c.tried, books.By(t, headrace.Kill))
	}
}

func (c *Chooser) tryDumps(t *books.Task) {
	for i := range min(len(t.Home.Stores), price.MaxStores) {
		if books.CanDump(t, i, nil) {
			c.tried = append(c.tried, books.DumpTo(t, i))
		}
	}
}
