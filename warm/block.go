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

// wholePages is what a range counts against the budget. It begins at a page.
func wholePages(r pagecache.Range) int64 { return (r.Len + pageSize - 1) / pageSize * pageSize }

// meet notes that a path leads to a block. e.mu is held.
func (e *Engine) meet(b *block, path string) {
	a := alias{path, b.key.Range}
	if e.known[a] != b {
		e.known[a] = b
		b.aliases = append(b.aliases, a)
	}
}

// stateOf is what is known of a block by its path. e.mu is held.
func (e *Engine) stateOf(a alias) prefetch.State {
	b := e.known[a]
	switch {
	case b == nil:
		return prefetch.Cold
	case b.pin == nil, b.leaving:
		return prefetch.Moving
	}
	return prefetch.Pinned
}

// refer puts a request into a block's list. e.mu is held.
func (e *Engine) refer(b *block, r *request, pos uint32) {
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
// released: nobody else may do that then. e.mu is held.
func (e *Engine) unref(r *request, pos uint32) *block {
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

// remove forgets a block. e.mu is held.
func (e *Engine) remove(b *block) {
	for _, at := range b.refs {
		delete(at.r.held, at.pos)
		at.r.heldBytes -= b.bytes
	}
	b.refs = nil
	for _, a := range b.aliases {
		if e.known[a] == b {
			delete(e.known, a)
		}
	}
	delete(e.blocks, b.key)
	e.locked -= b.bytes
	e.kickAll()
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
		if err := b.pin.Release(); err != nil {
			e.cfg.Log.Warn("warm: a block could not be released", "err", err)
		}
		e.mu.Lock()
		e.counters.Released += b.bytes
		if !b.used {
			e.counters.Wasted += b.bytes
		}
		e.remove(b)
		for _, l := range e.lanes {
			l.refused = ""
		}
		e.mu.Unlock()
	}
}

// inherit looks for another request that waits for its turn at a block that is
// about to be released, and may read it.
func (e *Engine) inherit(b *block) bool {
	tried := map[*request]bool{}
	for {
		e.mu.Lock()
		r, file, pos := e.heir(b, tried)
		e.mu.Unlock()
		if r == nil {
			return false
		}
		tried[r] = true
		o, err := e.open(r, file)
		if err != nil {
			continue // it is told when the request's turn comes
		}
		o.f.Close()
		if o.dev != b.key.dev || o.ino != b.key.ino {
			continue
		}
		e.mu.Lock()
		if r.wants(pos) && r.fits(b.bytes) && r.changedFile(file, o.identity) == "" {
			b.leaving = false
			e.refer(b, r, pos)
			e.kickAll()
			e.mu.Unlock()
			return true
		}
		e.mu.Unlock()
	}
}

// heir finds a request that wants a block under one of its paths. e.mu is held.
func (e *Engine) heir(b *block, tried map[*request]bool) (*request, int, uint32) {
	for _, r := range e.inOrder {
		if tried[r] || e.closed {
			continue
		}
		for _, a := range b.aliases {
			file, ok := r.find(a.path)
			if !ok {
				continue
			}
			pos := int64(r.start[file]) + a.Off/e.cfg.Block
			if pos < int64(r.start[file+1]) && r.part(file, uint32(pos)) == a.Range && r.wants(uint32(pos)) && r.fits(b.bytes) {
				return r, file, uint32(pos)
			}
		}
	}
	return nil, 0, 0
}
