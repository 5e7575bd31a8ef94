package sim

import "container/list"

// cache is the page cache of a node: pieces of files, those that were used last
// kept longest. What is pinned stays, and is part of its size.
type cache struct {
	size          int64
	bytes, pinned int64
	pins          int // how many are pinned
	entries       map[int32]*cached
	// lru is what is not pinned: first what was used last.
	lru *list.List
	// evicted is called for each piece that goes.
	evicted func(piece int32, bytes int64)
}

// cached is a piece that is in memory.
type cached struct {
	piece int32
	pins  int32 // how many keep it
	bytes int64
	at    *list.Element // of lru; nil when it is pinned
}

func newCache(size int64, evicted func(piece int32, bytes int64)) *cache {
	return &cache{size: size, entries: map[int32]*cached{}, lru: list.New(), evicted: evicted}
}

// get returns a piece that is there, or nil.
func (c *cache) get(piece int32) *cached { return c.entries[piece] }

// keeps reports whether a piece is there and pinned.
func (c *cache) keeps(piece int32) bool {
	x := c.entries[piece]
	return x != nil && x.pins > 0
}

// use notes that a piece is read.
func (c *cache) use(x *cached) {
	if x.pins == 0 {
		c.lru.MoveToFront(x.at)
	}
}

// put enters a piece that is not there, and lets go of others for it. It reports
// false where that is not possible.
func (c *cache) put(piece int32, bytes int64) bool {
	if bytes > c.size-c.pinned {
		return false
	}
	for c.bytes+bytes > c.size {
		c.drop(c.lru.Back().Value.(*cached))
	}
	x := &cached{piece: piece, bytes: bytes}
	c.entries[piece] = x
	c.bytes += bytes
	x.at = c.lru.PushFront(x)
	return true
}

// pin keeps a piece until as many have let it go as have pinned it.
func (c *cache) pin(x *cached) {
	if x.pins++; x.pins == 1 {
		c.lru.Remove(x.at)
		x.at = nil
		c.pinned += x.bytes
		c.pins++
	}
}

func (c *cache) unpin(x *cached) {
	if x.pins--; x.pins == 0 {
		c.pinned -= x.bytes
		c.pins--
		x.at = c.lru.PushFront(x)
	}
}

func (c *cache) drop(x *cached) {
	c.lru.Remove(x.at)
	delete(c.entries, x.piece)
	c.bytes -= x.bytes
	c.evicted(x.piece, x.bytes)
}
