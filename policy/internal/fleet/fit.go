package fleet

import (
	"headrace/policy/internal/books"
	"math"
)

// fitTree finds the first of many nodes that has so much room, in a time that
// grows with the logarithm of their number as long as CPUs and memory are scarce
// in the same places. Each inner entry holds the most CPUs and the most memory of
// the entries below it, so that a subtree is left out when either is not enough.
type fitTree struct {
	leaves int          // a power of two
	most   []books.Room // entry 1 is the root, 2i and 2i+1 are below i
}

var nothing = books.Room{CPUs: math.Inf(-1), Mem: math.MinInt64}

// reset makes it a tree of n leaves, all of them nothing. Leaves are then put with
// leaf, and build makes the tree of them.
func (t *fitTree) reset(n int) {
	t.leaves = 1
	for t.leaves < n {
		t.leaves *= 2
	}
	if cap(t.most) < 2*t.leaves {
		t.most = make([]books.Room, 2*t.leaves)
	}
	t.most = t.most[:2*t.leaves]
	for i := t.leaves + n; i < 2*t.leaves; i++ {
		t.most[i] = nothing
	}
}

// anywhere reports whether a node may have so much room: there are one with the CPUs
// and one with the memory.
func (t *fitTree) anywhere(cpus float64, mem int64) bool { return t.most[1].Holds(cpus, mem) }

func (t *fitTree) leaf(i int, r books.Room) { t.most[t.leaves+i] = r }

func (t *fitTree) build() {
	for i := t.leaves - 1; i > 0; i-- {
		t.most[i] = most(t.most[2*i], t.most[2*i+1])
	}
}

// set changes leaf i.
func (t *fitTree) set(i int, r books.Room) {
	i += t.leaves
	t.most[i] = r
	for i /= 2; i > 0; i /= 2 {
		m := most(t.most[2*i], t.most[2*i+1])
		if m == t.most[i] {
			return
		}
		t.most[i] = m
	}
}

// next returns the first leaf from i on that holds so much, or -1.
func (t *fitTree) next(i int, cpus float64, mem int64) int {
	at := 1
	if i > 0 {
		if i >= t.leaves {
			return -1
		}
		at = t.leaves + i
	}
	for {
		if t.most[at].Holds(cpus, mem) {
			if at >= t.leaves {
				return at - t.leaves
			}
			at *= 2
			continue
		}
		for at&1 == 1 {
			if at /= 2; at <= 1 {
				return -1
			}
		}
		at++
	}
}

// most returns as much as either has; least as much as both have.
func most(a, b books.Room) books.Room {
	return books.Room{CPUs: max(a.CPUs, b.CPUs), Mem: max(a.Mem, b.Mem)}
}
func least(a, b books.Room) books.Room {
	return books.Room{CPUs: min(a.CPUs, b.CPUs), Mem: min(a.Mem, b.Mem)}
}
