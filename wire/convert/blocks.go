package convert

import (
	"iter"

	"headrace"
	"headrace/wire"
)

// Blocks returns the blocks of lists.
func Blocks(lists []*wire.BlockList) iter.Seq[headrace.BlockID] {
	return func(yield func(headrace.BlockID) bool) {
		for _, l := range lists {
			for _, n := range l.GetNumbers() {
				if !yield(headrace.BlockID{Pool: l.Pool, Number: n}) {
					return
				}
			}
		}
	}
}

// BlockLists puts blocks of one pool together.
func BlockLists(ids []headrace.BlockID) (all []*wire.BlockList) {
	of := map[string]*wire.BlockList{}
	for _, id := range ids {
		l := of[id.Pool]
		if l == nil {
			l = &wire.BlockList{Pool: id.Pool}
			of[id.Pool], all = l, append(all, l)
		}
		l.Numbers = append(l.Numbers, id.Number)
	}
	return all
}

// BlocksToKeep returns blocks that are to be kept, without hosts, and their places in the
// order of their job. What is not said of all of a list is not believed of any of it.
func BlocksToKeep(lists ...*wire.BlocksToKeep) iter.Seq2[headrace.Block, uint32] {
	return func(yield func(headrace.Block, uint32) bool) {
		for _, l := range lists {
			n := len(l.GetBlocks().GetNumbers())
			if len(l.GetGenerations()) != n || len(l.GetBytes()) != n || len(l.GetPlaces()) != n {
				continue
			}
			for i, number := range l.GetBlocks().GetNumbers() {
				b := headrace.Block{ID: headrace.BlockID{Pool: l.Blocks.Pool, Number: number}, Generation: l.Generations[i], Bytes: l.Bytes[i]}
				if !yield(b, l.Places[i]) {
					return
				}
			}
		}
	}
}

// AddToKeep appends a block to those of its pool.
func AddToKeep(l *wire.BlocksToKeep, b headrace.Block, place uint32) {
	if l.Blocks == nil {
		l.Blocks = &wire.BlockList{Pool: b.ID.Pool}
	}
	l.Blocks.Numbers, l.Places = append(l.Blocks.Numbers, b.ID.Number), append(l.Places, place)
	l.Generations, l.Bytes = append(l.Generations, b.Generation), append(l.Bytes, b.Bytes)
}
