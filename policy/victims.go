package policy

import "headrace"

// eligible reports whether v, which runs on a node that has been opened, may be
// preempted for u.
func (d *decision) eligible(u, v *task) bool {
	return !v.settled && v.Priority < u.Priority && !v.guard.against(u.eff)
}

// yields reports whether any task that runs on n could be preempted for u, or waited
// for by Cost.
func (n *node) yields(u *task) bool { return n.lowest < u.Priority || n.shares }

// movable reports whether the suspended task v may be turned into a checkpoint
// for u, or for nobody in particular when u is nil.
func (d *decision) movable(u, v *task) bool {
	return !v.settled && !v.Held && v.order == 0 && v.PagingOut == 0 && v != u &&
		(u == nil || v.Priority < u.Priority)
}

// named plans for u on n by one of the named policies, or returns nil. The result
// is valid until the next call.
func (d *decision) named(u *task, n *node) *plan {
	acts, ok := d.leaving(u, n)
	if !ok {
		return nil
	}
	return d.finish(u, n, acts)
}

// leaving are those that must leave n for u by one of the named policies: victims
// in the victim order until u fits, but for those that turn out not to be needed.
// It is valid until the next call.
func (d *decision) leaving(u *task, n *node) (acts []act, ok bool) {
	start := d.balance(u, n)
	if start.fits(n.swap) {
		return nil, true
	}
	if d.c.Policy == Wait || n.lowest >= u.Priority {
		return nil, false
	}
	acts, b := d.take(u, n, start)
	if !b.fits(n.swap) && d.c.Policy == Suspend {
		acts, b = d.toCheckpoints(u, n, acts, start)
	}
	if !b.fits(n.swap) {
		return nil, false
	}
	return prune(acts, start, n.swap), true
}

// take collects victims until u fits or there are no more.
func (d *decision) take(u *task, n *node, b balance) ([]act, balance) {
	acts := d.acts[:0]
	for k := 0; !b.fits(n.swap); k++ {
		v := d.victim(n, k)
		if v == nil || d.c.Policy != Adaptive && v.Priority >= u.Priority {
			break // nor are those that come after it less urgent
		}
		if !d.eligible(u, v) {
			continue
		}
		for _, a := range d.preferences(v, acts) {
			if next := b.with(a); next.better(b, n.swap) {
				acts, b = append(acts, a), next
				break
			}
		}
	}
	d.acts = acts
	return acts, b
}

// preferences are the mechanisms that the named policy may use for v, the
// preferred one first. The result is valid until the next call.
func (d *decision) preferences(v *task, acts []act) []act {
	d.prefs = d.prefs[:0]
	switch d.c.Policy {
	case Kill:
		d.prefs = append(d.prefs, act{v, headrace.Kill, -1})
	case Suspend:
		d.preferSuspend(v)
		d.preferCheckpoint(v, acts)
	case Checkpoint:
		d.preferCheckpoint(v, acts)
		d.preferSuspend(v)
	case Adaptive:
		d.prefs = append(d.prefs, d.algorithm1(v, acts))
	}
	return d.prefs
}

func (d *decision) preferSuspend(v *task) {
	if v.NoSuspend == "" {
		d.prefs = append(d.prefs, act{v, headrace.Suspend, -1})
	}
}

func (d *decision) preferCheckpoint(v *task, acts []act) {
	if s := bestStore(v, acts); s >= 0 {
		d.prefs = append(d.prefs, act{v, headrace.Checkpoint, s})
	}
}

// toCheckpoints makes acts fit when the guard refuses: it checkpoints what was to
// be suspended, one after the other, then tasks that were suspended before.
func (d *decision) toCheckpoints(u *task, n *node, acts []act, start balance) ([]act, balance) {
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
	d.lineUp(n)
	for _, v := range n.suspended {
		if b.fits(n.swap) {
			break
		}
		if !d.movable(u, v) {
			continue
		}
		if s := bestStore(v, acts); s >= 0 {
			a := act{v, headrace.Checkpoint, s}
			if next := b.with(a); next.better(b, n.swap) {
				acts, b = append(acts, a), next
			}
		}
	}
	d.acts = acts
	return acts, b
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
func (d *decision) finish(u *task, n *node, acts []act) *plan {
	d.plan = plan{n: n, acts: append(d.plan.acts[:0], acts...)}
	p := &d.plan
	p.page = d.balance(u, n).sum(acts).page()
	p.cost = d.costOf(u, n, p.acts, p.page)
	return p
}
