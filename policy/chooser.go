package policy

import "headrace"

// plan is a way of making room for one task on one node.
type plan struct {
	n    *node
	acts []act
	// page is how much memory must go to swap besides.
	page int64
	cost cost
}

// waits reports whether a part of the plan is to wait, so that nothing is to be
// done yet.
func (p *plan) waits() bool {
	for _, a := range p.acts {
		if a.mech == headrace.Wait {
			return true
		}
	}
	return false
}

// chooser chooses who leaves a node, and how.
type chooser struct {
	policy rule
	by     byOrder
	model  *model
	most   int // sets that are all tried

	plan              plan
	acts, prefs, best []act
	tried             []act // of actsOn
	one               [1]act
	pool              pool
}

// newChooser is a chooser for a policy, which sorts victims by the given order.
func newChooser(p rule, by byOrder, m *model) *chooser {
	return &chooser{policy: p, by: by, model: m, most: allSets}
}

// weighs reports whether bids are costs, so that sets of several victims on another
// node than that of the lowest bid may cost less.
func (c *chooser) weighs() bool { return c.policy == ruleCost }

// choose is the policy's plan for u on n, or nil. It is valid until the next call.
func (c *chooser) choose(u *task, n *node) *plan {
	switch {
	case !c.promising(u, n):
		return nil
	case c.weighs():
		c.forget()
		c.improveAlone(u, n)
		c.improve(u, n)
		return c.chosen()
	}
	return c.named(u, n)
}

// eligible reports whether v, which runs on a node that has been opened, may be
// preempted for u.
func eligible(u, v *task) bool {
	return !v.settled && v.Priority < u.Priority && !v.guard.against(u.eff)
}

// yields reports whether any task that runs on n could be preempted for u, or waited
// for by Cost.
func yields(n *node, u *task) bool { return n.lowest < u.Priority || n.shares }

// movable reports whether the suspended task v may be turned into a checkpoint
// for u, or for nobody in particular when u is nil.
func movable(u, v *task) bool {
	return !v.settled && !v.Held && v.order == 0 && v.PagingOut == 0 && v != u &&
		(u == nil || v.Priority < u.Priority)
}

// actsOn are the acts on t that may be used for u now, on their own or with others. One
// may wait for any task that says how much of it is done, for others only in place of
// preempting them: of many unknown ages one is always small. It is valid until the next
// call.
func (c *chooser) actsOn(u, t *task) []act {
	c.tried = c.tried[:0]
	switch {
	case t.State == headrace.Suspended:
		if movable(u, t) {
			c.tryDumps(t)
		}
	case eligible(u, t):
		if t.NoSuspend == "" {
			c.tried = append(c.tried, act{t, headrace.Suspend, -1})
		}
		c.tryDumps(t)
		c.tried = append(c.tried, act{t, headrace.Kill, -1}, act{t, headrace.Wait, -1})
	case t.share && !t.settled:
		c.tried = append(c.tried, act{t, headrace.Wait, -1})
	}
	return c.tried
}

func (c *chooser) tryDumps(t *task) {
	for i := range min(len(t.n.stores), maxStores) {
		if canDump(t, i, nil) {
			c.tried = append(c.tried, act{t, headrace.Checkpoint, i})
		}
	}
}
