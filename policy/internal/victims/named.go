package victims

import (
	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
)

// Named plans for u on n by one of the named policies, or returns nil. The result
// is valid until the next call.
func (c *Chooser) Named(u *books.Task, n *books.Node) *Plan {
	acts, ok := c.leaving(u, n)
	if !ok {
		return nil
	}
	return c.finish(u, n, acts)
}

// leaving returns those that must leave n for u by one of the named policies: victims
// in the victim order until u fits, but for those that turn out not to be needed.
// It is valid until the next call.
func (c *Chooser) leaving(u *books.Task, n *books.Node) (acts []books.Act, ok bool) {
	start := n.Balance(u)
	if start.Fits(n.Swap) {
		return nil, true
	}
	if c.policy == Wait || books.Lowest(n) >= u.Priority {
		return nil, false
	}
	acts, b := c.take(u, n, start)
	if !b.Fits(n.Swap) && c.policy == Suspend {
		acts, b = c.toCheckpoints(u, n, acts, start)
	}
	if !b.Fits(n.Swap) {
		return nil, false
	}
	return prune(acts, start, n.Swap), true
}

// take collects victims until u fits or there are no more.
func (c *Chooser) take(u *books.Task, n *books.Node, b books.Balance) ([]books.Act, books.Balance) {
	acts := c.acts[:0]
	for k := 0; !b.Fits(n.Swap); k++ {
		v := c.victim(n, k)
		if v == nil || c.policy != Adaptive && v.Priority >= u.Priority {
			break // nor are those that come after it less urgent
		}
		if !eligible(u, v) {
			continue
		}
		for _, a := range c.preferences(u, v, acts) {
			if next := b.With(a); next.Better(b, n.Swap) {
				acts, b = append(acts, a), next
				break
			}
		}
	}
	c.acts = acts
	return acts, b
}

// preferences returns the mechanisms that the named policy may use for v to make room for
// u, the preferred one first. The result is valid until the next call.
func (c *Chooser) preferences(u, v *books.Task, acts []books.Act) []books.Act {
	c.prefs = c.prefs[:0]
	switch c.policy {
	case Kill:
		if v.KilledFor(u) {
			c.prefs = append(c.prefs, books.By(v, headrace.Kill))
		}
	case Suspend:
		c.preferSuspend(v)
		c.preferCheckpoint(u, v, acts)
	case Checkpoint:
		c.preferCheckpoint(u, v, acts)
		c.preferSuspend(v)
	case Adaptive:
		if a, ok := algorithm1(u, v, acts); ok {
			c.prefs = append(c.prefs, a)
		}
	}
	return c.prefs
}

func (c *Chooser) preferSuspend(v *books.Task) {
	if v.NoSuspend == "" {
		c.prefs = append(c.prefs, books.By(v, headrace.Suspend))
	}
}

func (c *Chooser) preferCheckpoint(u, v *books.Task, acts []books.Act) {
	if s := price.BestStore(u.TaskView, v, acts); s >= 0 {
		c.prefs = append(c.prefs, books.DumpTo(v, s))
	}
}

// toCheckpoints makes acts fit when the guard refuses: it checkpoints what was to
// be suspended, one after the other, then tasks that were suspended before.
func (c *Chooser) toCheckpoints(u *books.Task, n *books.Node, acts []books.Act, start books.Balance) ([]books.Act, books.Balance) {
	b := start.Sum(acts)
	for i := range acts {
		if b.Fits(n.Swap) {
			return acts, b
		}
		if acts[i].By != headrace.Suspend {
			continue
		}
		if s := price.BestStore(u.TaskView, acts[i].Task, acts); s >= 0 {
			acts[i] = books.DumpTo(acts[i].Task, s)
			b = start.Sum(acts)
		}
	}
	acts, b = dumpSuspended(u, n, acts, b)
	c.acts = acts
	return acts, b
}

// dumpSuspended adds to acts what turns suspended tasks of n into checkpoints, for u or
// for nobody in particular, until b fits.
func dumpSuspended(u *books.Task, n *books.Node, acts []books.Act, b books.Balance) ([]books.Act, books.Balance) {
	n.LineUp()
	for _, v := range n.Suspended {
		if b.Fits(n.Swap) {
			break
		}
		if !Movable(u, v) {
			continue
		}
		serves := v.TaskView
		if u != nil {
			serves = u.TaskView
		}
		if s := price.BestStore(serves, v, acts); s >= 0 {
			a := books.DumpTo(v, s)
			if next := b.With(a); next.Better(b, n.Swap) {
				acts, b = append(acts, a), next
			}
		}
	}
	return acts, b
}

// Relieve says how the suspended tasks of n give up so much of its memory, as far as they
// can: by page-outs, and where swap has no room, by Suspend and Cost, as checkpoints.
func (c *Chooser) Relieve(n *books.Node, excess int64) *Plan {
	p := &Plan{Node: n, Page: min(excess, max(0, n.Swap), n.Pageable)}
	if p.Page < excess && (c.policy == Suspend || c.policy == Cost) {
		var b books.Balance
		p.Acts, b = dumpSuspended(nil, n, nil, books.Balance{Mem: excess, Pageable: n.Pageable})
		p.Page = min(max(0, b.Mem), max(0, n.Swap), max(0, b.Pageable))
	}
	p.Cost = c.model.Plan(&books.Task{TaskView: &headrace.TaskView{}}, n, p.Acts, p.Page)
	return p
}

// prune drops acts that are not needed, those taken last first. It works on acts
// itself.
func prune(acts []books.Act, start books.Balance, swap int64) []books.Act {
	for i := len(acts) - 1; i >= 0 && len(acts) > 1; i-- {
		dropped := acts[i]
		acts = append(acts[:i], acts[i+1:]...)
		if !start.Sum(acts).Fits(swap) {
			acts = append(acts, books.Act{})
			copy(acts[i+1:], acts[i:])
			acts[i] = dropped
		}
	}
	return acts
}

// finish makes a plan of acts, which it copies.
func (c *Chooser) finish(u *books.Task, n *books.Node, acts []books.Act) *Plan {
	c.plan = Plan{Node: n, Acts: append(c.plan.Acts[:0], acts...)}
	p := &c.plan
	p.Page = n.Balance(u).Sum(acts).Page()
	p.Cost = c.model.Plan(u, n, p.Acts, p.Page)
	return p
}
