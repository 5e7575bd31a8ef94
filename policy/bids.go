package policy

import (
	"cmp"
	"slices"
)

// wideNodes is on how many nodes sets of several victims are looked for: those
// where the least is missing. Single victims are looked for on all. Sixteen gave no
// better days in simulation, and took half as long again.
const wideNodes = 4

// asked is the bid of a node as it was in some version; 0: it was never asked.
type asked struct {
	version uint32
	bid
}

// plan is the policy's plan for u on one of its spots, or nil. It is valid until the
// next call.
func (f *fleet) plan(u *task, s spots) *plan {
	bids := f.bids(u, s)
	n := f.lowestBid(u, s, bids)
	switch {
	case f.chooser.weighs():
		return f.cheapest(u, s, bids, n)
	case n == nil:
		return nil
	}
	return f.chooser.named(u, n)
}

// lowestBid is the spot that the policy prefers, the first of those that it likes as
// well, or nil.
func (f *fleet) lowestBid(u *task, s spots, bids []asked) *node {
	var best *node
	if s.home != nil && f.ask(u, s.home, bids).ok {
		best = s.home
	}
	if !s.several() {
		return best
	}
	for i, n := range f.every {
		b := &bids[i]
		if b.version != f.versions[i] {
			b = f.ask(u, n, bids)
		}
		if b.ok && n != s.home && (best == nil || b.sooner(&bids[best.i].bid)) && f.isSpot(u, s, n) {
			best = n
		}
	}
	return best
}

// bids are what the nodes were found to take for u, indexed as the nodes are.
func (f *fleet) bids(u *task, s spots) []asked {
	if c := f.class[u.i]; c != nil && s.several() {
		if len(c.bids) == 0 {
			c.bids = blank(c.bids, len(f.nodes))
		}
		return c.bids
	}
	if s.several() || len(f.scratch) < len(f.nodes) {
		f.scratch = blank(f.scratch, len(f.nodes))
	}
	if s.home != nil {
		f.scratch[s.home.i] = asked{}
	}
	return f.scratch
}

// blank is so many empty bids, in the memory of old if that is enough.
func blank(old []asked, n int) []asked {
	if cap(old) < n {
		return make([]asked, n)
	}
	old = old[:n]
	clear(old)
	return old
}

// ask is what n would take for u. A node is asked again only when something has
// changed on it since it was asked for one of u's class.
func (f *fleet) ask(u *task, n *node, bids []asked) *asked {
	b := &bids[n.i]
	if b.version == f.versions[n.i] {
		return b
	}
	b.version, b.bid = f.versions[n.i], f.chooser.bid(u, n)
	return b
}

// cheapest is the plan of the policy Cost for u on one of its spots, or nil when
// nothing would make room; n is where a single act costs least.
func (f *fleet) cheapest(u *task, s spots, bids []asked, n *node) *plan {
	f.chooser.forget()
	if n != nil {
		f.chooser.improveAlone(u, n)
	}
	for _, n := range f.nearest(u, s, bids) {
		f.chooser.improve(u, n)
	}
	return f.chooser.chosen()
}

// nearest are those of the spots where u comes nearest to fitting, as far as sets of
// several are looked for; all promising ones where they are few. All of them must
// have been asked. It is valid until the next call.
func (f *fleet) nearest(u *task, s spots, bids []asked) []*node {
	near := f.near[:0]
	few := true
	add := func(n *node) {
		if few && len(near) == wideNodes {
			slices.SortStableFunc(near, func(a, b *node) int { return cmp.Compare(bids[a.i].missing, bids[b.i].missing) })
			few = false
		}
		if few {
			near = append(near, n)
			return
		}
		i := len(near)
		for i > 0 && bids[n.i].missing < bids[near[i-1].i].missing {
			i--
		}
		if i < wideNodes {
			near = slices.Insert(near[:wideNodes-1], i, n)
		}
	}
	if s.home != nil && bids[s.home.i].promising {
		add(s.home)
	}
	if s.several() {
		for i, n := range f.every {
			if !bids[i].promising || n == s.home || !few && bids[i].missing >= bids[near[wideNodes-1].i].missing {
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
