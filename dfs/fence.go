package dfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"headrace/block"
	"headrace/internal/crash"
	"headrace/wire"
)

// fence promises that nobody writes to a copy under an older generation, and returns what it is. Where that takes longer than who asks waits, it is found out all the same: ask again.
// closed is of newer.
func (k *Keeper) fence(ctx context.Context, id int64, recovery uint64, closed bool) (*wire.BlockCopy, error) {
	i, err := k.n.Blocks.Stat(id)
	if err == nil && i.Suspect && i.State == block.Final {
		if err := k.readings.once(ctx, k, i); err != nil { // what is finished only by its header is not
			return nil, err
		}
		i, err = k.n.Blocks.Stat(id)
	}
	switch {
	case errors.Is(err, block.ErrNotFound), err == nil && i.State == block.Temporary:
		return k.nothing(id)
	case err != nil:
		return nil, err
	case i.State == block.Final && i.Stamp == recovery: // who ended the recovery has not said so yet
		return copyProto(i), nil
	}
	if err := k.newer(ctx, i, closed); err != nil {
		return nil, err
	}
	i, err = k.n.Blocks.StartRecovery(i.Block, recovery)
	if err != nil {
		return nil, err
	}
	crash.Here("dfs.recover.started")
	if i.State == block.Waiting && !i.Whole && !i.Damaged { // of such the longest counts, which is not to be a damaged one
		if err := k.readings.once(ctx, k, i); err != nil {
			return nil, err
		}
		j, err := k.n.Blocks.Stat(id)
		if err != nil {
			return nil, err
		}
		i.Damaged = j.Damaged
	}
	return copyProto(i), nil
}

// newer returns nil if what is here of a block is of the generation that is recorded and has lost nothing, or nothing newer can be here: a copy that was made in its place may be on a disk that cannot be
// seen, or what was appended under the same generation, and an older one that was deleted comes back where the power has failed. Of a disk that has failed since the node began it is
// known what was there; of parts that cannot be read only those of the block's file count: others are not to hold up recoveries as long as the disk is used.
//
// closed: the block was closed as it is recorded, and nobody has opened it since.
func (k *Keeper) newer(ctx context.Context, i block.Info, closed bool) error {
	behind, out := block.Behind(k.n.Blocks, i.ID)
	volumes := k.n.Blocks.Volumes()
	if out == nil && !slices.ContainsFunc(volumes, func(v block.Volume) bool { return v.Unseen != nil || len(v.Gaps) > 0 }) {
		return nil
	}
	r, err := k.locate(ctx, i.ID)
	if err != nil {
		return fmt.Errorf("generation %d is here, and nobody tells which one is recorded: %w", i.Stamp, err)
	}
	w := r.Wanted
	// A block that is closed here may have been opened again under the generation that it had, and have got more elsewhere.
	more := i.Damaged || i.Length < w.GetLength() || i.State == block.Final && i.Length == w.GetLength() && !closed
	if w == nil || w.Stamp < i.Stamp || w.Stamp == i.Stamp && !more {
		return nil
	}
	hides := func(dir string, cause error) error {
		return fmt.Errorf("generation %d is here, and a newer one may be in %s: %w", i.Stamp, dir, cause)
	}
	if out != nil && (behind.Stamp > i.Stamp || behind.Stamp == i.Stamp && (behind.Length > i.Length || i.Damaged)) {
		return hides(behind.Dir, out)
	}
	for _, v := range volumes {
		if v.Unseen != nil {
			return hides(v.Dir, v.Unseen)
		}
		for _, gap := range v.Gaps {
			if gap.Has(i.File) || gap.Has(w.File) {
				return hides(v.Dir, gap.Cause)
			}
		}
	}
	return nil
}

// A reading is one of all of a copy, as it was then.
type reading struct {
	stamp  uint64
	length int64
	ended  chan struct{}
	all    bool // it could be read; set before that
}

// mostReadings is how many copies are read at the same time for recoveries.
const mostReadings = 4

var errReading = errors.New("its copy is being read")

// readings are those of copies under recovery.
type readings struct {
	slots chan struct{} // one for each that is under way

	mu sync.Mutex
	of map[int64]*reading // by block
}

// once has a copy read to its end, so that it is known whether it is damaged, unless that was done since it is as it is. It waits for that as long as ctx says; the reading goes on.
func (o *readings) once(ctx context.Context, k *Keeper, i block.Info) error {
	o.mu.Lock()
	r := o.of[i.ID]
	if r == nil || r.stamp != i.Stamp || r.length != i.Length {
		r = &reading{stamp: i.Stamp, length: i.Length, ended: make(chan struct{})}
		o.of[i.ID] = r
		k.n.running.Go(func() {
			defer close(r.ended)
			select {
			case o.slots <- struct{}{}:
				defer func() { <-o.slots }()
			case <-k.n.ctx.Done():
			}
			r.all = k.readAll(i.ID, &rate{})
		})
	}
	o.mu.Unlock()
	select {
	case <-r.ended:
	case <-ctx.Done():
		return errReading
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !r.all && o.of[i.ID] == r { // the copy is known to be damaged now, or another one, or its disk is out
		delete(o.of, i.ID)
	}
	return nil
}

// forget forgets those that have ended, of copies that are not under recovery any more.
func (o *readings) forget(store *block.Store) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, r := range o.of {
		select {
		case <-r.ended:
			if i, err := store.Stat(id); err != nil || i.State != block.Recovering {
				delete(o.of, id)
			}
		default:
		}
	}
}
