package policy

import "headrace"

// spots are the nodes on which a task may wait for room: all of them, or its own
// first and then, if away, those to which its checkpoint can be moved.
type spots struct {
	everywhere bool
	home       *node // nil when it could never run there
	away       bool
}

// spots finds the node on which u can start at once, or else the nodes on which
// it may wait for room, preferred ones first.
func (d *decision) spots(u *task) (now *node, s spots) {
	switch {
	case u.State == headrace.Suspended:
		return d.local(u)
	case restorable(u.TaskView):
		n, stay := d.algorithm2(u)
		if n != nil || u.n == nil {
			return n, spots{}
		}
		return nil, spots{home: atHome(u), away: !stay}
	}
	if d.fails(u, kindNow) {
		return nil, spots{everywhere: true}
	}
	if n := d.nearestInput(u, d.fits); n != nil {
		return n, spots{}
	}
	if n := d.firstFit(u); n != nil {
		return n, spots{}
	}
	d.failed.note(u, kindNow)
	return nil, spots{everywhere: true}
}

func (d *decision) local(u *task) (now *node, s spots) {
	if u.n == nil {
		return nil, spots{}
	}
	if d.fits(u, u.n) {
		return u.n, spots{}
	}
	return nil, spots{home: atHome(u)}
}

// atHome is u's own node, nil when u could never run there.
func atHome(u *task) *node {
	if !possible(u, u.n) {
		return nil
	}
	return u.n
}

// remote reports whether u's checkpoint could be moved to n.
func remote(u *task, n *node) bool {
	if n == u.n {
		return false
	}
	_, ok := remoteOverhead(u, n)
	return ok && possible(u, n)
}

// anyRemote reports whether there is a node to which u's checkpoint could be moved.
func (d *decision) anyRemote(u *task) bool {
	if u.n.Net <= 0 {
		return false
	}
	for _, n := range d.every {
		if remote(u, n) {
			return true
		}
	}
	return false
}

// several reports whether there may be more than the one spot at home.
func (s spots) several() bool { return s.everywhere || s.away }

// isSpot reports whether n is one of the spots other than home.
func (d *decision) isSpot(u *task, s spots, n *node) bool {
	return s.everywhere || s.away && u.n.Net > 0 && remote(u, n)
}

// none reports whether there is no spot for u at all.
func (d *decision) none(u *task, s spots) bool {
	return !s.everywhere && s.home == nil && !(s.away && d.anyRemote(u)) || len(d.nodes) == 0
}

// severalSpots reports whether there are more spots for u than one.
func (d *decision) severalSpots(u *task, s spots) bool {
	switch {
	case s.everywhere:
		return len(d.nodes) > 1
	case !s.away || s.home != nil:
		return s.away && d.anyRemote(u)
	}
	return len(d.list(u, s)) > 1
}

// list is the spots for u in their order. It is valid until the next call.
func (d *decision) list(u *task, s spots) []*node {
	if s.everywhere {
		return d.every
	}
	d.far = d.far[:0]
	if s.home != nil {
		d.far = append(d.far, s.home)
	}
	if s.away && u.n.Net > 0 {
		for _, n := range d.every {
			if remote(u, n) {
				d.far = append(d.far, n)
			}
		}
	}
	return d.far
}

// firstFit is the first node on which u, which has not been begun, fits at once.
func (d *decision) firstFit(u *task) *node {
	mem := d.leastDemand(u)
	for i := d.free.next(0, u.CPUs, mem); i >= 0; i = d.free.next(i+1, u.CPUs, mem) {
		if n := &d.nodes[i]; d.fits(u, n) {
			return n
		}
	}
	return nil
}

// fitsLater is the first spot on which u fits once those that are leaving now are
// gone.
func (d *decision) fitsLater(u *task, s spots) *node {
	if s.home != nil && d.laterHolds(u, s.home) {
		return s.home
	}
	if !s.several() {
		return nil
	}
	fresh := !begun(u.TaskView)
	if fresh && d.fails(u, kindLater) {
		return nil
	}
	if fresh {
		if n := d.nearestInput(u, d.laterHolds); n != nil {
			return n
		}
	}
	mem := d.leastDemand(u)
	for i := d.coming.next(0, u.CPUs, mem); i >= 0; i = d.coming.next(i+1, u.CPUs, mem) {
		if n := &d.nodes[i]; d.laterHolds(u, n) && d.isSpot(u, s, n) {
			return n
		}
	}
	if fresh {
		d.failed.note(u, kindLater)
	}
	return nil
}

func (d *decision) laterHolds(u *task, n *node) bool {
	mem := demand(u.TaskView, n.NodeView)
	if mem <= 0 {
		return n.later.holds(u.CPUs, 0)
	}
	_, own := d.own(u)
	return n.later.holds(u.CPUs, mem-own)
}
