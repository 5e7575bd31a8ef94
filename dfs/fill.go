package dfs

import (
	"context"
	"errors"
	"fmt"
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

// A filler is what the Keeper of a node does about the segments that the ring wants there: it fetches what is not here.
type filler struct {
	*Keeper
	has map[uint16]bool // segments of which this node has all that is settled; guarded by mu
	// noRoom is of how many blocks of a segment there was no room when they were tried last. Who fills uses it; homeless is the sum.
	noRoom map[uint16]int64
	// finding is a look for what held returns, under way or ended but not asked for yet; guarded by mu.
	finding *finding
}

// finding is one look for the segments that are held.
type finding struct {
	done chan struct{}
	// Set before done is closed.
	held  []uint16
	err   error
	ended time.Time
}

// foundTime is how long it counts what was found that nobody has waited for.
const foundTime = 10 * time.Minute

// heldSoFar is held for others, who do not wait as long as it may take to look at millions of blocks: who asks again has the answer to what was begun
// before. It is as good as one that ends just now, as all of it was found bit by bit, while the ring did not count on this node.
func (f *filler) heldSoFar(ctx context.Context) ([]uint16, error) {
	f.mu.Lock()
	if f.finding != nil && f.finding.old() {
		f.finding = nil
	}
	if f.finding == nil {
		now := &finding{done: make(chan struct{})}
		f.finding = now
		f.n.running.Go(func() {
			now.held, now.err = f.held(f.n.ctx)
			now.ended = time.Now()
			close(now.done)
		})
	}
	found := f.finding
	f.mu.Unlock()
	select {
	case <-found.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.finding == found { // the next one who asks is to have a new one
		f.finding = nil
	}
	return found.held, found.err
}

// old reports whether it has ended too long ago.
func (o *finding) old() bool {
	select {
	case <-o.done:
		return time.Since(o.ended) > foundTime
	default:
		return false
	}
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

// errOvertaken is the error of fill when something else is to be done first.
var errOvertaken = errors.New("what is to be here has changed")

// leastFetched is how many blocks are asked for before anything is found more urgent: a node that comes and goes is not to have others look for what they lack
// all the time, and never fetch it.
const leastFetched = 64

// course says whether what is being fetched is still what is most urgent. It is asked by one goroutine.
type course struct {
	begun int // blocks
	f     *filler
	plan  *ring.Table // by which it was begun
	seen  *ring.Table // the last one that was compared with it
	moves []ring.Move
	due   func() bool
	ended bool
}

func (c *course) over() bool {
	if next := c.f.n.View().Table; next != c.seen {
		c.seen = next
		c.ended = c.ended || overtakes(next, c.plan, c.moves)
	}
	c.ended = c.ended || c.due()
	return c.ended
}

// overtakes reports whether moves of a plan may not be what is to be done first after a later one: nodes have come or gone, or have lost copies of what is
// moved. That others have confirmed some changes nothing.
func overtakes(next, plan *ring.Table, moves []ring.Move) bool {
	if !slices.Equal(next.Nodes(), plan.Nodes()) {
		return true
	}
	return slices.ContainsFunc(moves, func(m ring.Move) bool {
		return len(next.ReadFrom(m.Segment)) < min(len(plan.ReadFrom(m.Segment)), plan.Replicas())
	})
}

// fill fetches what a table says is to be here, and tells of it. It may take days, so it ends with errOvertaken when the ring or due wants something else
// looked at first, which is asked before each block, or hourly, after some segments at a time.
func (f *filler) fill(ctx context.Context, v *View, due, hourly func() bool) error {
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
	f.wanted(lacks)
	if err := f.fulfil(ctx, t, done); err != nil { // at once what takes no copying
		return err
	}
	failed, uncertain := &unfetched{}, &unfetched{}
	defer func() { f.n.told("fetch what no node has for certain", uncertain.error()) }()
	c := &course{f: f, plan: t, seen: t, moves: d.Fetch, due: due}
	for moves := range slices.Chunk(lacks, filledAtOnce) {
		done := f.fillSome(ctx, t, moves, c, failed, uncertain)
		if err := f.fulfil(ctx, t, done); err != nil {
			return err
		}
		if c.over() || hourly() {
			return errOvertaken
		}
	}
	return failed.error()
}

// wanted forgets that there was no room for blocks that are not to be fetched any more, or are here.
func (f *filler) wanted(lacks []filling) {
	most := map[uint16]int64{}
	for _, one := range lacks {
		most[one.Segment] = int64(len(one.blocks))
	}
	for segment, n := range f.noRoom {
		f.lackRoom(segment, min(n, most[segment]))
	}
}

// lackRoom notes for how many blocks of a segment there is no room.
func (f *filler) lackRoom(segment uint16, n int64) {
	f.homeless.Add(n - f.noRoom[segment])
	if f.noRoom[segment] = n; n == 0 {
		delete(f.noRoom, segment)
	}
}

// unfetched counts blocks that were not fetched. There may be very many, so one of them says why.
type unfetched struct {
	mu     sync.Mutex
	blocks int
	why    error
}

// add counts one. That there is no room says why only if nothing else does.
func (o *unfetched) add(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.blocks++
	if o.why == nil || errors.Is(o.why, block.ErrFull) && !errors.Is(err, block.ErrFull) {
		o.why = err
	}
}

func (o *unfetched) error() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.why == nil {
		return nil
	}
	return fmt.Errorf("%d blocks were not fetched, one of them for: %w", o.blocks, o.why)
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

// fillSome fetches the blocks of segments, as long as that is what is to be done, and returns those of which all is here. It adds what fails to failed, or to uncertain: of segments
// that no node has for certain, so that there may be no copy, and the next look, or change of the ring, is soon enough.
func (f *filler) fillSome(ctx context.Context, t *ring.Table, some []filling, c *course, failed, uncertain *unfetched) (done []uint16) {
	lacks, full, tried := map[uint16]bool{}, map[uint16]int64{}, map[uint16]int{}
	var mu sync.Mutex
	lack := func(segment uint16, noRoom bool) {
		mu.Lock()
		defer mu.Unlock()
		lacks[segment] = true
		if noRoom {
			full[segment]++
		}
	}
	var fetching sync.WaitGroup
	slots := make(chan struct{}, mostFetches) // no more goroutines than fetch lets go on
	for _, one := range some {
		from, fails := one.sources(t), failed
		if one.From == "" {
			fails = uncertain
		}
		for _, w := range one.blocks {
			sources := w.Nodes
			if len(sources) == 0 {
				sources = from
			}
			slots <- struct{}{}
			if c.begun++; c.begun > leastFetched && c.over() {
				<-slots
				lack(one.Segment, false)
				break
			}
			tried[one.Segment]++
			fetching.Go(func() {
				defer func() { <-slots }()
				if err := f.fetch(ctx, w, sources); err != nil {
					lack(one.Segment, errors.Is(err, block.ErrFull) && !errors.Is(err, block.ErrNoEnd))
					fails.add(err)
				}
			})
		}
	}
	fetching.Wait()
	for _, one := range some {
		rest := int64(len(one.blocks) - tried[one.Segment]) // of these it is as it was
		f.lackRoom(one.Segment, full[one.Segment]+min(f.noRoom[one.Segment], rest))
		if !lacks[one.Segment] {
			done = append(done, one.Segment)
		}
	}
	return done
}
