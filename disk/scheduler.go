package disk

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"headrace"
)

// Errors of Begin and Next, besides those of the context.
var (
	// ErrClosed: the reader was closed, before or while it waited.
	ErrClosed = errors.New("the reader is closed")
	// ErrBusy: the reader has a turn or waits for one already.
	ErrBusy = errors.New("the reader has a turn already, or waits for one")
)

// Scheduler lets one reader at a time read a device, and beside it one dump or
// restore move a checkpoint. Demand goes before warming, and inside a class the reader that has read least
// of late; of dumps and restores those of the user who has had the device for the least time, and of these restores first.
// The package's comment has the rules. A device whose holder hangs holds up nobody at other devices, and at its own for
// Patience, unless nobody there is answered. The zero value works and must not be copied once it is used.
// Methods of it, its readers and their turns may be called from any goroutine.
type Scheduler struct {
	// Log, if not nil, is told of devices that hang, and of dumps and restores that take far too long. It is set before anything is called.
	Log *slog.Logger

	patience time.Duration // Patience, but for tests

	mu      sync.Mutex
	devices map[ID]*station
	closed  uint64 // orders stations by their last closing of a reader
}

// station is one device with its readers.
type station struct {
	Device
	queue   queue
	flows   map[flowKey]*flow
	readers []*Reader // in the order of opening
	ended   [classes]Use
	idle    uint64
	// calm is when warming may begin, and timer, if not nil, looks then.
	calm  time.Time
	timer *time.Timer
	// silent is since when nobody who reads there is answered; zero: it answers. probe is when the next one may try.
	silent, probe time.Time
}

// flowKey names the readers of a user.
type flowKey struct {
	class Class
	user  uint32
}

// linger is how long warming stays away after a turn of demand, so that a reader
// that goes on finds the disk where it left it. It is long beside the time from
// one End to the next Begin, and short beside a turn of warming, for which that
// reader would have to wait.
const linger = 4 * time.Millisecond

// maxIdle is how many devices without readers are remembered. Anonymous ones
// come and go with what is mounted.
const maxIdle = 64

// Reader is one sequence of reads on one device, or one dump or restore.
type Reader struct {
	scheduler *Scheduler
	at        *station
	entry     entry
	user      uint32        // if the entry has a flow
	expect    time.Duration // of a dump or restore

	// Protected by the scheduler's lock.
	use    Use
	turn   *Turn
	wait   *wait
	closed bool
}

// wait is a call of Begin that has to wait. done is closed once turn or err is
// there.
type wait struct {
	since time.Time
	done  chan struct{}
	turn  *Turn
	err   error
}

// Turn is the right to read one extent, or to move one checkpoint.
type Turn struct {
	reader *Reader
	since  time.Time
	// moved is when something last came, and late looks when that is too long ago; passed: others do not wait for it any more.
	moved  time.Time
	late   *time.Timer
	passed bool
	// charged is how long a dump or restore had had its turn when others were let by.
	charged time.Duration
}

// Use is what one reader has done, or all the closed ones of a class on a device,
// which go by the name "ended".
type Use struct {
	Name  string
	Class Class
	// Readers is how many there are in it; 1 for an open one.
	Readers int64
	Bytes   int64
	// Turns are those that have ended.
	Turns int64
	// Waited is for turns that were granted, and for the one that is waited for.
	Waited time.Duration
	// Reading and Waiting say what it does now.
	Reading, Waiting bool
	// Hangs is for how long nothing has come of what it reads, once that is longer than
	// Patience, or how long a dump or restore has had its turn, once that is far longer than was expected; else 0.
	Hangs time.Duration
}

// Reader registers a reader, to be closed by the caller. The name is for people
// ("job 12: access.log").
func (s *Scheduler) Reader(d Device, c Class, name string) *Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.devices[d.ID]
	if at == nil {
		at = &station{}
		if s.devices == nil {
			s.devices = map[ID]*station{}
		}
		s.devices[d.ID] = at
	}
	at.Device = d
	at.queue.least = d.Extent() / 16
	c = min(c, classes-1)
	r := &Reader{scheduler: s, at: at, use: Use{Name: name, Class: c, Readers: 1}}
	r.entry = entry{class: c, reader: r}
	at.readers = append(at.readers, r)
	return r
}

// ReaderFor is Reader for a user: all of a user's readers of a device and class together
// get as much of it as one of somebody else.
func (s *Scheduler) ReaderFor(user uint32, d Device, c Class, name string) *Reader {
	r := s.Reader(d, c, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := flowKey{r.entry.class, user}
	f := r.at.flows[key]
	if f == nil {
		f = &flow{}
		if r.at.flows == nil {
			r.at.flows = map[flowKey]*flow{}
		}
		r.at.flows[key] = f
	}
	f.readers++
	r.entry.flow, r.user = f, user
	return r
}

// Move registers one dump or restore that is done for a user and is expected to take so long once it has
// its turn. It counts in Queue until it is closed. All of a user's together have the device for no longer than those
// of each other user who wants it.
func (s *Scheduler) Move(user uint32, d Device, c Class, name string, expect time.Duration) *Reader {
	r := s.Reader(d, c, name)
	s.mu.Lock()
	defer s.mu.Unlock()
	r.entry.user, r.expect = user, expect
	return r
}

// Queue returns how long a dump that is registered now will wait for the dumps and
// restores at a device that are registered already, if all take as long as is expected: for the users that
// are named, and for others.
func (s *Scheduler) Queue(id ID) (users []headrace.UserQueue, others time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.devices[id]
	if at == nil {
		return nil, 0
	}
	var doing Move
	var left time.Duration
	var all []Move
	for _, r := range at.readers {
		is := Move{r.entry.user, r.use.Class == Restore, r.expect}
		switch {
		case r.use.Class.side() != moves:
		case r.turn == nil:
			all = append(all, is)
		case !r.turn.passed:
			has := time.Since(r.turn.since)
			doing, left = is, max(0, r.expect-has)
			doing.Took = max(doing.Took, has)
		}
	}
	return at.queue.moves.Waits(nil, doing, left, all)
}

// Begin waits for a turn. The holder reads at most about Extent bytes and calls
// End or Next; it must not wait for another turn on the device meanwhile. A
// reader that goes on where its last turn ended, while nobody else waits, gets
// the next turn at once. When ctx ends before there is a turn, it is as if Begin
// had not been called, and the error is the context's.
func (r *Reader) Begin(ctx context.Context) (*Turn, error) {
	s := r.scheduler
	s.mu.Lock()
	w := r.ask(ctx)
	s.mu.Unlock()
	return r.await(ctx, w)
}

// Next does End and Begin in one step: the reader keeps its place among the others.
// With End it is behind one of those of its class who wait, even if it begins
// again at once. The turn has ended whatever Next returns.
func (t *Turn) Next(ctx context.Context, bytes int64) (*Turn, error) {
	r := t.reader
	s := r.scheduler
	s.mu.Lock()
	t.end(bytes)
	w := r.ask(ctx)
	s.dispatch(r.at)
	s.mu.Unlock()
	return r.await(ctx, w)
}

// End gives the turn back and says how much was read. Later calls do nothing.
func (t *Turn) End(bytes int64) {
	s := t.reader.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	t.end(bytes)
	s.dispatch(t.reader.at)
}

// Close takes the reader off the list. A Begin that waits returns ErrClosed. With
// a turn in hand, the reader is closed when that ends. Later calls do nothing.
func (r *Reader) Close() {
	r.scheduler.mu.Lock()
	defer r.scheduler.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	if w := r.wait; w != nil {
		r.leave()
		w.err = ErrClosed
		close(w.done)
	}
	if r.turn == nil {
		r.retire()
	}
}

// ask puts the reader into the queue. What it returns may be decided already.
func (r *Reader) ask(ctx context.Context) *wait {
	w := &wait{since: time.Now(), done: make(chan struct{})}
	switch {
	case ctx.Err() != nil:
		w.err = r.explain(ctx.Err())
	case r.closed:
		w.err = ErrClosed
	case r.turn != nil || r.wait != nil:
		w.err = ErrBusy
	default:
		r.wait = w
		if r.at.Memory && r.use.Class.side() == reads {
			r.granted()
			return w
		}
		r.at.queue.ask(&r.entry)
		r.scheduler.dispatch(r.at)
		return w
	}
	close(w.done)
	return w
}

// await waits for the outcome of ask.
func (r *Reader) await(ctx context.Context, w *wait) (*Turn, error) {
	select {
	case <-w.done:
		return w.turn, w.err
	case <-ctx.Done():
	}
	s := r.scheduler
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.wait == w {
		r.leave()
		return nil, r.explain(ctx.Err())
	}
	return w.turn, w.err // decided at the same moment
}

// leave takes back what was asked.
func (r *Reader) leave() {
	r.at.queue.cancel(&r.entry)
	r.wait = nil
}

// granted gives the reader, which waits, its turn.
func (r *Reader) granted() {
	w := r.wait
	r.wait = nil
	r.use.Waited += time.Since(w.since)
	now := time.Now()
	r.turn = &Turn{reader: r, since: now, moved: now}
	w.turn = r.turn
	close(w.done)
	if limit, t := r.limit(), r.turn; limit > 0 {
		t.late = time.AfterFunc(limit, func() { r.scheduler.watch(t) })
	}
}

// dispatch grants the turns that are free and that somebody waits for. If warming
// waits for nothing but that it has to stay away, it looks again later.
func (s *Scheduler) dispatch(at *station) {
	q := &at.queue
	away := time.Until(at.calm)
	q.held, q.shut = away > 0, at.shut()
	for next := q.grant(); next != nil; next = q.grant() {
		next.reader.granted()
	}
	if !q.free(Warming) || len(q.warming.waiting) == 0 {
		return
	}
	if at.timer != nil {
		at.timer.Reset(away)
		return
	}
	at.timer = time.AfterFunc(away, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.dispatch(at)
	})
}

// end takes the turn back, unless it has ended before.
func (t *Turn) end(bytes int64) {
	r := t.reader
	s := r.scheduler
	if r.turn != t {
		return
	}
	r.turn = nil
	bytes = max(bytes, 0)
	r.use.Bytes += bytes
	r.use.Turns++
	if t.late != nil {
		t.late.Stop()
	}
	if t.passed && s.Log != nil {
		s.Log.Info("what hung at a disk has ended", "disk", r.at.Name, "reader", r.use.Name, "after", time.Since(t.since))
	}
	if r.use.Class.side() == reads && (t.passed || bytes > 0) { // who has read nothing may not have asked it for anything
		s.heard(r.at)
	}
	switch q := &r.at.queue; {
	case r.use.Class.side() == moves:
		q.moved(&r.entry, time.Since(t.since)-t.charged)
	case t.passed || q.holder[reads] == &r.entry:
		q.end(&r.entry, bytes)
		if r.use.Class == Demand {
			r.at.calm = time.Now().Add(linger)
		}
	}
	if r.closed {
		r.retire()
	}
}

// retire adds a closed reader to the totals, and forgets the device that has been
// without readers for longest if there are too many.
func (r *Reader) retire() {
	at, s := r.at, r.scheduler
	at.readers = slices.DeleteFunc(at.readers, func(o *Reader) bool { return o == r })
	if f := r.entry.flow; f != nil {
		if f.readers--; f.readers == 0 {
			delete(at.flows, flowKey{r.entry.class, r.user})
		}
	}
	e := &at.ended[r.use.Class]
	e.Name, e.Class = "ended", r.use.Class
	e.Readers++
	e.Bytes += r.use.Bytes
	e.Turns += r.use.Turns
	e.Waited += r.use.Waited
	s.closed++
	at.idle = s.closed
	var oldest *station
	n := 0
	for _, o := range s.devices {
		if len(o.readers) == 0 {
			n++
			if oldest == nil || o.idle < oldest.idle {
				oldest = o
			}
		}
	}
	if n > maxIdle {
		delete(s.devices, oldest.ID)
	}
}

// Uses lists the readers of each device: the open ones in the order of their
// opening, then the totals of the closed ones.
func (s *Scheduler) Uses() map[ID][]Use {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := map[ID][]Use{}
	for id, at := range s.devices {
		for _, r := range at.readers {
			u := r.use
			u.Reading, u.Waiting = r.turn != nil, r.wait != nil
			if u.Reading {
				u.Hangs = r.hangs()
			}
			if u.Waiting {
				u.Waited += time.Since(r.wait.since)
			}
			all[id] = append(all[id], u)
		}
		for _, u := range at.ended {
			if u.Readers > 0 {
				all[id] = append(all[id], u)
			}
		}
	}
	return all
}

// Devices lists the devices of which Uses tells, by their number, as they were
// when a reader was registered last.
func (s *Scheduler) Devices() []Device {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Device
	for _, at := range s.devices {
		all = append(all, at.Device)
	}
	slices.SortFunc(all, func(a, b Device) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
