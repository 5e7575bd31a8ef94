package policy

import "headrace"

// named plans for u on n by one of the named policies, or returns nil. The result
// is valid until the next call.
func (c *chooser) named(u *task, n *node) *plan {
	acts, ok := c.leaving(u, n)
	if !ok {
		return nil
	}
	return c.finish(u, n, acts)
}

// leaving are those that must leave n for u by one of the named policies: victims
// in the victim order until u fits, but for those that turn out not to be needed.
// It is valid until the next call.
func (c *chooser) leaving(u *task, n *node) (acts []act, ok bool) {
	start := n.balance(u)
	if start.fits(n.swap) {
		return nil, true
	}
	if c.policy == ruleWait || n.lowest >= u.Priority {
		return nil, false
	}
	acts, b := c.take(u, n, start)
	if !b.fits(n.swap) && c.policy == ruleSuspend {
		acts, b = c.toCheckpoints(u, n, acts, start)
	}
	if !b.fits(n.swap) {
		return nil, false
	}
	return prune(acts, start, n.swap), true
}

// take collects victims until u fits or there are no more.
func (c *chooser) take(u *task, n *node, b balance) ([]act, balance) {
	acts := c.acts[:0]
	for k := 0; !b.fits(n.swap); k++ {
		v := c.victim(n, k)
		if v == nil || c.policy != ruleAdaptive && v.Priority >= u.Priority {
			break // nor are those that come after it less urgent
		}
		if !eligible(u, v) {
			continue
		}
		for _, a := range c.preferences(v, acts) {
			if next := b.with(a); next.better(b, n.swap) {
				acts, b = append(acts, a), next
				break
			}
		}
	}
	c.acts = acts
	return acts, b
}

// preferences are the mechanisms that the named policy may use for v, the
// preferred one first. The result is valid until the next call.
func (c *chooser) preferences(v *task, acts []act) []act {
	c.prefs = c.prefs[:0]
	switch c.policy {
	case ruleKill:
		c.prefs = append(c.prefs, act{v, headrace.Kill, -1})
	case ruleSuspend:
		c.preferSuspend(v)
		c.preferCheckpoint(v, acts)
	case ruleCheckpoint:
		c.preferCheckpoint(v, acts)
		c.preferSuspend(v)
	case ruleAdaptive:
		c.prefs = append(c.prefs, algorithm1(v, acts))
	}
	return c.prefs
}

func (c *chooser) preferSuspend(v *task) {
	if v.NoSuspend == "" {
		c.prefs = append(c.prefs, act{v, headrace.Suspend, -1})
	}
}

func (c *chooser) preferCheckpoint(v *task, acts []act) {
	if s := bestStore(v, acts); s >= 0 {
		c.prefs = append(c.prefs, act{v, headrace.Checkpoint, s})
	}
}

// toCheckpoints makes acts fit when the guard refuses: it checkpoints what was to
// be suspended, one after the other, then tasks that were suspended before.
func (c *chooser) toCheckpoints(u *task, n *node, acts []act, start balance) ([]act, balance) {
	b := start.sum(acts)
	for i := range acts {
		if b.fits(n.swap) {
			return acts, b
		}
		if acts[i].mech != headrace.Suspend {
			continue
		}
		if s := bestStore(acts[i].t, acts); s >= 0 {
			acts[i] = act{acts[i].t, headrace.Checkpoint, s}
			b = start.sum(acts)
		}
	}
	acts, b = dumpSuspended(u, n, acts, b)
	c.acts = acts
	return acts, b
}

// dumpSuspended adds to acts what turns suspended tasks of n into checkpoints, for u or
// for nobody in particular, until b fits.
func dumpSuspended(u *task, n *node, acts []act, b balance) ([]act, balance) {
	n.lineUp()
	for _, v := range n.suspended {
		if b.fits(n.swap) {
			break
		}
		if !movable(u, v) {
			continue
		}
		if s := bestStore(v, acts); s >= 0 {
			a := act{v, headrace.Checkpoint, s}
			if next := b.with(a); next.better(b, n.swap) {
				acts, b = append(acts, a), next
			}
		}
	}
	return acts, b
}

// relieve is how the suspended tasks of n give up so much of its memory, as far as they
// can: by page-outs, and where swap has no room, by Suspend and Cost, as checkpoints.
func (c *chooser) relieve(n *node, excess int64) *plan {
	p := &plan{n: n, page: min(excess, max(0, n.swap), n.pageable)}
	if p.page < excess && (c.policy == ruleSuspend || c.policy == ruleCost) {
		var b balance
		p.acts, b = dumpSuspended(nil, n, nil, balance{mem: excess, pageable: n.pageable})
		p.page = min(max(0, b.mem), max(0, n.swap), max(0, b.pageable))
	}
	p.cost = c.model.costOf(&task{TaskView: &headrace.TaskView{}}, n, p.acts, p.page)
	return p
}

// prune drops acts that are not needed, those taken last first. It works on acts
// itself.
func prune(acts []act, start balance, swap int64) []act {
	for i := len(acts) - 1; i >= 0 && len(acts) > 1; i-- {
		dropped := acts[i]
		acts = append(acts[:i], acts[i+1:]...)
		if !start.sum(acts).fits(swap) {
			acts = append(acts, act{})
			copy(acts[i+1:], acts[i:])
			acts[i] = dropped
		}
	}
	return acts
}

// finish makes a plan of acts, which it copies.
func (c *chooser) finish(u *task, n *node, acts []act) *plan {
	c.plan = plan{n: n, acts: append(c.plan.acts[:0], acts...)}
	p := &c.plan
	p.page = n.balance(u).sum(acts).page()
	p.cost = c.model.costOf(u, n, p.acts, p.page)
	return p
}
