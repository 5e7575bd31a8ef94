package policy

import (
	"cmp"
	"math"
	"slices"
)

// fewVictims is up to how many victims of a node are looked for one by one, before
// all of them are sorted.
const fewVictims = 4

// victim is the task that comes k-th in the victim order of n, or nil when there
// are no more. Except for Adaptive, the least urgent go first whatever the order;
// among equals the one that was submitted last.
func (c *chooser) victim(n *node, k int) *task {
	n.open()
	for k >= n.sorted && n.sorted < len(n.running) {
		rest := n.running[n.sorted:]
		if n.sorted >= fewVictims {
			slices.SortFunc(rest, c.compareVictims)
			n.sorted = len(n.running)
			break
		}
		first := 0
		for i, t := range rest[1:] {
			if c.compareVictims(t, rest[first]) < 0 {
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
func (c *chooser) rank(n *node) {
	n.open()
	if n.sorted < len(n.running) {
		slices.SortFunc(n.running[n.sorted:], c.compareVictims)
		n.sorted = len(n.running)
	}
	n.lineUp()
}

func (c *chooser) compareVictims(a, b *task) int {
	if c.policy != ruleAdaptive && a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	if a.rank != b.rank {
		return cmp.Compare(a.rank, b.rank)
	}
	return cmp.Compare(b.i, a.i)
}

// rankOf is the place of t by the victim order, as the view has it.
func (c *chooser) rankOf(t *task) float64 {
	switch c.by {
	case byCheapestCheckpoint:
		return cheapestDump(t)
	case byClosestToCompletion:
		if !shareKnown(t.TaskView) {
			return math.Inf(1)
		}
		return remaining(t.TaskView).Seconds()
	case byLeastWork:
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
