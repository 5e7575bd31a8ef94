package policy

import "headrace"

// single finds the cheapest way to make room for u on n by at most one act; of those
// that cost the same the first, as options lists them. It needs neither prices of
// all options nor victims in order. The result is valid until the next call.
func (d *decision) single(u *task, n *node) found {
	start := d.balance(u, n)
	f := found{acts: d.best[:0]}
	d.consider(u, n, &f, nil, start, &tally{}) // nothing but page-outs
	d.open(n)
	running := n.running
	if !n.yields(u) {
		running = nil
	}
	for _, t := range running {
		switch {
		case t.settled || start.cpus-t.CPUs > slack:
		case d.eligible(u, t):
			if t.NoSuspend == "" {
				d.weigh(u, n, &f, start, act{t, headrace.Suspend, -1})
			}
			d.weighDumps(u, n, &f, start, t)
			d.weigh(u, n, &f, start, act{t, headrace.Kill, -1})
			d.weigh(u, n, &f, start, act{t, headrace.Wait, -1})
		case t.share:
			d.weigh(u, n, &f, start, act{t, headrace.Wait, -1})
		}
	}
	if start.cpus <= slack && len(n.suspended) > 0 {
		d.lineUp(n)
		for _, t := range n.suspended {
			if d.movable(u, t) {
				d.weighDumps(u, n, &f, start, t)
			}
		}
	}
	d.best = f.acts
	return f
}

func (d *decision) weighDumps(u *task, n *node, f *found, start balance, t *task) {
	for i := range min(len(n.stores), maxStores) {
		if canDump(t, i, nil) {
			d.weigh(u, n, f, start, act{t, headrace.Checkpoint, i})
		}
	}
}

// weigh keeps a when it makes room on its own and costs less than what was found,
// or as much and comes before it.
func (d *decision) weigh(u *task, n *node, f *found, start balance, a act) {
	b := start.with(a)
	if !b.fits(n.swap) {
		return
	}
	o := option{a, d.price(n, a)}
	if f.ok && d.floor(u, n, &o) > f.cost.total {
		return // page-outs only add to that
	}
	var y tally
	d.countAlone(&y, &o)
	d.one[0] = a
	c := d.sum(u, n, &y, d.one[:], b.page())
	if f.ok && c.total >= f.cost.total && !(c.total == f.cost.total && d.listedBefore(a, f.acts)) {
		return
	}
	*f = found{append(f.acts[:0], a), b.page(), c, true}
}

// listedBefore reports whether options lists a before the one act in acts, those
// of one task being compared in their order.
func (d *decision) listedBefore(a act, acts []act) bool {
	return len(acts) == 1 && acts[0].t.State == headrace.Running && a.t.State == headrace.Running &&
		d.compareVictims(a.t, acts[0].t) < 0
}
