package dfs

import (
	"sync"
	"sync/atomic"

	"headrace/block"
)

// seen is how far readers may read blocks that are being written: what all nodes of the pipeline after this one have, too. So what
// anybody has read is there after the recovery of the block, whoever of them lives.
type seen struct {
	mu sync.Mutex
	of map[int64]*mark
}

// mark is that of a generation of a block.
type mark struct {
	stamp  uint64
	length atomic.Int64
}

// A Seen notes how far readers may read a block that somebody writes.
type Seen struct{ m *mark }

// Set notes a length, which does not shrink.
func (s Seen) Set(length int64) {
	if length > s.m.length.Load() {
		s.m.length.Store(length) // one goroutine does that
	}
}

// Writing begins to note how far readers may read a block, at least length.
func (k *Keeper) Writing(b block.Block, length int64) Seen {
	m := &mark{stamp: b.Stamp}
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	if old := k.seen.of[b.ID]; old != nil { // what they have seen they see on
		length = max(length, old.length.Load())
	}
	m.length.Store(length)
	k.seen.of[b.ID] = m
	return Seen{m}
}

// Visible returns how many bytes of a copy readers may see. A copy that was found at the start has what survived.
func (k *Keeper) Visible(i block.Info) int64 {
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	m := k.seen.of[i.ID]
	switch {
	case m == nil:
	case i.State == block.Final || i.Stamp < m.stamp:
		delete(k.seen.of, i.ID)
	default:
		return min(i.Length, m.length.Load())
	}
	return i.Length
}

// forgetSeen forgets those that are finished or gone.
func (k *Keeper) forgetSeen() {
	k.seen.mu.Lock()
	defer k.seen.mu.Unlock()
	for id := range k.seen.of {
		if i, err := k.n.Blocks.Stat(id); err != nil || i.State == block.Final {
			delete(k.seen.of, id)
		}
	}
}
