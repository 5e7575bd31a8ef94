package blocks

import (
	"context"
	"time"

	"headrace"
	"headrace/pagecache"
	"headrace/wire"
	"headrace/wire/convert"
)

// watched is a block that somebody wants to know about. Blocks.mu guards it.
type watched struct {
	// file is nil while there is no replica that can be watched, inode which one it is. One that is a part of a file is in
	// shared, by its inode.
	file  pagecache.Watched
	inode inode
	part  pagecache.Range
	state partState
	bytes int64
	turn
	// told is what the manager knows to be in memory, telling what the last report said.
	told, telling int64
}

// forget ends the watching of a replica. b.mu is held.
func (b *Blocks) forget(w *watched) {
	switch {
	case w.part.Len > 0:
		b.leave(w.inode)
	case w.file != nil:
		w.file.Close()
	}
	w.file, w.part, w.state = nil, pagecache.Range{}, partState{}
}

func (b *Blocks) resident(w *watched) int64 {
	switch {
	case w.part.Len > 0:
		return min(b.shared[w.inode].in(b.cfg.Cache, w.part, &w.state), w.bytes)
	case w.file != nil:
		return min(w.file.Resident(), w.bytes)
	}
	return 0
}

// watchAs takes in what is to be watched from now on. b.mu is held.
func (b *Blocks) watchAs(a *wire.BlocksToWatch) {
	if a.Full {
		all := map[headrace.BlockID]bool{}
		for id := range convert.Blocks(a.Add) {
			all[id] = true
		}
		for id := range b.watched {
			if !all[id] {
				b.unwatch(id)
			}
		}
	}
	for id := range convert.Blocks(a.Remove) {
		b.unwatch(id)
	}
	for id := range convert.Blocks(a.Add) {
		if w := b.watched[id]; w == nil {
			b.watched[id] = &watched{turn: turn{order: b.answers}}
		} else if w.told != 0 {
			w.told = untold
		}
	}
}

// unseen returns how many blocks were not looked at yet. b.mu is held.
func (b *Blocks) unseen() (n uint64) {
	for _, w := range b.watched {
		if w.at.IsZero() {
			n++
		}
	}
	return n
}

// untold is no number of bytes: whatever there is is told.
const untold = -1

func (b *Blocks) unwatch(id headrace.BlockID) {
	if w := b.watched[id]; w != nil {
		b.forget(w)
		delete(b.watched, id)
	}
}

// findWatched looks for the data of a block, or whether it still is what is watched. b.mu
// is held.
func (b *Blocks) findWatched(ctx context.Context, id headrace.BlockID, w *watched, now time.Time) {
	c, err := b.cfg.Replicas.Any(ctx, id)
	if err != nil && ctx.Err() != nil { // there was no time for it
		return
	}
	w.miss(now)
	if err != nil {
		b.forget(w)
		return
	}
	defer c.Data.Close()
	found, _, err := inodeOf(c.Data)
	if err != nil {
		b.forget(w)
		return
	}
	w.bytes = c.Bytes
	if w.file == nil && w.part.Len == 0 || found != w.inode || c.Part != w.part {
		b.forget(w)
		if c.Part.Len > 0 {
			_, err = b.share(found, c.Data)
		} else {
			w.file, err = b.cfg.Cache.Watch(c.Data)
		}
		if err != nil {
			w.file = nil
			b.unwatchable(err)
			return
		}
		w.inode, w.part = found, c.Part
	}
	w.found(now)
}

// unwatchable says once that not all can be watched. b.mu is held.
func (b *Blocks) unwatchable(err error) {
	if !b.saidUnwatchable {
		b.saidUnwatchable = true
		b.log.Warn("not all blocks can be watched that somebody is interested in; tasks are not drawn to the others", "watched", len(b.watched), "err", err)
	}
}

// reportWatched tells what has changed in memory, or with all what there is. b.mu is held.
func (b *Blocks) reportWatched(all bool) []*wire.BlocksInMemory {
	pools := map[string]*wire.BlocksInMemory{}
	var list []*wire.BlocksInMemory
	for _, s := range b.shared {
		s.parts = s.file.Blocks(s.parts[:0])
	}
	for id, w := range b.watched {
		w.telling = b.resident(w)
		if w.telling == w.told && !all || all && w.telling == 0 {
			continue
		}
		m := pools[id.Pool]
		if m == nil {
			m = &wire.BlocksInMemory{Blocks: &wire.BlockList{Pool: id.Pool}}
			pools[id.Pool], list = m, append(list, m)
		}
		m.Blocks.Numbers = append(m.Blocks.Numbers, id.Number)
		m.Resident, m.Bytes = append(m.Resident, w.telling), append(m.Bytes, w.bytes)
	}
	return list
}
