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
	// by is the user who writes, and has written all from the byte at from on.
	by   string
	from int64
}

// A Seen notes how far readers may read a block that somebody writes.
type Seen struct{ m *mark }

// Set notes a length, which does not shrink.
func (s Seen) Set(length int64) {
	if length > s.m.length.Load() {
		s.m.length.Store(length) // one goroutine does that
	}
}

// WrittenFrom returns from which byte on a user has written the copy of a block that was being written: its length, where that is not known.
func (s *seen) WrittenFrom(id int64, by string, length int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.of[id]; m != nil && m.by == by {
		return min(m.from, length)
	}
	return length
}

// Writing begins to note how far readers may read a block, at least length, and that a user writes from a byte on.
func (s *seen) Writing(b block.Block, length int64, by string, from int64) Seen {
	m := &mark{stamp: b.Stamp, by: by, from: from}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.of[b.ID]; old != nil { // what they have seen they see on
		length = max(length, old.length.Load())
	}
	m.length.Store(length)
	s.of[b.ID] = m
	return Seen{m}
}

// Visible returns how many bytes of a copy readers may see. A copy that was found at the start has what survived.
func (s *seen) Visible(i block.Info) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.of[i.ID]
	switch {
	case m == nil:
	case i.State == block.Final && i.Stamp >= m.stamp: // what is older was looked at before somebody opened it again
		delete(s.of, i.ID)
	default:
		return min(i.Length, m.length.Load())
	}
	return i.Length
}

// forget forgets those that are finished or gone.
func (s *seen) forget(store *block.Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.of {
		if i, err := store.Stat(id); err != nil || i.State == block.Final {
			delete(s.of, id)
		}
	}
}
