package dfs

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"connectrpc.com/connect"

	"headrace/block"
	"headrace/pagecache"
	"headrace/wire"
)

const (
	// keepTime is for how long blocks are read before the node that leads is told which those are.
	keepTime = 5 * time.Second
	// againTime is after how long a block is tried again that could not be kept.
	againTime = 30 * time.Second
	// holdTime is how long a block may take: where others want the disk all the time, others are to be let go meanwhile.
	holdTime = time.Minute
)

// holder keeps those blocks in memory that the node that leads says. They are locked: the kernel lets go of them when the process ends.
type holder struct {
	n      *Node
	cache  pagecache.Cache
	held   map[uint64]held
	failed map[uint64]time.Time // when
	asks   asks
}

// asks says in which rounds the node that leads is asked what to keep: in ever fewer while nothing changes, up to each (mostRest+1)th, and in each when another one
// leads or something else is kept than it has heard of.
type asks struct {
	leader      string
	term        uint64
	kept, keep  []uint64 // what was said, and answered, the last time
	rest, pause int      // rounds to pass over yet, and after the last question
}

const mostRest = 4

// due reports whether it is to be asked in this round.
func (a *asks) due(v *View, kept []uint64) bool {
	if a.leader != v.Leader || a.term != v.Term || !slices.Equal(a.kept, kept) {
		a.pause, a.rest = 0, 0
	}
	if a.rest > 0 {
		a.rest--
		return false
	}
	return true
}

// answered takes in an answer.
func (a *asks) answered(v *View, kept, keep []uint64) {
	same := a.leader == v.Leader && a.term == v.Term && slices.Equal(a.kept, kept) && slices.Equal(a.keep, keep)
	a.leader, a.term, a.kept, a.keep = v.Leader, v.Term, kept, keep
	if a.pause = min(2*a.pause+1, mostRest); !same {
		a.pause = 0
	}
	a.rest = a.pause
}

// held is a block that is locked, as it was then.
type held struct {
	pagecache.Pinned
	block  block.Block
	extent block.Extent
}

// openCache opens what locks memory; nil when nothing is to be locked here.
func openCache(c Config) (pagecache.Cache, error) {
	if c.CacheMemory < 0 {
		return nil, nil
	}
	// Who has read a block is this process, so that what is there already is locked as it is,
	// and need not be found out.
	p, err := pagecache.New(pagecache.Config{Budget: c.CacheMemory, Own: true, Method: pagecache.None, Log: c.Log})
	if err != nil && c.CacheMemory == 0 {
		c.Log.Warn("nothing is kept in memory for cache directives", "err", err)
		return nil, nil
	}
	return p, err
}

// keepInMemory does so until the node ends.
func (n *Node) keepInMemory(cache pagecache.Cache) {
	h := &holder{n: n, cache: cache, held: map[uint64]held{}, failed: map[uint64]time.Time{}}
	n.rounds(n.Config.Memory, nil, func() { n.told("keep blocks in memory", h.round()) })
	n.told("let blocks go", cache.Close())
}

// budget is how much may be locked now: as others want memory it becomes less.
func (h *holder) budget() int64 {
	most := h.cache.Budget()
	if l, err := pagecache.ReadLimits(); err == nil {
		most = min(most, h.cache.Pinned()+pagecache.Spare(l))
	}
	return max(0, most)
}

func (h *holder) round() error {
	for id, b := range h.held {
		if !h.is(id, b) {
			h.let(id)
		}
	}
	k := h.n.Keeper
	v := h.n.View()
	kept := slices.Sorted(maps.Keys(h.held))
	if v.Leader == "" || !h.asks.due(v, kept) {
		return nil
	}
	at, err := k.at(v.Leader)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(h.n.ctx, askTime)
	defer cancel()
	a, err := at.Keep(ctx, &wire.KeepRequest{Node: h.n.Identity.Node, Budget: h.budget(), Used: h.cache.Pinned(), Kept: kept})
	switch {
	case err != nil && (leaderless(err) || connect.CodeOf(err) == connect.CodeUnimplemented): // of an older version
		return nil
	case err != nil:
		return err
	case a.Unknown:
		return nil
	}
	h.asks.answered(v, kept, a.Keep)
	return h.keep(a.Keep)
}

// keep keeps these blocks, and no others.
func (h *holder) keep(blocks []uint64) (err error) {
	wanted := map[uint64]bool{}
	for _, id := range blocks {
		wanted[id] = true
	}
	for id := range h.held {
		if !wanted[id] {
			h.let(id)
		}
	}
	for id, at := range h.failed {
		if time.Since(at) > againTime || !wanted[id] {
			delete(h.failed, id)
		}
	}
	began := time.Now()
	for _, id := range blocks {
		_, has := h.held[id]
		_, failed := h.failed[id]
		if has || failed {
			continue
		}
		if h.n.ctx.Err() != nil || time.Since(began) > keepTime {
			break
		}
		if e := h.hold(id); e != nil {
			h.failed[id] = time.Now()
			err = e
		}
	}
	return err
}

// hold reads a block in turns at the disk, and locks it.
func (h *holder) hold(id uint64) error {
	ctx, cancel := context.WithTimeout(h.n.ctx, holdTime)
	defer cancel()
	if err := block.Warm(ctx, h.n.Blocks, int64(id)); err != nil {
		return err
	}
	i, e, err := h.n.Blocks.Extent(int64(id))
	if err != nil {
		return err
	}
	f, err := os.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	p, err := h.cache.Pin(ctx, f, pagecache.Range{Off: e.Off, Len: e.Size}, nil)
	if err != nil {
		return err
	}
	b := held{p, i.Block, e}
	if !h.is(id, b) { // it was deleted or appended to meanwhile
		return errors.Join(block.ErrChanged, p.Release())
	}
	h.held[id] = b
	return nil
}

// is reports whether a block is still where it was locked.
func (h *holder) is(id uint64, b held) bool {
	i, e, err := h.n.Blocks.Extent(int64(id))
	return err == nil && i.Block == b.block && e == b.extent && !i.Damaged
}

func (h *holder) let(id uint64) {
	h.n.told("let a block go", h.held[id].Release())
	delete(h.held, id)
}
