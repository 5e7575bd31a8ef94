package policy

import "headrace"

// eligible reports whether the running task v may be preempted for u.
func (d *decision) eligible(u, v *task) bool {
	return !v.settled && v.Priority < u.Priority && !d.c.protected(v.TaskView, u.eff)
}

// movable reports whether the suspended task v may be turned into a checkpoint
// for u, or for nobody in particular when u is nil.
func (d *decision) movable(u, v *task) bool {
	return !v.settled && !v.Held && v.order == 0 && v.PagingOut == 0 && v != u &&
		(u == nil || v.Priority < u.Priority)
}

// named plans for u on n by one of the named policies, or returns nil. It takes
// victims in the victim order until u fits and then lets go those that turn out
// not to be needed.
func (d *decision) named(u *task, n *node) *plan {
	start := d.balance(u, n)
	if start.fits(n.swap) {
		return d.finish(u, n, nil)
	}
	if d.c.Policy == Wait || n.lowest >= u.Priority {
		return nil
	}
	d.rank(n)
	acts, b := d.take(u, n, start)
	if !b.fits(n.swap) && d.c.Policy == Suspend {
		acts, b = d.toCheckpoints(u, n, acts, start)
	}
	if !b.fits(n.swap) {
		return nil
	}
	return d.finish(u, n, prune(acts, start, n.swap))
}

// take collects victims until u fits or there are no more.
func (d *decision) take(u *task, n *node, b balance) ([]act, balance) {
	acts := d.acts[:0]
	for _, v := range n.running {
		if b.fits(n.swap) {
			break
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
	suspend := func() {
		if v.NoSuspend == "" {
			d.prefs = append(d.prefs, act{v, headrace.Suspend, -1})
		}
	}
	checkpoint := func() {
		if s := bestStore(v, acts); s >= 0 {
			d.prefs = append(d.prefs, act{v, headrace.Checkpoint, s})
		}
	}
	switch d.c.Policy {
	case Kill:
		d.prefs = append(d.prefs, act{v, headrace.Kill, -1})
	case Suspend:
		suspend()
		checkpoint()
	case Checkpoint:
		checkpoint()
		suspend()
	case Adaptive:
		d.prefs = append(d.prefs, d.algorithm1(v, acts))
	}
	return d.prefs
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
	p := &plan{n: n, acts: append([]act(nil), acts...)}
	p.page = d.balance(u, n).sum(acts).page()
	p.cost = d.costOf(u, n, p.acts, p.page)
	for _, a := range acts {
		p.keys += a.t.rank
		if d.c.Policy != Adaptive {
			p.urgency += int(a.t.Priority)
		}
	}
	return p
}

// sooner reports whether the named policies prefer p to q: fewer victims, then
// less urgent ones, then those that the victim order puts first.
func (p *plan) sooner(q *plan) bool {
	if len(p.acts) != len(q.acts) {
		return len(p.acts) < len(q.acts)
	}
	if p.urgency != q.urgency {
		return p.urgency < q.urgency
	}
	return p.keys < q.keys
}
