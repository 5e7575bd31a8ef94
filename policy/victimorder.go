package policy

import (
	"cmp"
	"math"
	"slices"

	"headrace"
)

// open makes the tasks known that run on n.
func (d *decision) open(n *node) {
	if n.opened {
		return
	}
	n.opened = true
	for i := n.first; i >= 0; i = d.next[i] {
		t := d.enrol(int(i), n)
		t.rank, t.share, t.guard = d.rankOf(t), shareKnown(t.TaskView), d.c.guardOf(t.TaskView)
		n.shares = n.shares || t.share
		n.running = append(n.running, t)
	}
}

// fewVictims is up to how many victims of a node are looked for one by one, before
// all of them are sorted.
const fewVictims = 4

// victim is the task that comes k-th in the victim order of n, or nil when there
// are no more. Except for Adaptive, the least urgent go first whatever the order;
// among equals the one that was submitted last.
func (d *decision) victim(n *node, k int) *task {
	d.open(n)
	for k >= n.sorted && n.sorted < len(n.running) {
		rest := n.running[n.sorted:]
		if n.sorted >= fewVictims {
			slices.SortFunc(rest, d.compareVictims)
			n.sorted = len(n.running)
			break
		}
		first := 0
		for i, t := range rest[1:] {
			if d.compareVictims(t, rest[first]) < 0 {
				first = i + 1
			}
		}
		rest[0], rest[first] = rest[first], rest[0]
		n.sorted++
	}
	if k >= len(n.running) {
		return nil
	}
	return n.running[k]
}

// rank sorts all victims of n by the victim order.
func (d *decision) rank(n *node) {
	d.open(n)
	if n.sorted < len(n.running) {
		slices.SortFunc(n.running[n.sorted:], d.compareVictims)
		n.sorted = len(n.running)
	}
	d.lineUp(n)
}

func (d *decision) compareVictims(a, b *task) int {
	if d.c.Policy != Adaptive && a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Compare(b.i, a.i)
}

// lineUp sorts the suspended tasks of n so that those come first whose memory will
// be needed last.
func (d *decision) lineUp(n *node) {
	if !n.linedUp {
		n.linedUp = true
		slices.SortFunc(n.suspended, lastToReturn)
	}
}

// lastToReturn sorts suspended tasks so that those come first whose memory will
// be needed last.
func lastToReturn(a, b *task) int {
	if a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	return cmp.Compare(b.i, a.i)
}

// rankOf is the place of t by the victim order, as the view has it.
func (d *decision) rankOf(t *task) float64 {
	switch d.c.VictimOrder {
	case CheapestCheckpoint:
		return cheapestDump(t)
	case ClosestToCompletion:
		if !shareKnown(t.TaskView) {
			return math.Inf(1)
		}
		return remaining(t.TaskView).Seconds()
	case LeastWork:
		return t.Progress.Wall.Seconds()
	}
	if mem := t.Resident + t.Swapped; mem > 0 {
		return float64(mem)
	}
	return float64(t.MemoryRequest)
}

// cheapestDump is the key of the victim order CheapestCheckpoint, in seconds.
func cheapestDump(t *task) float64 {
	least := math.Inf(1)
	for i := range t.n.stores {
		s := t.n.stores[i].StoreView
		if bytes := dumpBytes(t.TaskView, s); dumps(t, s) && bytes <= s.Free {
			least = min(least, float64(bytes)/s.Write)
		}
	}
	return least
}

// dumps reports whether t can be checkpointed to s, if there is room.
func dumps(t *task, s *headrace.StoreView) bool {
	return t.NoCheckpoint == "" && s.Write > 0 && s.Read > 0
}
