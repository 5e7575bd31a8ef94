package fleet

import (
	"headrace/policy/internal/books"
	"math/rand/v2"
	"testing"
)

// TestFitTree changes a tree at random and compares it with a list.
func TestFitTree(t *testing.T) {
	found, none := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 41))
		random := func() books.Room { return books.Room{CPUs: float64(r.IntN(8)) / 2, Mem: int64(r.IntN(8)) - 1} }
		list := make([]books.Room, r.IntN(40))
		var tree fitTree
		for range 1 + r.IntN(2) { // built more than once, of another size
			list = list[:r.IntN(len(list)+1)]
			tree.reset(len(list))
			for i := range list {
				list[i] = random()
				tree.leaf(i, list[i])
			}
			tree.build()
		}
		for range 100 {
			if len(list) > 0 && r.IntN(2) == 0 {
				i := r.IntN(len(list))
				list[i] = random()
				tree.set(i, list[i])
			}
			from, need := r.IntN(len(list)+3), random()
			want := -1
			for i := len(list) - 1; i >= from; i-- {
				if list[i].Holds(need.CPUs, need.Mem) {
					want = i
				}
			}
			if got := tree.next(from, need.CPUs, need.Mem); got != want {
				t.Fatalf("seed %d: %+v from %d of %v: %d, want %d", seed, need, from, list, got, want)
			}
			if want < 0 {
				none++
			} else {
				found++
			}
		}
	}
	if found < 3000 || none < 3000 {
		t.Errorf("lopsided: %d found, %d not", found, none)
	}
}
