package victims

import (
	"cmp"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
	"math"
	"slices"
)

// fewVictims is up to how many victims of a node are looked for one by one, before
// all of them are sorted.
const fewVictims = 4

// victim returns the task that comes k-th in the victim order of n, or nil when there
// are no more. Except for Adaptive, the least urgent go first whatever the order;
// among equals the one that was submitted last.
func (c *Chooser) victim(n *books.Node, k int) *books.Task {
	n.Open()
	for k >= n.Sorted && n.Sorted < len(n.Running) {
		rest := n.Running[n.Sorted:]
		if n.Sorted >= fewVictims {
			slices.SortFunc(rest, c.compareVictims)
			n.Sorted = len(n.Running)
			break
		}
		first := 0
		for i, t := range rest[1:] {
			if c.compareVictims(t, rest[first]) < 0 {
				first = i + 1
			}
		}
		rest[0], rest[first] = rest[first], rest[0]
		n.Sorted++
	}
	if k >= len(n.Running) {
		return nil
	}
	return n.Running[k]
}

// Rank sorts all victims of n by the victim order.
func (c *Chooser) Rank(n *books.Node) {
	n.Open()
	if n.Sorted < len(n.Running) {
		slices.SortFunc(n.Running[n.Sorted:], c.compareVictims)
		n.Sorted = len(n.Running)
	}
	n.LineUp()
}

func (c *Chooser) compareVictims(a, b *books.Task) int {
	if c.policy != Adaptive && a.Priority != b.Priority {
		return cmp.Compare(a.Priority, b.Priority)
	}
	if c.Weighs() && a.Heads() != b.Heads() {
		return cmp.Compare(a.Heads(), b.Heads())
	}
	if a.Rank != b.Rank {
		return cmp.Compare(a.Rank, b.Rank)
	}
	return cmp.Compare(b.Index, a.Index)
}

// RankOf returns the place of t by the victim order, as the view has it.
func (c *Chooser) RankOf(t *books.Task) float64 {
	switch c.order {
	case CheapestCheckpoint:
		return cheapestDump(t)
	case ClosestToCompletion:
		if !books.ShareKnown(t.TaskView) {
			return math.Inf(1)
		}
		return price.Remaining(t.TaskView).Seconds()
	case LeastWork:
		return price.Redo(t.TaskView, t.Home)
	case InTurn:
		if t.First {
			return math.Inf(1)
		}
		return t.Waited.Seconds()
	}
	if mem := t.Resident + t.Swapped; mem > 0 {
		return float64(mem)
	}
	return float64(t.MemoryRequest)
}

// cheapestDump returns the key of the victim order CheapestCheckpoint, in seconds.
func cheapestDump(t *books.Task) float64 {
	least := math.Inf(1)
	for i := range t.Home.Stores {
		s := t.Home.Stores[i].StoreView
		if bytes := books.DumpBytes(t.TaskView, s); books.Dumps(t, s) && bytes <= s.Free {
			least = min(least, float64(bytes)/s.Write)
		}
	}
	return least
}
