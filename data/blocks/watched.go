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
	// file is nil while there is no replica that can be watched, inode which one it is.
	file  pagecache.Watched
	inode inode
	bytes int64
	// at is when to look for it, or at it, again.
	at time.Time
	// told is what the manager knows to be in memory, telling what the last report said.
	told, telling int64
}

func (w *watched) due(now time.Time) bool { return !now.Before(w.at) }

func (w *watched) forget() {
	if w.file != nil {
		w.file.Close()
		w.file = nil
	}
}

func (w *watched) resident() int64 {
	if w.file == nil {
		return 0
	}
	return min(w.file.Resident(), w.bytes)
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
			b.watched[id] = &watched{}
		} else if w.told != 0 {
			w.told = untold
		}
	}
}

// untold is no number of bytes: whatever there is is told.
const untold = -1

func (b *Blocks) unwatch(id headrace.BlockID) {
	if w := b.watched[id]; w != nil {
		w.forget()
		delete(b.watched, id)
	}
}

// findWatched looks for the data of a block, or whether it still is what is watched. b.mu
// is held.
func (b *Blocks) findWatched(ctx context.Context, id headrace.BlockID, w *watched, now time.Time) {
	w.at = now.Add(againAfter)
	f, err := b.cfg.Replicas.Data(ctx, id)
	if err != nil {
		w.forget()
		return
	}
	defer f.Close()
	found, size, err := inodeOf(f)
	if err != nil {
		w.forget()
		return
	}
	w.bytes = size
	if w.file == nil || found != w.inode {
		w.forget()
		if w.file, err = b.cfg.Cache.Watch(f); err != nil {
			w.file = nil
			b.unwatchable(err)
			return
		}
		w.inode = found
	}
	w.at = now.Add(checkAfter)
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
	for id, w := range b.watched {
		w.telling = w.resident()
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
