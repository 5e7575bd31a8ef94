package dfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"headrace/block"
	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// keep has this node have what the ring says, at the start and whenever that has changed, and looks at all copies from time to time.
func (k *Keeper) keep() {
	all := time.NewTicker(k.n.Config.Reconcile)
	defer all.Stop()
	var epoch uint64 // for which this node has all
	judged, checked := false, false
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
			err = k.check(k.n.ctx)
			checked = err == nil
		}
		if checked && epoch != v.Table.Epoch() {
			ferr := k.fill(k.n.ctx, v)
			if ferr == nil {
				epoch = v.Table.Epoch()
			}
			err = errors.Join(err, ferr)
		}
		wait := (<-chan time.Time)(nil)
		if err != nil {
			if !leaderless(err) {
				k.n.told("reconcile", err)
			}
			wait = time.After(retry)
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
	askedAtOnce   = 1000
)

// lookSoon has all copies looked at soon.
func (k *Keeper) lookSoon() {
	select {
	case k.look <- struct{}{}:
	default:
	}
}

// judge asks which copies nobody needs, and which are old. What nobody needs in the second look as well is deleted.
func (k *Keeper) judge(ctx context.Context, copies []block.Info) error {
	found := map[int64]bool{}
	var failed error
	for part := range slices.Chunk(copies, askedAtOnce) {
		r, err := k.judged(ctx, part, false)
		if err != nil {
			return err
		}
		for _, id := range r.Surplus {
			found[int64(id)] = true
		}
		for _, w := range r.Stale {
			if err := k.fetch(ctx, w, w.Nodes); err != nil && !errors.Is(err, errBusy) {
				failed = err
			}
		}
	}
	k.n.told("fetch what is old here", failed) // there may be no other copy
	k.mu.Lock()
	twice := maps.Clone(found)
	maps.DeleteFunc(twice, func(id int64, _ bool) bool { return !k.surplus[id] })
	k.surplus = found
	k.mu.Unlock()
	return k.drop(ctx, slices.DeleteFunc(slices.Clone(copies), func(i block.Info) bool { return !twice[i.ID] }))
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

// drop deletes copies that are still needed by nobody, of blocks that others have for certain.
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

// surplus returns those of copies that an answer says are.
func surplus(copies []block.Info, r *wire.JudgeResponse) []block.Info {
	return slices.DeleteFunc(slices.Clone(copies), func(i block.Info) bool { return !slices.Contains(r.Surplus, uint64(i.ID)) })
}

func (k *Keeper) dropNow(ctx context.Context, copies []block.Info) error {
	k.dropping.Lock()
	defer k.dropping.Unlock()
	r, err := k.judged(ctx, copies, false)
	if err != nil {
		return err
	}
	var blocks []block.Block
	for _, i := range surplus(copies, r) {
		blocks = append(blocks, i.Block)
	}
	if len(blocks) == 0 {
		return nil
	}
	k.n.Config.Log.Warn("copies of blocks that no file needs here are deleted", "number", len(blocks))
	if err := k.n.Blocks.Delete(blocks...); !errors.Is(err, block.ErrNotFound) {
		return err
	}
	return nil
}

// held returns the segments that the table counts on here of which this node has all.
func (k *Keeper) held(ctx context.Context) ([]uint16, error) {
	t := k.n.View().Table
	var counted, held []uint16
	for s := range t.Segments() {
		if slices.Contains(t.Holders(uint16(s)), k.n.Identity.Node) {
			counted = append(counted, uint16(s))
		}
	}
	lacks := map[uint16]bool{}
	err := k.listed(ctx, counted, func(w *wire.WantedBlock) {
		if len(w.Nodes) == 0 && !k.good(w) {
			lacks[uint16(w.Segment)] = true
		}
	})
	for _, s := range counted {
		if !lacks[s] {
			held = append(held, s)
		}
	}
	return held, err
}

// good reports whether the copy here is as it is to be. One that was damaged is, as it was told of and is being replaced.
func (k *Keeper) good(w *wire.WantedBlock) bool {
	return finished(k.copyOf(int64(w.Block)), &meta.Block{ID: w.Block, Stamp: w.Stamp, Size: w.Length})
}

// listed calls f for the finished blocks of segments.
func (k *Keeper) listed(ctx context.Context, segments []uint16, f func(*wire.WantedBlock)) error {
	q := &wire.SegmentsRequest{Segments: segmentNumbers(segments)}
	for len(segments) > 0 {
		var r *wire.SegmentsResponse
		err := k.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) (err error) {
			r, err = leader.Segments(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, w := range r.Blocks {
			f(w)
		}
		if q.After = r.After; len(q.After) == 0 {
			return nil
		}
	}
	return nil
}

// check finds out which segments are here, and says so of those that the table counts on in vain.
func (k *Keeper) check(ctx context.Context) error {
	held, err := k.held(ctx)
	if err != nil {
		return err
	}
	k.mu.Lock()
	clear(k.has)
	for _, s := range held {
		k.has[s] = true
	}
	k.mu.Unlock()
	return nil
}

// filledAtOnce is how many segments are filled before others are told.
const filledAtOnce = 64

// fill fetches what a table says is to be here, and tells of it.
func (k *Keeper) fill(ctx context.Context, v *View) error {
	t, self := v.Table, k.n.Identity.Node
	if n, ok := t.Node(self); !ok || n.State != ring.IsUp {
		return fmt.Errorf("the ring does not take this node for up yet: %w", &NotLeader{Leader: v.Leader})
	}
	k.mu.Lock()
	has := slices.Collect(maps.Keys(k.has))
	k.mu.Unlock()
	d := t.Reconcile(self, has)
	k.set(d.Forget, false)
	if len(d.Lost) > 0 {
		k.n.Config.Log.Warn("copies that the ring counts on are not here", "segments", len(d.Lost))
		return k.filled(ctx, &wire.FilledRequest{Epoch: t.Epoch(), Segments: segmentNumbers(d.Lost), Lost: true})
	}
	lacks, done, err := k.lacks(ctx, d.Fetch)
	if err != nil {
		return err
	}
	if err := k.fulfil(ctx, t, done); err != nil { // at once what takes no copying
		return err
	}
	var failed error
	for moves := range slices.Chunk(lacks, filledAtOnce) {
		done, err := k.fillSome(ctx, t, moves)
		failed = errors.Join(failed, err)
		if err := k.fulfil(ctx, t, done); err != nil {
			return err
		}
	}
	return failed
}

// fulfil says that all is here of segments.
func (k *Keeper) fulfil(ctx context.Context, t *ring.Table, done []uint16) error {
	if len(done) == 0 {
		return nil
	}
	err := k.filled(ctx, &wire.FilledRequest{Epoch: t.Epoch(), Segments: segmentNumbers(done)})
	if err == nil {
		k.set(done, true)
	}
	return err
}

// filling is a segment that is not all here.
type filling struct {
	ring.Move
	blocks []*wire.WantedBlock // that are to be fetched
}

// lacks finds out what is to be fetched of segments, in their order, and which are here.
func (k *Keeper) lacks(ctx context.Context, moves []ring.Move) (lacks []filling, done []uint16, err error) {
	var segments []uint16
	for _, m := range moves {
		segments = append(segments, m.Segment)
	}
	blocks := map[uint16][]*wire.WantedBlock{}
	err = k.listed(ctx, segments, func(w *wire.WantedBlock) {
		if !k.good(w) {
			blocks[uint16(w.Segment)] = append(blocks[uint16(w.Segment)], w)
		}
	})
	for _, m := range moves {
		if b := blocks[m.Segment]; len(b) > 0 {
			lacks = append(lacks, filling{m, b})
		} else {
			done = append(done, m.Segment)
		}
	}
	return lacks, done, err
}

func (k *Keeper) set(segments []uint16, has bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range segments {
		if has {
			k.has[s] = true
		} else {
			delete(k.has, s)
		}
	}
}

func (k *Keeper) filled(ctx context.Context, q *wire.FilledRequest) error {
	q.Node = k.n.Identity.Node
	return k.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) error {
		_, err := leader.Filled(ctx, q)
		return err
	})
}

// mostFetches is how many blocks are fetched at the same time.
const mostFetches = 4

// fillSome fetches the blocks of segments, and returns those of which all is here.
func (k *Keeper) fillSome(ctx context.Context, t *ring.Table, some []filling) (done []uint16, failed error) {
	lacks := map[uint16]bool{}
	var mu sync.Mutex
	var fetching sync.WaitGroup
	slots := make(chan struct{}, mostFetches)
	for _, f := range some {
		from := append([]string{f.From}, slices.DeleteFunc(t.ReadFrom(f.Segment), func(name string) bool { return name == f.From })...)
		for _, w := range f.blocks {
			sources := w.Nodes
			if len(sources) == 0 {
				sources = from
			}
			slots <- struct{}{}
			fetching.Go(func() {
				defer func() { <-slots }()
				if err := k.fetch(ctx, w, sources); err != nil {
					mu.Lock()
					defer mu.Unlock()
					lacks[f.Segment], failed = true, errors.Join(failed, err)
				}
			})
		}
	}
	fetching.Wait()
	for _, f := range some {
		if !lacks[f.Segment] {
			done = append(done, f.Segment)
		}
	}
	return done, failed
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
	if k.ordered[o] || len(k.ordered) >= mostOrdered {
		return
	}
	k.ordered[o] = true
	k.n.running.Go(func() {
		ctx, cancel := context.WithTimeout(k.n.ctx, askTime)
		defer cancel()
		_, err := at.Verify(ctx, &wire.VerifyRequest{Block: id})
		k.n.told("have a copy verified at "+node, err)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.ordered, o)
	})
}

// verifyCopies reads copies of which somebody says that they are damaged. If so, that is told of as usual.
func (k *Keeper) verifyCopies() {
	for {
		select {
		case <-k.n.ctx.Done():
			return
		case id := <-k.verify:
			k.readAll(id)
		}
	}
}

func (k *Keeper) readAll(id int64) {
	i, err := k.n.Blocks.Stat(id)
	if err != nil {
		return
	}
	r, err := k.n.Blocks.Open(i.Block, 0, i.Length)
	if err != nil {
		return
	}
	defer r.Close()
	for err == nil {
		_, err = r.Next(k.n.ctx)
	}
	if !errors.Is(err, io.EOF) {
		k.n.told("verify a copy", err)
	}
}
