package dfs

import (
	"math/rand/v2"
	"slices"
	"testing"

	"headrace/wire"
)

// TestMemories: what nodes say is added up; what comes late is passed over, and who is not known says all.
func TestMemories(t *testing.T) {
	m := &memories{of: map[string]*memoryOf{}}
	is := func(want int) {
		t.Helper()
		if n := m.Remembered()["a"]; n != want {
			t.Errorf("%d blocks, want %d", n, want)
		}
	}
	if m.hear(&wire.InMemoryRequest{Node: "a", Session: 1, Number: 2, Come: []uint64{1}}) {
		t.Error("what has changed is enough for a beginning")
	}
	for _, c := range []struct {
		q    *wire.InMemoryRequest
		want int
	}{
		{&wire.InMemoryRequest{Session: 1, Number: 3, Whole: true, Come: []uint64{1, 2, 3}}, 3},
		{&wire.InMemoryRequest{Session: 1, Number: 4, Gone: []uint64{2, 9}}, 2},
		{&wire.InMemoryRequest{Session: 1, Number: 4, Come: []uint64{7}}, 2},         // again
		{&wire.InMemoryRequest{Session: 1, Number: 3, Whole: true}, 2},               // overtaken
		{&wire.InMemoryRequest{Session: 1, Number: 9, Come: []uint64{3, 4}}, 3},      // one was lost, and told again with this
		{&wire.InMemoryRequest{Session: 2, Number: 1, Whole: true, Come: nil}, 0},    // another process
		{&wire.InMemoryRequest{Session: 2, Number: 2, Come: []uint64{8}}, 1},         //
		{&wire.InMemoryRequest{Session: 2, Number: 3, Whole: true, Come: nil}, 0},    // all anew
		{&wire.InMemoryRequest{Session: 2, Number: 4, Come: []uint64{1<<64 - 1}}, 1}, //
	} {
		c.q.Node = "a"
		if !m.hear(c.q) {
			t.Errorf("%v is not taken", c.q)
		}
		is(c.want)
	}
	if m.hear(&wire.InMemoryRequest{Node: "a", Session: 3, Number: 1, Come: []uint64{1}}) {
		t.Error("a process that is not known need not say all")
	}
	if m.InMemory("a", 1) || m.InMemory("b", 1) || !m.InMemory("a", 1<<64-1) {
		t.Error("other blocks are in memory than were told of")
	}
	many := &wire.InMemoryRequest{Node: "b", Session: 1, Number: 1, Whole: true}
	for i := range uint64(mostInMemory + 10) {
		many.Come = append(many.Come, i)
	}
	m.hear(many)
	if n := m.Remembered()["b"]; n != mostInMemory {
		t.Errorf("%d blocks are kept of one node", n)
	}
	m.keepOnly(&View{Members: map[string]Member{"b": {}}})
	if all := m.Remembered(); len(all) != 1 {
		t.Errorf("%v", all)
	}
}

// TestDiffer compares with sets.
func TestDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	list := func() (ids []int64) {
		for id := range int64(20) {
			if r.IntN(2) == 0 {
				ids = append(ids, id)
			}
		}
		return ids
	}
	for range 500 {
		was, is := list(), list()
		come, gone := differ(was, is)
		for id := range int64(20) {
			if c := slices.Contains(is, id) && !slices.Contains(was, id); c != slices.Contains(come, uint64(id)) {
				t.Fatalf("%v to %v: %v come", was, is, come)
			}
			if g := slices.Contains(was, id) && !slices.Contains(is, id); g != slices.Contains(gone, uint64(id)) {
				t.Fatalf("%v to %v: %v gone", was, is, gone)
			}
		}
	}
}

// TestTellsTheLeader: a node that is alone tells itself, and again when its state is gone.
func TestTellsTheLeader(t *testing.T) {
	n := open(t, Config{Dir: t.TempDir(), Memory: 1 << 50})
	tell := teller{k: n.Keeper, session: 5}
	told := func(in []int64, want int) {
		t.Helper()
		if err := tell.tell(in); err != nil {
			t.Fatal(err)
		}
		if got := n.Keeper.Remembered()[n.Identity.Node]; got != want {
			t.Errorf("%d blocks are known, want %d", got, want)
		}
	}
	told([]int64{1, 2}, 2)
	told([]int64{2, 3, 4}, 3)
	number := tell.number
	told([]int64{2, 3, 4}, 3)
	if tell.number != number {
		t.Error("what has not changed is told")
	}
	n.Keeper.memories.keepOnly(&View{})
	told([]int64{2, 3}, 0) // it is to say all
	told([]int64{2, 3}, 2)
	closeNode(t, n)
}
