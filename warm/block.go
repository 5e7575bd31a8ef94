package warm

import (
	"context"
	"slices"

	"headrace/pagecache"
	"headrace/policy/prefetch"
)

// blockKey names a block by where its pages are. The last block of a file that
// has grown between two requests is another one for each of them.
type blockKey struct {
	dev, ino uint64
	pagecache.Range
}

// alias names a block by a path.
type alias struct {
	path string
	pagecache.Range
}

// block is one that is being read, is locked, or is being released. The engine's
// lock protects it.
type block struct {
	key blockKey
	// bytes is what it counts against the budget.
	bytes int64
	// refs are those who will read it.
	refs    []ref
	aliases []alias
	// pin is nil while it is being read; cancel ends that.
	pin    pagecache.Pinned
	cancel context.CancelFunc
	// leaving: nobody needs it; it is being released, unless an heir is found.
	leaving bool
	used    bool // somebody has read some of it
}

type ref struct {
	r   *request
	pos uint32
}

// wholePages returns what a range counts against the budget: all pages that have some of it.
func wholePages(r pagecache.Range) int64 {
	return (r.Off%pageSize + r.Len + pageSize - 1) / pageSize * pageSize
}

// blockIndex finds the blocks that the engine knows by where their pages are. The engine's lock
// protects them.
type blockIndex struct {
	all map[blockKey]*block
	// known are the same by the paths under which they were met.
	known map[alias]*block
	// locked is what they count against the budget, those under way included.
	locked int64
}

// add enters a block that is going to be read.
func (s *blockIndex) add(b *block) {
	s.all[b.key] = b
	s.locked += b.bytes
}

// meet notes that a path leads to a block.
func (s *blockIndex) meet(b *block, path string) {
	a := alias{path, b.key.Range}
	if s.known[a] != b {
		s.known[a] = b
		b.aliases = append(b.aliases, a)
	}
}

// state returns what is known of a block by its path.
func (s *blockIndex) state(a alias) prefetch.State {
	b := s.known[a]
	switch {
	case b == nil:
		return prefetch.Cold
	case b.pin == nil, b.leaving:
		return prefetch.Moving
	}
	return prefetch.Pinned
}

// install makes a block that was read one that is locked.
func (s *blockIndex) install(b *block, pin pagecache.Pinned) {
	b.pin, b.cancel = pin, nil
	n := pin.Bytes()
	s.locked += n - b.bytes
	for _, at := range b.refs {
		at.r.heldBytes += n - b.bytes
		at.r.move(at.pos, pinned)
	}
	b.bytes = n
	b.leaving = len(b.refs) == 0
}

// remove forgets a block.
func (s *blockIndex) remove(b *block) {
	for _, at := range b.refs {
		delete(at.r.held, at.pos)
		at.r.heldBytes -= b.bytes
	}
	b.refs = nil
	for _, a := range b.aliases {
		if s.known[a] == b {
			delete(s.known, a)
		}
	}
	delete(s.all, b.key)
	s.locked -= b.bytes
}

// refer puts a request into a block's list. The engine's lock is held.
func (b *block) refer(r *request, pos uint32) {
	if r.held[pos] != nil {
		return
	}
	b.refs = append(b.refs, ref{r, pos})
	r.held[pos] = b
	r.heldBytes += b.bytes
	if b.pin != nil {
		r.move(pos, pinned)
	}
}

// unref takes a request off a block's list. It returns the block if it is to be
// released: nobody else may do that then. The engine's lock is held.
func (r *request) unref(pos uint32) *block {
	b := r.held[pos]
	if b == nil {
		return nil
	}
	delete(r.held, pos)
	r.heldBytes -= b.bytes
	b.refs = slices.DeleteFunc(b.refs, func(o ref) bool { return o == ref{r, pos} })
	switch {
	case len(b.refs) > 0:
		return nil
	case b.pin == nil:
		b.cancel() // nobody needs what is being read
		return nil
	}
	b.leaving = true
	return b
}

// kickAll has all lanes look again for something to do. e.mu is held.
func (e *Engine) kickAll() {
	for _, l := range e.lanes {
		l.kick()
	}
}

// letGo releases blocks that unref has returned, except those that it finds an
// heir for.
func (e *Engine) letGo(blocks []*block) {
	for _, b := range blocks {
		if e.inherit(b) {
			continue
		}
		e.release(b)
	}
}

// letGoSoon does as letGo, and does not wait until that is done. e.mu is held.
func (e *Engine) letGoSoon(blocks []*block) {
	if len(blocks) > 0 && !e.closed {
		e.wg.Add(1)
		go func() {
			defer e.wg.Done()
			e.letGo(blocks)
		}()
	}
}

// release unlocks a block that is leaving.
func (e *Engine) release(b *block) {
	if err := b.pin.Release(); err != nil {
		e.cfg.Log.Warn("warm: a block could not be released", "err", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counters.Released += b.bytes
	if !b.used {
		e.counters.Wasted += b.bytes
	}
	e.blocks.remove(b)
	for _, l := range e.lanes {
		l.refused = ""
		l.kick()
	}
}

// inherit looks for another request that waits for its turn at a block that is
// about to be released, and may read it.
func (e *Engine) inherit(b *block) bool {
	tried := map[*request]bool{}
	for {
		e.mu.Lock()
		r, file, path, pos := e.heir(b, tried)
		e.mu.Unlock()
		if r == nil {
			return false
		}
		tried[r] = true
		o, err := e.openSoon(r, path)
		if err != nil {
			continue // it is told when the request's turn comes
		}
		d, err := e.cfg.Devices.Of(o.f)
		o.f.Close()
		if err != nil || o.dev != b.key.dev || o.ino != b.key.ino {
			continue
		}
		e.mu.Lock()
		if r.wants(pos) && r.fits(b.bytes) && r.changedFile(file, o.identity) == "" {
			b.leaving = false
			e.lane(d).portion(r).refer(b, pos)
			e.kickAll()
			e.mu.Unlock()
			return true
		}
		e.mu.Unlock()
	}
}

// heir finds a request that wants a block under one of its paths. e.mu is held.
func (e *Engine) heir(b *block, tried map[*request]bool) (r *request, file int, path string, pos uint32) {
	for _, r := range e.inOrder {
		if tried[r] || e.closed {
			continue
		}
		for _, a := range b.aliases {
			for _, f := range r.named(a.path) {
				file := int(f)
				pos := int64(r.start[file]) + max(0, a.Off-r.Files[file].Off)/e.cfg.Block
				if pos < int64(r.start[file+1]) && r.part(file, uint32(pos)) == a.Range && r.wants(uint32(pos)) && r.fits(b.bytes) {
					return r, file, a.path, uint32(pos)
				}
			}
		}
	}
	return nil, 0, "", 0
}
