package stream

import (
	"slices"

	"headrace/stream/protocol"
)

// source brings a stream's units into memory: it attaches the stream to scans of
// files with blocks, has batches of small files read, and picks whole files. The
// engine's lock guards it.
type source struct {
	s *stream
	// left counts the units of each file that are to be brought.
	left []uint32
	// pending files have blocks to be brought and are not attached, in the order
	// in which they will be; devices counts on how many they are at all.
	pending  []int
	attached map[int]*attachment
	devices  int

	batches unitQueue
	batcher *batcher

	wholes unitQueue
	follow *followed
}

// unitQueue is units of one kind, of which some are todo.
type unitQueue struct {
	units []uint32
	// todo counts them; none is before next.
	todo int
	next int
}

// joinWindow is how many pending files are looked at for one that is being read
// for another stream.
const joinWindow = 64

func (q *source) init(s *stream) {
	q.s, q.attached = s, map[int]*attachment{}
	q.left = make([]uint32, len(s.plan.files))
	devices := map[uint64]bool{}
	for i := range s.plan.files {
		f := &s.plan.files[i]
		switch {
		case f.units == 0:
		case f.block > 0:
			q.left[i] = f.units
			q.pending = append(q.pending, i)
			devices[f.Dev] = true
		case f.codec != protocol.Plain || s.spec.Rule.Split == Files:
			q.left[i] = 1
			q.wholes.add(f.first)
		case len(q.batches.units) == 0 || q.batches.units[len(q.batches.units)-1] != f.first:
			q.batches.add(f.first)
		}
	}
	q.devices = len(devices)
	if s.e.cfg.NoResidentFirst {
		return
	}
	// What is mostly in memory first, then the others, each in their order.
	warm := func(i int) bool { f := &s.plan.files[i]; return f.resident*2 > f.Size }
	slices.SortStableFunc(q.pending, func(a, b int) int {
		switch wa, wb := warm(a), warm(b); {
		case wa == wb:
			return 0
		case wa:
			return -1
		}
		return 1
	})
}

func (q *unitQueue) add(id uint32) {
	q.units = append(q.units, id)
	q.todo++
}

// place is the position of a unit in the queue, false for one of another kind.
func (q *unitQueue) place(id uint32) (int, bool) { return slices.BinarySearch(q.units, id) }

func (q *unitQueue) returned(i int) {
	q.todo++
	q.next = min(q.next, i)
}

// returned takes note that a unit is to be brought again.
func (q *source) returned(id uint32) {
	if i, ok := q.batches.place(id); ok {
		q.batches.returned(i)
		return
	}
	if i, ok := q.wholes.place(id); ok {
		q.wholes.returned(i)
		return
	}
	f := q.s.plan.fileOf(id)
	q.left[f]++
	if a := q.attached[f]; a != nil {
		a.sc.cond.Broadcast()
	} else if q.left[f] == 1 && !slices.Contains(q.pending, f) {
		q.pending = slices.Insert(q.pending, 0, f)
	}
}

// taken takes note that a unit need not be brought any more.
func (q *source) taken(id uint32) {
	if _, ok := q.batches.place(id); ok {
		q.batches.todo--
		return
	}
	if _, ok := q.wholes.place(id); ok {
		q.wholes.todo--
		return
	}
	q.left[q.s.plan.fileOf(id)]--
}

// advance sees to it that something is being read, as long as somebody is there
// to take it: one file of each device, and batches.
func (q *source) advance() {
	if q.s.err != nil || q.s.e.closed || q.s.attachedCount() == 0 {
		return
	}
	q.detachDone()
	busy := map[uint64]bool{}
	for f := range q.attached {
		busy[q.s.plan.files[f].Dev] = true
	}
	for len(busy) < q.devices {
		i := q.choose(busy)
		if i < 0 {
			break
		}
		f := q.pending[i]
		q.pending = slices.Delete(q.pending, i, i+1)
		busy[q.s.plan.files[f].Dev] = true
		q.attach(f)
	}
	if q.batches.todo > 0 && q.batcher == nil {
		q.startBatcher()
	}
}

// choose is the place in pending of the next file on a device that is not busy:
// the first one that is being scanned anyway, else the first; -1 for none.
func (q *source) choose(busy map[uint64]bool) int {
	q.pending = slices.DeleteFunc(q.pending, func(f int) bool { return q.left[f] == 0 })
	first := -1
	for i, f := range q.pending[:min(len(q.pending), joinWindow)] {
		file := &q.s.plan.files[f]
		if busy[file.Dev] {
			continue
		}
		if q.s.e.scans[keyOf(file)] != nil {
			return i
		}
		if first < 0 {
			first = i
		}
	}
	if first >= 0 || len(q.pending) <= joinWindow {
		return first
	}
	return slices.IndexFunc(q.pending, func(f int) bool { return !busy[q.s.plan.files[f].Dev] })
}

// attach attaches the stream to the scan of a file.
func (q *source) attach(f int) *attachment {
	if a := q.attached[f]; a != nil {
		return a
	}
	e, file := q.s.e, &q.s.plan.files[f]
	sc := e.scans[keyOf(file)]
	a := &attachment{s: q.s, file: f, first: file.first, sc: sc}
	if sc == nil {
		sc = newScan(q.s, file)
		a.sc = sc
		e.scans[sc.key] = sc
		sc.attached = append(sc.attached, a)
		e.work.Go(sc.run)
	} else {
		sc.attached = append(sc.attached, a)
		sc.mix(q.s.spec.Owner.UID)
		e.work.Go(sc.survey)
		sc.cond.Broadcast()
	}
	q.attached[f] = a
	return a
}

// detachDone ends the attachments that nothing is wanted from.
func (q *source) detachDone() {
	for f, a := range q.attached {
		if q.left[f] == 0 && !a.fetching() {
			q.detach(f)
		}
	}
}

func (q *source) detach(f int) {
	a := q.attached[f]
	delete(q.attached, f)
	a.detached = true
	a.sc.attached = slices.DeleteFunc(a.sc.attached, func(b *attachment) bool { return a == b })
	a.sc.cond.Broadcast()
	if q.left[f] > 0 && !slices.Contains(q.pending, f) {
		q.pending = slices.Insert(q.pending, 0, f)
	}
}

// stop ends all reading.
func (q *source) stop() {
	for f := range q.attached {
		q.detach(f)
	}
	if q.batcher != nil {
		q.batcher.stop()
		q.batcher = nil
	}
	q.unfollow()
}

// bring has one unit brought that a consumer has on its list, from a position
// on.
func (q *source) bring(id uint32, c *consumer, position int64) {
	f := q.s.plan.fileOf(id)
	file := &q.s.plan.files[f]
	switch {
	case q.s.spec.Rule.Split == Files:
		c.hand(&unit{id: id, file: f, ended: true}, 0)
	case file.codec != protocol.Plain:
		q.bringWhole(id, f, c, position)
	default:
		q.s.fetches[id] = &fetch{c: c, position: position}
		if file.block > 0 {
			q.attach(f).sc.cond.Broadcast()
		} else if q.batcher == nil {
			q.startBatcher()
		} else {
			q.batcher.cond.Broadcast()
		}
	}
}
