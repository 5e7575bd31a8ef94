package policy

import (
	"slices"

	"headrace"
)

// spots are the nodes on which a task may wait for room: all of them, or its own
// first and then, if away, those to which its checkpoint can be moved.
type spots struct {
	everywhere bool
	home       *node // nil when it could never run there
	away       bool
}

// find finds the node on which u can start at once, or else the nodes on which
// it may wait for room, preferred ones first.
func (f *fleet) find(u *task) (now *node, s spots) {
	switch {
	case u.State == headrace.Suspended:
		return f.local(u)
	case restorable(u.TaskView):
		n, stay := f.algorithm2(u)
		if n != nil || u.n == nil {
			return n, spots{}
		}
		return nil, spots{home: atHome(u), away: !stay}
	}
	if f.fails(u, kindNow) {
		return nil, spots{everywhere: true}
	}
	if n := f.nearestInput(u, (*node).fits); n != nil {
		return n, spots{}
	}
	if n := f.firstFit(u); n != nil {
		return n, spots{}
	}
	f.failed.note(u, kindNow)
	return nil, spots{everywhere: true}
}

func (f *fleet) local(u *task) (now *node, s spots) {
	if u.n == nil {
		return nil, spots{}
	}
	if u.n.fits(u) {
		return u.n, spots{}
	}
	return nil, spots{home: atHome(u)}
}

// atHome is u's own node, nil when u could never run there.
func atHome(u *task) *node {
	if !u.n.possible(u) {
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
	return ok && n.possible(u)
}

// anyRemote reports whether there is a node to which u's checkpoint could be moved.
func (f *fleet) anyRemote(u *task) bool {
	if u.n.Net <= 0 {
		return false
	}
	for _, n := range f.every {
		if remote(u, n) {
			return true
		}
	}
	return false
}

// several reports whether there may be more than the one spot at home.
func (s spots) several() bool { return s.everywhere || s.away }

// isSpot reports whether n is one of the spots other than home.
func (f *fleet) isSpot(u *task, s spots, n *node) bool {
	return s.everywhere || s.away && u.n.Net > 0 && remote(u, n)
}

// nowhere reports whether there is no spot for u at all.
func (f *fleet) nowhere(u *task, s spots) bool {
	return !s.everywhere && s.home == nil && !(s.away && f.anyRemote(u)) || len(f.nodes) == 0
}

// severalSpots reports whether there are more spots for u than one.
func (f *fleet) severalSpots(u *task, s spots) bool {
	switch {
	case s.everywhere:
		return len(f.nodes) > 1
	case !s.away || s.home != nil:
		return s.away && f.anyRemote(u)
	}
	return len(f.list(u, s)) > 1
}

// list is the spots for u in their order. It is valid until the next call.
func (f *fleet) list(u *task, s spots) []*node {
	if s.everywhere {
		return f.every
	}
	f.far = f.far[:0]
	if s.home != nil {
		f.far = append(f.far, s.home)
	}
	if s.away && u.n.Net > 0 {
		for _, n := range f.every {
			if remote(u, n) {
				f.far = append(f.far, n)
			}
		}
	}
	return f.far
}

// firstFit is the first node on which u, which has not been begun, fits at once.
func (f *fleet) firstFit(u *task) *node {
	mem := f.leastDemand(u)
	for i := f.free.next(0, u.CPUs, mem); i >= 0; i = f.free.next(i+1, u.CPUs, mem) {
		if n := &f.nodes[i]; n.fits(u) {
			return n
		}
	}
	return nil
}

// fitsLater is the first spot on which u fits once those that are leaving now are
// gone.
func (f *fleet) fitsLater(u *task, s spots) *node {
	if s.home != nil && s.home.fitsLater(u) {
		return s.home
	}
	if !s.several() {
		return nil
	}
	fresh := !begun(u.TaskView)
	if fresh && f.fails(u, kindLater) {
		return nil
	}
	if fresh {
		if n := f.nearestInput(u, (*node).fitsLater); n != nil {
			return n
		}
	}
	mem := f.leastDemand(u)
	for i := f.coming.next(0, u.CPUs, mem); i >= 0; i = f.coming.next(i+1, u.CPUs, mem) {
		if n := &f.nodes[i]; n.fitsLater(u) && f.isSpot(u, s, n) {
			return n
		}
	}
	if fresh {
		f.failed.note(u, kindLater)
	}
	return nil
}

// largeEnough reports whether u could be on one of its spots if that were empty.
func (f *fleet) largeEnough(u *task, s spots) bool {
	return slices.ContainsFunc(f.list(u, s), func(n *node) bool { return n.possible(u) })
}

// nearestFit is the spot on which the least is missing for u, of those where nothing is
// kept for somebody else and u will fit in the end, or nil.
func (f *fleet) nearestFit(u *task, s spots) *node {
	var best *node
	var least float64
	for _, n := range f.list(u, s) {
		if n.kept != nil || !n.possible(u) {
			continue
		}
		if m := n.missing(u); (best == nil || m < least) && n.mayFit(u) {
			best, least = n, m
		}
	}
	return best
}
