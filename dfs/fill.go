package dfs

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"headrace/meta"
	"headrace/ring"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// A filler is what the Keeper of a node does about the segments that the ring wants there: it fetches what is not here.
type filler struct {
	*Keeper
	has map[uint16]bool // segments of which this node has all that is settled; guarded by mu
}

// held returns the segments that the table counts on here of which this node has all.
func (f *filler) held(ctx context.Context) ([]uint16, error) {
	t := f.n.View().Table
	var counted, held []uint16
	for s := range t.Segments() {
		if slices.Contains(t.Holders(uint16(s)), f.n.Identity.Node) {
			counted = append(counted, uint16(s))
		}
	}
	lacks := map[uint16]bool{}
	err := f.listed(ctx, counted, func(w *wire.WantedBlock) {
		if len(w.Nodes) == 0 && !f.good(w) {
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
func (f *filler) good(w *wire.WantedBlock) bool {
	return finished(f.copyOf(int64(w.Block)), &meta.Block{ID: w.Block, Stamp: w.Stamp, Size: w.Length})
}

// listed calls do for the finished blocks of segments.
func (f *filler) listed(ctx context.Context, segments []uint16, do func(*wire.WantedBlock)) error {
	q := &wire.SegmentsRequest{Segments: segmentNumbers(segments)}
	for len(segments) > 0 {
		var r *wire.SegmentsResponse
		err := f.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) (err error) {
			r, err = leader.Segments(ctx, q)
			return err
		})
		if err != nil {
			return err
		}
		for _, w := range r.Blocks {
			do(w)
		}
		if q.After = r.After; len(q.After) == 0 {
			return nil
		}
	}
	return nil
}

// check finds out which segments are here, and says so of those that the table counts on in vain.
func (f *filler) check(ctx context.Context) error {
	held, err := f.held(ctx)
	if err != nil {
		return err
	}
	f.mu.Lock()
	clear(f.has)
	for _, s := range held {
		f.has[s] = true
	}
	f.mu.Unlock()
	return nil
}

// filledAtOnce is how many segments are filled before others are told.
const filledAtOnce = 64

// fill fetches what a table says is to be here, and tells of it.
func (f *filler) fill(ctx context.Context, v *View) error {
	t, self := v.Table, f.n.Identity.Node
	if n, ok := t.Node(self); !ok || n.State != ring.IsUp {
		return fmt.Errorf("the ring does not take this node for up yet: %w", &NotLeader{Leader: v.Leader})
	}
	f.mu.Lock()
	has := slices.Collect(maps.Keys(f.has))
	f.mu.Unlock()
	d := t.Reconcile(self, has)
	f.set(d.Forget, false)
	if len(d.Lost) > 0 {
		f.n.Config.Log.Warn("copies that the ring counts on are not here", "segments", len(d.Lost))
		return f.filled(ctx, &wire.FilledRequest{Epoch: t.Epoch(), Segments: segmentNumbers(d.Lost), Lost: true})
	}
	for _, s := range d.Compare {
		d.Fetch = append(d.Fetch, ring.Move{Segment: s, Node: self})
	}
	lacks, done, err := f.lacks(ctx, d.Fetch)
	if err != nil {
		return err
	}
	if err := f.fulfil(ctx, t, done); err != nil { // at once what takes no copying
		return err
	}
	var failed error
	for moves := range slices.Chunk(lacks, filledAtOnce) {
		done, err := f.fillSome(ctx, t, moves)
		failed = errors.Join(failed, err)
		if err := f.fulfil(ctx, t, done); err != nil {
			return err
		}
	}
	return failed
}

// fulfil says that all is here of segments.
func (f *filler) fulfil(ctx context.Context, t *ring.Table, done []uint16) error {
	if len(done) == 0 {
		return nil
	}
	err := f.filled(ctx, &wire.FilledRequest{Epoch: t.Epoch(), Segments: segmentNumbers(done)})
	if err == nil {
		f.set(done, true)
	}
	return err
}

// filling is a segment that is not all here.
type filling struct {
	ring.Move                     // From nobody, when nobody has all of it
	blocks    []*wire.WantedBlock // that are to be fetched
}

// sources are the nodes to be asked for its blocks: those that have all of it, or else each to which it belongs, as they may have some.
func (one *filling) sources(t *ring.Table) []string {
	if one.From == "" {
		return t.Targets(one.Segment)
	}
	return append([]string{one.From}, slices.DeleteFunc(t.ReadFrom(one.Segment), func(name string) bool { return name == one.From })...)
}

// lacks finds out what is to be fetched of segments, in their order, and which are here.
func (f *filler) lacks(ctx context.Context, moves []ring.Move) (lacks []filling, done []uint16, err error) {
	var segments []uint16
	for _, m := range moves {
		segments = append(segments, m.Segment)
	}
	blocks := map[uint16][]*wire.WantedBlock{}
	err = f.listed(ctx, segments, func(w *wire.WantedBlock) {
		if !f.good(w) {
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

func (f *filler) set(segments []uint16, has bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range segments {
		if has {
			f.has[s] = true
		} else {
			delete(f.has, s)
		}
	}
}

func (f *filler) filled(ctx context.Context, q *wire.FilledRequest) error {
	q.Node = f.n.Identity.Node
	return f.lead(ctx, func(ctx context.Context, leader wireconnect.BlockServiceClient) error {
		_, err := leader.Filled(ctx, q)
		return err
	})
}

// fillSome fetches the blocks of segments, and returns those of which all is here.
func (f *filler) fillSome(ctx context.Context, t *ring.Table, some []filling) (done []uint16, failed error) {
	lacks := map[uint16]bool{}
	var mu sync.Mutex
	var fetching sync.WaitGroup
	slots := make(chan struct{}, mostFetches) // no more goroutines than fetch lets go on
	for _, one := range some {
		from := one.sources(t)
		for _, w := range one.blocks {
			sources := w.Nodes
			if len(sources) == 0 {
				sources = from
			}
			slots <- struct{}{}
			fetching.Go(func() {
				defer func() { <-slots }()
				err := f.fetch(ctx, w, sources)
				if err == nil {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if lacks[one.Segment] = true; one.From != "" {
					failed = errors.Join(failed, err)
				} else { // there may be no copy: the next look, or change of the ring, is soon enough
					f.n.told("fetch what no node has for certain", err)
				}
			})
		}
	}
	fetching.Wait()
	for _, one := range some {
		if !lacks[one.Segment] {
			done = append(done, one.Segment)
		}
	}
	return done, failed
}
