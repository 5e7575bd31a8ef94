package dfs

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"headrace/block"
	"headrace/meta"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// keep has this node have what the ring says, at the start and whenever that has changed, and looks at all copies from time to time.
func (k *Keeper) keep() {
	all := time.NewTicker(k.n.Config.Reconcile)
	defer all.Stop()
	var epoch uint64 // for which this node has all
	judged, checked := false, false
	again := false // all is to be looked at
	due := func() bool {
		select {
		case <-k.look:
			again = true
		default:
		}
		return again
	}
	hourly := func() bool {
		select {
		case <-all.C:
			again = true
		default:
		}
		return again
	}
	retry := retryTime
	for k.n.ctx.Err() == nil {
		changed := k.n.Changed()
		v := k.n.View()
		var err error
		if !judged {
			err = k.judge(k.n.ctx, k.n.Blocks.Blocks())
			judged = err == nil
		}
		if !checked && err == nil {
			err = k.fills.check(k.n.ctx)
			checked = err == nil
		}
		if checked && epoch != v.Table.Epoch() {
			ferr := k.fills.fill(k.n.ctx, v, due, hourly)
			if ferr == nil {
				epoch = v.Table.Epoch()
			}
			if again {
				judged, checked, epoch, again = false, false, 0, false
			}
			if errors.Is(ferr, errOvertaken) {
				continue
			}
			err = errors.Join(err, ferr)
		}
		wait := (<-chan time.Time)(nil)
		if err != nil {
			if !leaderless(err) {
				k.n.told("reconcile", err)
			}
			wait = time.After(pause(err, retry))
			retry = min(2*retry, mostRetryTime)
		} else {
			retry = retryTime
		}
		select {
		case <-k.n.ctx.Done():
		case <-changed:
		case <-wait:
		case <-all.C:
			judged, checked, epoch = false, false, 0
		case <-k.look:
			judged, checked, epoch = false, false, 0
		}
	}
}

const (
	retryTime     = 200 * time.Millisecond
	mostRetryTime = 10 * time.Second
	fullTime      = 5 * time.Minute // where nothing but room was missing: all that is to be here is listed and tried anew each time
	askedAtOnce   = 1000
)

// pause is for how long nothing is tried again after an error, where that is usually so long.
func pause(err error, usual time.Duration) time.Duration {
	if errors.Is(err, block.ErrFull) {
		return fullTime
	}
	return usual
}

// lookSoon has all copies looked at soon.
func (k *Keeper) lookSoon() {
	select {
	case k.look <- struct{}{}:
	default:
	}
}

// judge asks which copies nobody needs, and which are old. What nobody has needed in any look for the time between two is deleted: a look that comes early, as when a
// disk does, or the last one was not answered, is not enough.
func (k *Keeper) judge(ctx context.Context, copies []block.Info) error {
	found, now := map[int64]time.Time{}, k.n.Config.Now()
	k.mu.Lock()
	before := k.surplus
	k.mu.Unlock()
	var failed error
	for part := range slices.Chunk(copies, askedAtOnce) {
		r, err := k.judged(ctx, part, false)
		if err != nil {
			return err
		}
		for _, id := range r.Surplus {
			found[int64(id)] = now
			if first, again := before[int64(id)]; again {
				found[int64(id)] = first
			}
		}
		for _, w := range r.Stale {
			if err := k.fetch(ctx, w, w.Nodes); err != nil && !errors.Is(err, errBusy) {
				failed = err
			}
		}
	}
	k.n.told("fetch what is old here", failed) // there may be no other copy
	k.mu.Lock()
	k.surplus = found
	k.mu.Unlock()
	late := k.n.Config.Reconcile * 59 / 60 // looks do not begin quite on time
	return k.drop(ctx, slices.DeleteFunc(slices.Clone(copies), func(i block.Info) bool {
		first, is := found[i.ID]
		return !is || now.Sub(first) < late
	}))
}

func (k *Keeper) judged(ctx context.Context, copies []block.Info, ask bool) (r *wire.JudgeResponse, err error) {
	q := &wire.JudgeRequest{Node: k.n.Identity.Node, Ask: ask}
	for _, i := range copies {
		if i.State != block.Temporary {
			q.Copies = append(q.Copies, copyProto(i))
		}
	}
	err = k.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) error {
		r, err = leader.Judge(ctx, q)
		return err
	})
	return r, err
}

// drop deletes copies that are still needed by nobody, of blocks of which others have enough for certain.
func (k *Keeper) drop(ctx context.Context, copies []block.Info) error {
	for part := range slices.Chunk(copies, askedAtOnce) {
		r, err := k.judged(ctx, part, true)
		if err != nil {
			return err
		}
		if part = surplus(part, r); len(part) == 0 {
			continue
		}
		if err := k.dropNow(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// unneeded returns those of blocks of which there are enough copies without that of the node that asks. If there is no other one it is noted that that
// node has it: then readers find it, and copies are made from it.
func (k *steward) unneeded(places Places, blocks []meta.Placed, q *wire.JudgeRequest) []meta.Placed {
	copies := k.lookAround(places, blocks)
	own := map[uint64]*wire.BlockCopy{}
	for _, c := range q.Copies {
		own[c.Block] = c
	}
	said := census{q.Node: own}
	var only []meta.Relocation
	for i := range blocks {
		if b := &blocks[i]; places.good(b, copies) == 0 && said.has(q.Node, &b.Block) {
			only = append(only, meta.Relocation{Block: b.ID, Stamp: b.Stamp, Nodes: []string{q.Node}})
		}
	}
	k.relocate(only)
	return slices.DeleteFunc(blocks, func(b meta.Placed) bool { return !places.enough(&b, copies) })
}

// surplus returns those of copies that an answer says are.
func surplus(copies []block.Info, r *wire.JudgeResponse) []block.Info {
	return slices.DeleteFunc(slices.Clone(copies), func(i block.Info) bool { return !slices.Contains(r.Surplus, uint64(i.ID)) })
}

func (k *Keeper) dropNow(ctx context.Context, copies []block.Info) error {
	blocks, err := k.condemn(ctx, copies)
	if err != nil || len(blocks) == 0 {
		return err
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		clear(k.condemned)
	}()
	k.n.Config.Log.Warn("copies of blocks that no file needs here are deleted", "number", len(blocks))
	if err := k.n.Blocks.Delete(blocks...); !errors.Is(err, block.ErrNotFound) {
		return err
	}
	return nil
}

// condemn returns the copies that are to be deleted, which are not here any more for whoever asks from now on: to delete them may take long.
func (k *Keeper) condemn(ctx context.Context, copies []block.Info) (blocks []block.Block, err error) {
	k.dropping.Lock()
	defer k.dropping.Unlock()
	r, err := k.judged(ctx, copies, false)
	if err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, i := range surplus(copies, r) {
		blocks = append(blocks, i.Block)
		k.condemned[i.ID] = true
	}
	return blocks, nil
}

// damaged has a copy that cannot be read as it was written replaced by one from another node.
func (k *Keeper) damaged(i block.Info) {
	select {
	case <-k.ready:
	case <-k.n.ctx.Done():
		return
	}
	r, err := k.judged(k.n.ctx, []block.Info{i}, false)
	if err != nil {
		k.n.told("replace a damaged copy", err) // the next look at all copies finds it
		return
	}
	for _, w := range r.Stale {
		k.n.told("replace a damaged copy", k.fetch(k.n.ctx, w, w.Nodes))
	}
}

// Verify has a node look whether its copy of a block is damaged, soon.
func (k *Keeper) Verify(node string, id uint64) {
	at, err := k.at(node)
	if err != nil {
		return
	}
	if node == k.n.Identity.Node {
		at.Verify(k.n.ctx, &wire.VerifyRequest{Block: id})
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	o := order{id, node}
	if k.verifying[o] || len(k.verifying) >= mostOrdered {
		return
	}
	k.verifying[o] = true
	k.n.running.Go(func() {
		ctx, cancel := context.WithTimeout(k.n.ctx, askTime)
		defer cancel()
		_, err := at.Verify(ctx, &wire.VerifyRequest{Block: id})
		k.n.told("have a copy verified at "+node, err)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.verifying, o)
	})
}

// verifyRate is how many bytes a second are read of what somebody says is damaged: everybody may say so of everything.
const verifyRate = 32 << 20

// verifyCopies reads copies of which somebody says that they are damaged. If so, that is told of as usual.
func (k *Keeper) verifyCopies() {
	pace := rate{bytes: verifyRate}
	for {
		select {
		case <-k.n.ctx.Done():
			return
		case id := <-k.verify:
			k.readAll(id, &pace)
		}
	}
}

// readAll reports whether all of a copy can be read.
func (k *Keeper) readAll(id int64, pace *rate) bool {
	i, err := k.n.Blocks.Stat(id)
	if err != nil {
		return false
	}
	r, err := k.n.Blocks.Open(i.Block, 0, i.Length)
	if err != nil {
		return false
	}
	defer r.Close()
	for err == nil {
		var p block.Part
		if p, err = r.Next(k.n.ctx); err == nil {
			err = pace.take(k.n.ctx, len(p.Data))
		}
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, block.ErrDamaged) {
		return true
	}
	k.n.told("verify a copy", err)
	return false
}
