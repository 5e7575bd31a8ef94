package fleet

import (
	"slices"

	"headrace"
	"headrace/policy/internal/books"
)

// Spots are the nodes on which a task may wait for room: all of them, or its own
// first and then, if away, those to which its checkpoint can be moved.
type Spots struct {
	everywhere bool
	home       *books.Node // nil when it could never run there
	away       bool
}

// Find finds the node on which u can start at once, or else the nodes on which
// it may wait for room, preferred ones first.
func (f *Fleet) Find(u *books.Task) (now *books.Node, s Spots) {
	switch {
	case u.State == headrace.Suspended:
		return f.local(u)
	case books.Restorable(u.TaskView):
		n, stay := f.algorithm2(u)
		if n != nil || u.Home == nil {
			return n, Spots{}
		}
		return nil, Spots{home: atHome(u), away: !stay}
	}
	if f.fails(u, Now) {
		return nil, Spots{everywhere: true}
	}
	if n := f.nearestInput(u, (*books.Node).Fits); n != nil {
		return n, Spots{}
	}
	if n := f.firstFit(u); n != nil {
		return n, Spots{}
	}
	f.failed.note(u, Now)
	return nil, Spots{everywhere: true}
}

// Spots returns the nodes on which u may wait for room.
func (f *Fleet) Spots(u *books.Task) Spots {
	switch {
	case u.State != headrace.Suspended && !books.Restorable(u.TaskView):
		return Spots{everywhere: true}
	case u.Home == nil:
		return Spots{}
	}
	return Spots{home: atHome(u), away: u.State != headrace.Suspended}
}

func (f *Fleet) local(u *books.Task) (now *books.Node, s Spots) {
	if u.Home == nil {
		return nil, Spots{}
	}
	if u.Home.Fits(u) {
		return u.Home, Spots{}
	}
	return nil, Spots{home: atHome(u)}
}

// atHome returns u's own node, nil when u could never run there.
func atHome(u *books.Task) *books.Node {
	if !u.Home.Possible(u) {
		return nil
	}
	return u.Home
}

// remote reports whether u's checkpoint could be moved to n.
func remote(u *books.Task, n *books.Node) bool {
	if n == u.Home {
		return false
	}
	_, ok := remoteOverhead(u, n)
	return ok && n.Possible(u)
}

// anyRemote reports whether there is a node to which u's checkpoint could be moved.
func (f *Fleet) anyRemote(u *books.Task) bool {
	if u.Home.Net <= 0 {
		return false
	}
	for _, n := range f.Every {
		if remote(u, n) {
			return true
		}
	}
	return false
}

// several reports whether there may be more than the one spot at home.
func (s Spots) several() bool { return s.everywhere || s.away }

// isSpot reports whether n is one of the spots other than home.
func (f *Fleet) isSpot(u *books.Task, s Spots, n *books.Node) bool {
	return s.everywhere || s.away && u.Home.Net > 0 && remote(u, n)
}

// Nowhere reports whether there is no spot for u at all.
func (f *Fleet) Nowhere(u *books.Task, s Spots) bool {
	return !s.everywhere && s.home == nil && !(s.away && f.anyRemote(u)) || len(f.Nodes) == 0
}

// SeveralSpots reports whether there are more spots for u than one.
func (f *Fleet) SeveralSpots(u *books.Task, s Spots) bool {
	switch {
	case s.everywhere:
		return len(f.Nodes) > 1
	case !s.away || s.home != nil:
		return s.away && f.anyRemote(u)
	}
	return len(f.List(u, s)) > 1
}

// List returns the spots for u in their order. It is valid until the next call.
func (f *Fleet) List(u *books.Task, s Spots) []*books.Node {
	if s.everywhere {
		return f.Every
	}
	f.far = f.far[:0]
	if s.home != nil {
		f.far = append(f.far, s.home)
	}
	if s.away && u.Home.Net > 0 {
		for _, n := range f.Every {
			if remote(u, n) {
				f.far = append(f.far, n)
			}
		}
	}
	return f.far
}

// firstFit returns the first node on which u, which has not been begun, fits at once: who needs
// no device goes to one that has none, if it fits there.
func (f *Fleet) firstFit(u *books.Task) *books.Node {
	mem := f.leastDemand(u)
	var rest *books.Node
	for i := f.free.next(0, u.CPUs, mem); i >= 0; i = f.free.next(i+1, u.CPUs, mem) {
		switch n := &f.Nodes[i]; {
		case !n.Fits(u):
		case u.Counted != nil || !hasCounted(n):
			return n
		case rest == nil:
			rest = n
		}
	}
	return rest
}

// hasCounted reports whether n has any counted resource.
func hasCounted(n *books.Node) bool {
	return slices.ContainsFunc(n.NodeView.Counted, func(has float64) bool { return has > books.Slack })
}

// FitsLater returns the first spot on which u fits once those that are leaving now are
// gone, of several one where that does not take dumps.
func (f *Fleet) FitsLater(u *books.Task, s Spots) *books.Node {
	if s.home != nil && s.home.FitsLater(u) {
		return s.home
	}
	if !s.several() {
		return nil
	}
	fresh := !books.Begun(u.TaskView)
	if fresh && f.fails(u, Later) {
		return nil
	}
	if fresh {
		if n := f.nearestInput(u, (*books.Node).FitsLater); n != nil {
			return n
		}
	}
	mem := f.leastDemand(u)
	for _, room := range [...]*fitTree{&f.soon, &f.coming} {
		for i := room.next(0, u.CPUs, mem); i >= 0; i = room.next(i+1, u.CPUs, mem) {
			if n := &f.Nodes[i]; n.FitsLater(u) && f.isSpot(u, s, n) && (room == &f.coming || !n.AwaitsDumps(u)) {
				return n
			}
		}
	}
	if fresh {
		f.failed.note(u, Later)
	}
	return nil
}

// LargeEnough reports whether u could be on one of its spots if that were empty.
func (f *Fleet) LargeEnough(u *books.Task, s Spots) bool {
	return slices.ContainsFunc(f.List(u, s), func(n *books.Node) bool { return n.Possible(u) })
}

// NearestFit returns the spot on which the least is missing for u, of those where nothing is
// kept for somebody else and u will fit in the end, or nil; before others one where it will also
// beside who was there long before it came (books.Outlasts). Else a service that holds one CPU for
// ever would have u wait for that. With after it need only fit once those that are suspended there have run.
func (f *Fleet) NearestFit(u *books.Task, s Spots, after bool) *books.Node {
	var best, beside *books.Node
	var least, leastBeside float64
	for _, n := range f.List(u, s) {
		if n.Kept != nil && (u.Whole == nil || n.Kept.Whole != u.Whole) || !n.Possible(u) {
			continue
		}
		m := n.Missing(u)
		if beside != nil && m >= leastBeside || !n.MayFit(u, after) {
			continue
		}
		if best == nil || m < least {
			best, least = n, m
		}
		if n.MayFitBeside(u) {
			beside, leastBeside = n, m
		}
	}
	if beside != nil {
		return beside
	}
	return best
}
