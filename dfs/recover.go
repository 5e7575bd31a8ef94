package dfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"headrace/meta"
	"headrace/wire"
)

// mostRecoveries is how many blocks are recovered at the same time.
const mostRecoveries = 16

// recoverBlocks has the blocks whose writers have gone closed at the length on which their nodes agree, and
// then their files.
func (k *steward) recoverBlocks() {
	var all []meta.Recovery
	k.n.ask(func(q meta.Query) {
		if !q.SafeMode() {
			all = q.Recoveries()
		}
	})
	var running sync.WaitGroup
	slots := make(chan struct{}, mostRecoveries)
	for _, r := range all {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			if err := k.recoverBlock(k.n.ctx, r); err != nil {
				k.n.told("recover a block", err) // again in the next round, under a newer stamp when this one's time is over
			}
		})
	}
	running.Wait()
}

// recoverBlock fences the block at its nodes, has them agree on a length, and notes that. Each step may be done again.
func (k *steward) recoverBlock(ctx context.Context, r meta.Recovery) error {
	places := k.n.Places()
	fence := func(node string) (*wire.BlockCopy, error) { return k.fenceAt(ctx, node, r) }
	length, from, err := agree(r.Block.Block, r.Stamp, r.Cut, places.hear(places.names(r.Block), fence))
	if err == nil && length == 0 && r.Block.Size > 0 {
		// Somebody has had some. Before it is given up those are asked as well that are not known to have it; what is older may not be the same bytes.
		said := slices.DeleteFunc(places.hear(places.others(r.Block), fence), func(h heard) bool { return h.copy != nil && h.copy.Stamp < r.Block.Stamp })
		length, from, err = agree(r.Block.Block, r.Stamp, r.Cut, said)
	}
	if err != nil {
		return fmt.Errorf("block %d: %w", r.Block.ID, err)
	}
	done := &meta.CommitRecovery{Block: r.Block.ID, Stamp: r.Stamp, Size: length, Delete: length == 0, Close: true}
	if length > 0 {
		if done.Nodes, err = k.cutAt(ctx, from, r, length); len(done.Nodes) == 0 {
			return fmt.Errorf("block %d: %w", r.Block.ID, err)
		}
	}
	k.n.propose(done)
	return nil
}

// hear asks nodes about a block. Those that are known not to be there have not answered: a round that waited for them
// each time would keep everything else waiting.
func (p Places) hear(nodes []string, ask func(node string) (*wire.BlockCopy, error)) []heard {
	said := make([]heard, len(nodes))
	var asking sync.WaitGroup
	for i, name := range nodes {
		said[i] = heard{node: name, gone: p.out(name), err: errNotUp}
		if p.up(name) {
			asking.Go(func() { said[i].copy, said[i].err = ask(name) })
		}
	}
	asking.Wait()
	return said
}

var (
	errNotUp      = errors.New("it is not there, as far as the ring knows")
	errUnreadable = errors.New("its copy is damaged, and nothing of it can be read now")
)

func (k *steward) fenceAt(ctx context.Context, name string, r meta.Recovery) (*wire.BlockCopy, error) {
	at, err := k.at(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	a, err := at.Fence(ctx, &wire.FenceRequest{Block: r.Block.ID, Recovery: r.Stamp, Closed: r.Cut > 0})
	if err != nil {
		return nil, err
	}
	return a.GetCopy(), nil
}

// cutAt gives copies the length, and returns who has it then.
func (k *steward) cutAt(ctx context.Context, nodes []string, r meta.Recovery, length int64) (done []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, workTime)
	defer cancel()
	errs := make([]error, len(nodes))
	var cutting sync.WaitGroup
	for i, name := range nodes {
		cutting.Go(func() {
			at, err := k.at(name)
			if err == nil {
				_, err = at.Cut(ctx, &wire.CutRequest{Block: r.Block.ID, Recovery: r.Stamp, Length: length})
			}
			errs[i] = err
		})
	}
	cutting.Wait()
	for i, name := range nodes {
		if errs[i] == nil {
			done = append(done, name)
		}
	}
	return done, errors.Join(errs...)
}

// heard is what a node of a pipeline says of its copy, when it is asked to recover a block.
type heard struct {
	node string
	copy *wire.BlockCopy // nil: it has not answered, for the reason err
	err  error
	gone bool // nobody expects it back
}

// agree decides which length a block gets whose writer has gone, and at which nodes; length 0 means that there is nothing of it, which is as
// good as no block (BlockRecoveryWorker). While those that have not answered may have more it wants to be asked again, until the ring gives them up; if there is nothing else, even
// then.
//
// All that a writer was told is acknowledged is in every copy of the generation that is recorded, or a later one: a pipeline is
// recorded before bytes are acknowledged by it. So any one of those copies has enough, and the shortest is what all have. A copy whose node ended
// may have lost bytes with the power: it counts only where there is no other, and then the longest of such. Copies of older generations were
// left by the pipeline, or have lost the later one with the power: they are the last resort. A finished copy has the length at which
// its writer, or a recovery whose end was not noted, has closed the block: that is the length. Damaged copies are as good as older ones.
//
// Where there is nothing but a damaged copy of which nothing can be read, that is waited for: there was something, and it may be read another
// time.
//
// A closed block that is to be cut (above 0) gets no more than that, and all copies with that much stay.
func agree(b meta.Block, recovery uint64, cut int64, all []heard) (length int64, at []string, err error) {
	var current, older []heard
	var missed []error // of those that may have something
	var unreadable []error
	var gone []string
	for _, h := range all {
		switch {
		case h.copy == nil && h.gone:
			gone = append(gone, h.node)
		case h.copy == nil:
			missed = append(missed, fmt.Errorf("node %s: %w", h.node, h.err))
		case h.copy.Damaged && h.copy.Length == 0:
			unreadable = append(unreadable, fmt.Errorf("node %s: %w", h.node, errUnreadable))
		case h.copy.State == wire.BlockCopy_NONE, h.copy.Length == 0:
		case h.copy.Stamp >= b.Stamp && !h.copy.Damaged:
			current = append(current, h)
		default:
			older = append(older, h)
		}
	}
	sure := len(current) > 0
	if !sure {
		newest := uint64(0)
		for _, h := range older {
			newest = max(newest, h.copy.Stamp)
		}
		current = slices.DeleteFunc(older, func(h heard) bool { return h.copy.Stamp < newest })
	}
	rank := map[wire.BlockCopy_State]int{wire.BlockCopy_WAITING: 1, wire.BlockCopy_WRITING: 2, wire.BlockCopy_FINAL: 3}
	state := wire.BlockCopy_NONE
	for _, h := range current {
		if rank[h.copy.State] > rank[state] {
			state = h.copy.State
		}
	}
	for _, h := range current {
		n := h.copy.Length
		if h.copy.State == state && (length == 0 || state == wire.BlockCopy_WRITING && n < length || state != wire.BlockCopy_WRITING && n > length) {
			length = n
		}
	}
	for _, h := range current { // what an earlier end of this recovery has decided stays
		if h.copy.State == wire.BlockCopy_FINAL && h.copy.Stamp == recovery {
			length = h.copy.Length
		}
	}
	need := b.Size
	if cut > 0 {
		length, need = min(length, cut), cut
	}
	switch {
	case len(current) == 0 && len(gone) > 0:
		return 0, nil, fmt.Errorf("nodes are out that may have it, and nobody else has: %v", gone)
	case len(current) == 0 && len(unreadable) > 0:
		return 0, nil, errors.Join(unreadable...)
	case len(missed) > 0 && (!sure || state == wire.BlockCopy_WAITING || length < need):
		return 0, nil, fmt.Errorf("nodes that may have more of it have not answered: %w", errors.Join(missed...))
	}
	for _, h := range current {
		if h.copy.Length >= length {
			at = append(at, h.node)
		}
	}
	return length, at, nil
}
