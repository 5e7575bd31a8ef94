package sim

// cache is the page cache of a node: pieces of files, those that were used last
// kept longest. What is pinned stays, and is part of its size.
type cache struct {
	size          int64
	bytes, pinned int64
	pins          int // how many are pinned
	entries       map[int32]*cached
	// lru is the ring of what is not pinned: next was used last, prev longest ago.
	lru cached
	// evicted is called for each piece that goes.
	evicted func(piece int32, bytes int64)
}

// cached is a piece that is in memory.
type cached struct {
	piece      int32
	pins       int32 // how many keep it
	bytes      int64
	prev, next *cached
}

func newCache(size int64, evicted func(piece int32, bytes int64)) *cache {
	c := &cache{size: size, entries: map[int32]*cached{}, evicted: evicted}
	c.lru.prev, c.lru.next = &c.lru, &c.lru
	return c
}

// get is a piece that is there, or nil.
func (c *cache) get(piece int32) *cached { return c.entries[piece] }

// use notes that a piece is read.
func (c *cache) use(x *cached) {
	if x.pins == 0 {
		c.unlink(x)
		c.link(x)
	}
}

// put enters a piece that is not there, and lets go of others for it. It reports
// false where that is not possible.
func (c *cache) put(piece int32, bytes int64) bool {
	if bytes > c.size-c.pinned {
		return false
	}
	for c.bytes+bytes > c.size {
		c.drop(c.lru.prev)
	}
	x := &cached{piece: piece, bytes: bytes}
	c.entries[piece] = x
	c.bytes += bytes
	c.link(x)
	return true
}

// pin keeps a piece until as many have let it go as have pinned it.
func (c *cache) pin(x *cached) {
	if x.pins++; x.pins == 1 {
		c.unlink(x)
		c.pinned += x.bytes
		c.pins++
	}
}

func (c *cache) unpin(x *cached) {
	if x.pins--; x.pins == 0 {
		c.pinned -= x.bytes
		c.pins--
		c.link(x)
	}
}

func (c *cache) drop(x *cached) {
	c.unlink(x)
	delete(c.entries, x.piece)
	c.bytes -= x.bytes
	c.evicted(x.piece, x.bytes)
}

func (c *cache) link(x *cached) {
	x.prev, x.next = &c.lru, c.lru.next
	x.prev.next, x.next.prev = x, x
}

func (c *cache) unlink(x *cached) {
	x.prev.next, x.next.prev = x.next, x.prev
	x.prev, x.next = nil, nil
}
