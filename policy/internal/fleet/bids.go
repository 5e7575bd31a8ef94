package fleet

import (
	"cmp"
	"headrace/policy/internal/books"
	"headrace/policy/internal/victims"
	"slices"
)

// wideNodes is on how many nodes sets of several victims are looked for: those
// where the least is missing. Single victims are looked for on all. Sixteen gave no
// better days in simulation, and took half as long again.
const wideNodes = 4

// asked is the bid of a node as it was in some version; 0: it was never asked.
type asked struct {
	version uint32
	victims.Bid
}

// Plan returns the policy's plan for u on one of its spots, or nil. It is valid until the
// next call.
func (f *Fleet) Plan(u *books.Task, s Spots) *victims.Plan {
	way := f.plan(u, s, func(c *class) *[]asked { return &c.bids })
	if way == nil && !books.Begun(u.TaskView) {
		f.failed.note(u, Planned)
	}
	return way
}

// PlanWithoutDumps returns what Plan would if those that are being checkpointed were to stay.
func (f *Fleet) PlanWithoutDumps(u *books.Task, s Spots) *victims.Plan {
	for _, n := range f.Every {
		if n.Dumping() > 0 {
			defer n.WithoutDumps()()
		}
	}
	return f.plan(u, s, func(c *class) *[]asked { return &c.stay })
}

// plan remembers what nodes were found to take where in says.
func (f *Fleet) plan(u *books.Task, s Spots, in func(*class) *[]asked) *victims.Plan {
	bids := f.bids(u, s, in)
	f.Slots.weigh(f, u, s)
	n := f.lowestBid(u, s, bids)
	switch {
	case f.chooser.Weighs():
		return f.cheapest(u, s, bids, n)
	case n == nil:
		return nil
	}
	return f.chooser.Named(u, n)
}

// lowestBid returns the spot that the policy prefers, the first of those that it likes as
// well, or nil.
func (f *Fleet) lowestBid(u *books.Task, s Spots, bids []asked) *books.Node {
	var best *books.Node
	if s.home != nil && f.ask(u, s.home, bids).OK {
		best = s.home
	}
	if !s.several() {
		return best
	}
	for i, n := range f.Every {
		b := &bids[i]
		if b.version != f.versions[i] {
			b = f.ask(u, n, bids)
		}
		if b.OK && n != s.home && (best == nil || f.chooser.Sooner(&b.Bid, &bids[best.Index].Bid, f.Slots.of(n)-f.Slots.of(best))) && f.isSpot(u, s, n) {
			best = n
		}
	}
	return best
}

// bids says what the nodes were found to take for u, indexed as the nodes are.
func (f *Fleet) bids(u *books.Task, s Spots, in func(*class) *[]asked) []asked {
	if c := f.classOf(u); c != nil && s.several() {
		bids := in(c)
		if len(*bids) == 0 {
			*bids = blank(*bids, len(f.Nodes))
		}
		return *bids
	}
	if s.several() || len(f.scratch) < len(f.Nodes) {
		f.scratch = blank(f.scratch, len(f.Nodes))
	}
	if s.home != nil {
		f.scratch[s.home.Index] = asked{}
	}
	return f.scratch
}

// blank returns so many empty bids, in the memory of old if that is enough.
func blank(old []asked, n int) []asked {
	if cap(old) < n {
		return make([]asked, n)
	}
	old = old[:n]
	clear(old)
	return old
}

// ask says what n would take for u. A node is asked again only when something has
// changed on it since it was asked for one of u's class.
func (f *Fleet) ask(u *books.Task, n *books.Node, bids []asked) *asked {
	b := &bids[n.Index]
	if b.version == f.versions[n.Index] {
		return b
	}
	b.version, b.Bid = f.versions[n.Index], f.chooser.Bid(u, n)
	return b
}

// cheapest returns the plan of the policy Cost for u on one of its spots, or nil when
// nothing would make room; n is where a single act costs least.
func (f *Fleet) cheapest(u *books.Task, s Spots, bids []asked, n *books.Node) *victims.Plan {
	f.chooser.Forget()
	if n != nil {
		f.chooser.ImproveAlone(u, n, f.Slots.of(n))
	}
	for _, n := range f.nearest(u, s, bids) {
		f.chooser.Improve(u, n, f.Slots.of(n))
	}
	return f.chooser.Chosen()
}

// nearest returns those of the spots where u comes nearest to fitting, of these where it finds
// more of its input in memory, as far as sets of several are looked for; all promising ones where they are few. All of them must
// have been asked. It is valid until the next call.
func (f *Fleet) nearest(u *books.Task, s Spots, bids []asked) []*books.Node {
	near := f.near[:0]
	few := true
	order := func(a, b *books.Node) int {
		return cmp.Or(cmp.Compare(bids[a.Index].Missing, bids[b.Index].Missing), cmp.Compare(f.Slots.of(a), f.Slots.of(b)))
	}
	add := func(n *books.Node) {
		if few && len(near) == wideNodes {
			slices.SortStableFunc(near, order)
			few = false
		}
		if few {
			near = append(near, n)
			return
		}
		i := len(near)
		for i > 0 && order(n, near[i-1]) < 0 {
			i--
		}
		if i < wideNodes {
			near = slices.Insert(near[:wideNodes-1], i, n)
		}
	}
	if s.home != nil && bids[s.home.Index].Promising {
		add(s.home)
	}
	if s.several() {
		for i, n := range f.Every {
			if !bids[i].Promising || n == s.home || !few && order(n, near[wideNodes-1]) >= 0 {
				continue
			}
			if f.isSpot(u, s, n) {
				add(n)
			}
		}
	}
	f.near = near
	return near
}
