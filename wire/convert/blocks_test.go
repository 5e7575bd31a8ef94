package convert

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"headrace"
	"headrace/wire"
)

// TestBlockLists: blocks come back as they went, those of each pool in their order.
func TestBlockLists(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 1))
		ids := make([]headrace.BlockID, r.IntN(40))
		for i := range ids {
			ids[i] = headrace.BlockID{Pool: fmt.Sprint("BP-", r.IntN(3)), Number: int64(r.Uint64())}
		}
		sent, err := proto.Marshal(&wire.BlocksToWatch{Add: BlockLists(ids)})
		if err != nil {
			t.Fatal(err)
		}
		var got wire.BlocksToWatch
		if err := proto.Unmarshal(sent, &got); err != nil {
			t.Fatal(err)
		}
		pools := map[string]bool{}
		for _, l := range got.Add {
			if pools[l.Pool] || len(l.Numbers) == 0 {
				t.Errorf("pool %s comes twice, or with nothing", l.Pool)
			}
			pools[l.Pool] = true
		}
		of := func(all []headrace.BlockID) map[string][]int64 {
			m := map[string][]int64{}
			for _, id := range all {
				m[id.Pool] = append(m[id.Pool], id.Number)
			}
			return m
		}
		if is, want := of(slices.Collect(Blocks(got.Add))), of(ids); !reflect.DeepEqual(is, want) {
			t.Fatalf("seed %d: %v comes back as %v", seed, want, is)
		}
	}
	if got := slices.Collect(Blocks([]*wire.BlockList{nil, {}, {Pool: "p"}})); got != nil {
		t.Errorf("nothing becomes %v", got)
	}
	for range Blocks([]*wire.BlockList{{Numbers: []int64{1, 2}}, {Numbers: []int64{3}}}) {
		break // panics if it goes on
	}
}

type kept struct {
	block headrace.Block
	place uint32
}

func toKeep(lists ...*wire.BlocksToKeep) (all []kept) {
	for b, place := range BlocksToKeep(lists...) {
		all = append(all, kept{b, place})
	}
	return all
}

// TestBlocksToKeep: what is said of blocks comes back, and is not believed if it is not
// said of all.
func TestBlocksToKeep(t *testing.T) {
	var want []kept
	a, b := &wire.BlocksToKeep{}, &wire.BlocksToKeep{}
	for i := range 10 {
		k := kept{headrace.Block{ID: headrace.BlockID{Pool: "a", Number: int64(i)}, Generation: int64(100 + i), Bytes: int64(1000 * i)}, uint32(9 - i)}
		l := a
		if i >= 6 {
			k.block.ID.Pool, l = "b", b
		}
		want = append(want, k)
		AddToKeep(l, k.block, k.place)
	}
	if got := toKeep(a, nil, &wire.BlocksToKeep{}, b); !reflect.DeepEqual(got, want) {
		t.Errorf("%v comes back as %v", want, got)
	}
	for what, cut := range map[string]func(*wire.BlocksToKeep){
		"numbers":         func(l *wire.BlocksToKeep) { l.Blocks.Numbers = l.Blocks.Numbers[:3] },
		"too many":        func(l *wire.BlocksToKeep) { l.Blocks.Numbers = append(l.Blocks.Numbers, 77) },
		"no blocks":       func(l *wire.BlocksToKeep) { l.Blocks = nil },
		"generations":     func(l *wire.BlocksToKeep) { l.Generations = l.Generations[1:] },
		"no bytes":        func(l *wire.BlocksToKeep) { l.Bytes = nil },
		"too many places": func(l *wire.BlocksToKeep) { l.Places = append(l.Places, 1) },
	} {
		odd := proto.CloneOf(a)
		cut(odd)
		if got := toKeep(odd, b); !reflect.DeepEqual(got, want[6:]) {
			t.Errorf("with other %s: %v", what, got)
		}
	}
	for range BlocksToKeep(a, b) {
		break
	}
}
