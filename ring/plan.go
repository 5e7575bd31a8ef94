package ring

import (
	"cmp"
	"slices"
)

// gap returns where in the order a new node is to stand: away from its own rack, where what
// nodes hold comes nearest to their weights, between those that own most, or else anywhere.
func (t *Table) gap(n Node) int {
	count := len(t.nodes)
	if count == 0 {
		return 0
	}
	owned := t.owned()
	type place struct {
		at, clash             int
		uneven, unlike, owned uint64
	}
	places := make([]place, count)
	alike := true
	for k := range places {
		i := (int(hash(n.Name)%uint64(count)) + k) % count
		before, after := t.nodes[(i-1+count)%count], t.nodes[i]
		places[k] = place{
			at: i, clash: t.clash(i, n.Rack), unlike: apart(before.Weight, n.Weight) + apart(after.Weight, n.Weight),
			owned: before.load(owned[(i-1+count)%count]) + after.load(owned[i]),
		}
		alike = alike && after.Rack == n.Rack && after.Weight == n.Weight
	}
	slices.SortStableFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.clash, b.clash), cmp.Compare(a.unlike, b.unlike), cmp.Compare(b.owned, a.owned))
	})
	if alike {
		return places[0].at
	}
	places = places[:min(len(places), mostTried)]
	for k := range places {
		places[k].uneven = t.unevenness(places[k].at, n)
	}
	return slices.MinFunc(places, func(a, b place) int { return cmp.Compare(a.uneven, b.uneven) }).at
}

func apart(a, b uint32) uint64 { return uint64(max(a, b) - min(a, b)) }

// mostTried bounds the work for a place in a large ring.
const mostTried = 32

// clash returns how many nodes of a rack are near place i, the nearer the more.
func (t *Table) clash(i int, rack string) int {
	count, clash := len(t.nodes), 0
	for d := 1; d < t.replicas && 2*d <= count; d++ {
		for _, j := range []int{(i - d + count) % count, (i + d - 1) % count} {
			if t.nodes[j].Rack == rack {
				clash += t.replicas - d
			}
		}
	}
	return clash
}

// unevenness compares places for a node. If all own by their weights, it is the sum over
// all nodes of the square of what each holds, divided by its weight: least when they hold by
// their weights as well.
func (t *Table) unevenness(at int, n Node) uint64 {
	n.State, n.Leaving = IsUp, false
	with := &Table{replicas: t.replicas, nodes: slices.Insert(slices.Clone(t.nodes), at, n)}
	with.compute()
	most := slices.MaxFunc(with.nodes, func(a, b Node) int { return cmp.Compare(a.Weight, b.Weight) }).Weight
	const scale = 1 << 10 // small enough for the sum
	weight := func(i int) uint64 { return max(1, uint64(with.nodes[i].Weight)*scale/uint64(most)) }
	holds := make([]uint64, len(with.nodes))
	for owner, target := range with.targets {
		for _, i := range target {
			holds[i] += weight(owner)
		}
	}
	sum := uint64(0)
	for i, h := range holds {
		sum += h * h * scale / weight(i)
	}
	return sum
}

// owned counts the segments of each node.
func (t *Table) owned() []int {
	owned := make([]int, len(t.nodes))
	for _, g := range t.segments {
		owned[g.owner]++
	}
	return owned
}

// load is what a node owns for its weight. Whole numbers, because a sum of floats may
// differ between processors, and with it the table.
func (n Node) load(owned int) uint64 {
	return uint64(owned) << 32 / uint64(n.Weight)
}

// quotas returns how many segments each node is to own. What does not come out even goes to
// the largest remainders, and among equal ones to those who have it already.
func (t *Table) quotas() []int {
	quota, owned := make([]int, len(t.nodes)), t.owned()
	members := slices.Clone(t.members)
	weights := uint64(0)
	for _, i := range members {
		weights += uint64(t.nodes[i].Weight)
	}
	rest := len(t.segments)
	part := func(i uint16) uint64 { return uint64(len(t.segments)) * uint64(t.nodes[i].Weight) }
	for _, i := range members {
		quota[i] = int(part(i) / weights)
		rest -= quota[i]
	}
	slices.SortStableFunc(members, func(a, b uint16) int {
		return cmp.Or(cmp.Compare(part(b)%weights, part(a)%weights), cmp.Compare(owned[b], owned[a]))
	})
	for _, i := range members[:rest] {
		quota[i]++
	}
	return quota
}

// cost counts the copies to be made if a node owned a segment.
func (t draft) cost(s, owner int) int {
	n := 0
	for _, i := range t.targets[owner] {
		if !slices.Contains(t.segments[s].held, i) {
			n++
		}
	}
	return n
}

// level gives segments to those that own too few of them, or to one of those, from those
// that own too many: first what costs least copies, and no more than most (0: any number).
func (t draft) level(only, most int) {
	quota, owned := t.quotas(), t.owned()
	if most <= 0 {
		most = len(t.segments)
	}
	for i := range t.nodes {
		if only >= 0 && i != only || !t.up(uint16(i)) || owned[i] >= quota[i] {
			continue
		}
		for cost := 0; cost <= t.replicas; cost++ {
			for s := range t.segments {
				g := &t.segments[s]
				if owned[i] == quota[i] || most == 0 {
					break
				}
				if owned[g.owner] > quota[g.owner] && t.cost(s, i) == cost {
					owned[g.owner]--
					owned[i]++
					most--
					g.owner = uint16(i)
				}
			}
		}
	}
}

// takeOver gives what a node owned to members that are up, hold it already and own little:
// its predecessor and its successor get half each, as long as nothing else is wrong.
func (t draft) takeOver(from int) {
	owned := t.owned()
	for s := range t.segments {
		if int(t.segments[s].owner) != from {
			continue
		}
		best := -1
		better := func(i int) bool {
			if best < 0 || t.nodes[i].State != t.nodes[best].State {
				return best < 0 || t.nodes[i].State < t.nodes[best].State
			}
			return cmp.Or(cmp.Compare(t.cost(s, i), t.cost(s, best)), cmp.Compare(t.nodes[i].load(owned[i]), t.nodes[best].load(owned[best]))) < 0
		}
		for i := range t.outwards(from) {
			if better(i) {
				best = i
			}
		}
		t.segments[s].owner = uint16(best)
		owned[best]++
	}
}

// settle lets go those holders that are no longer needed, and notes which plans are new.
func (t draft) settle(prev *Table) {
	for s := range t.segments {
		g := &t.segments[s]
		before, now := prev.belongs(s), t.belongs(s)
		if held := t.keep(s); !slices.Equal(held, g.held) {
			g.held = held
		}
		switch {
		case subset(now, g.held):
			g.since = 0
		case !subset(now, before) || !subset(before, now):
			g.since = t.epoch
		}
	}
}

func subset(a, b []uint16) bool {
	return !slices.ContainsFunc(a, func(i uint16) bool { return !slices.Contains(b, i) })
}

// keep returns who is to go on holding a segment: all to whom it belongs; others that are
// up until there are enough copies that can be read; and others that are not, which may
// return, until all copies where they belong can be read.
func (t *Table) keep(s int) []uint16 {
	held, target := t.segments[s].held, t.belongs(s)
	kept := make([]uint16, 0, len(held))
	live := 0
	add := func(i uint16) {
		kept = append(kept, i)
		if t.up(i) {
			live++
		}
	}
	for _, i := range target {
		if slices.Contains(held, i) {
			add(i)
		}
	}
	for _, up := range []bool{true, false} {
		for _, i := range held {
			enough := up && live >= t.replicas || !up && live >= len(target)
			if t.up(i) == up && !enough && !slices.Contains(target, i) {
				add(i)
			}
		}
	}
	return kept
}

// A Move is work for a node: to copy a segment from another one, which it confirms; or to
// forget it, when From is empty.
type Move struct {
	Segment uint16
	Node    string
	From    string
}

// Moves returns all copies to be made in this epoch that can be made, first those of the
// segments with the fewest copies. What is to be forgotten, a node finds with Reconcile.
func (t *Table) Moves() []Move {
	var moves []Move
	for s := range t.segments {
		moves = t.copies(s, moves)
	}
	sortMoves(t, moves)
	return moves
}

func sortMoves(t *Table, moves []Move) {
	slices.SortStableFunc(moves, func(a, b Move) int {
		if (a.From == "") != (b.From == "") {
			return cmp.Compare(b.From, a.From) // copies first
		}
		if a.From == "" {
			return 0
		}
		return cmp.Compare(t.live(int(a.Segment)), t.live(int(b.Segment)))
	})
}

// copies appends the copies of a segment to be made.
func (t *Table) copies(s int, moves []Move) []Move {
	g := t.segments[s]
	for _, i := range t.belongs(s) {
		if t.up(i) && !slices.Contains(g.held, i) {
			if from := t.source(s, i); from >= 0 {
				moves = append(moves, Move{uint16(s), t.nodes[i].Name, t.nodes[from].Name})
			}
		}
	}
	return moves
}

// source returns from whom a node is to copy a segment, or -1: the one with the highest hash
// of all three. So it is another one only when that one can no longer be asked, and a copy
// that is under way is not sent elsewhere without need.
func (t *Table) source(s int, to uint16) int {
	best, most := -1, uint64(0)
	for _, i := range t.segments[s].held {
		if !t.up(i) || i == to {
			continue
		}
		h := mix(hash(t.nodes[i].Name) ^ mix(hash(t.nodes[to].Name)+uint64(s)))
		if best < 0 || h > most {
			best, most = int(i), h
		}
	}
	return best
}

// newMoves returns the copies that are to be made after a change and were not before, and
// who has to forget what.
func newMoves(prev, next *Table) []Move {
	var moves []Move
	for s := range next.segments {
		was := prev.copies(s, nil)
		for _, m := range next.copies(s, nil) {
			if !slices.Contains(was, m) {
				moves = append(moves, m)
			}
		}
		for _, i := range prev.concerned(s) {
			if next.up(i) && !slices.Contains(next.concerned(s), i) {
				moves = append(moves, Move{Segment: uint16(s), Node: next.nodes[i].Name})
			}
		}
	}
	sortMoves(next, moves)
	return moves
}

// concerned returns who has or is to have a segment.
func (t *Table) concerned(s int) []uint16 {
	all := slices.Clone(t.segments[s].held)
	for _, i := range t.belongs(s) {
		if !slices.Contains(all, i) {
			all = append(all, i)
		}
	}
	return all
}
