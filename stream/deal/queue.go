package deal

import (
	"cmp"
	"iter"
	"slices"

	"headrace/stream/protocol"
)

const (
	// window is how many of the next whole files are looked at for one that is in
	// memory.
	window = 2048
	// joinWindow is how many pending files are looked at for one that is being read
	// for another stream.
	joinWindow = 64
)

// queue is the order in which units are brought.
type queue struct {
	plan *Plan
	// left counts the units of each file with blocks that are to be brought.
	left []uint32
	// pending files have blocks to be brought and are not being read, in the order in
	// which they will be; devices counts on how many they are at all.
	pending []int
	reading map[int]bool
	devices int

	batches, wholes unitQueue
}

// unitQueue is units of one kind, of which some are todo.
type unitQueue struct {
	units []uint32
	files []int // that they begin with
	// todo counts them; none is before next.
	todo int
	next int
}

func (q *queue) init(p *Plan, residentFirst bool) {
	q.plan, q.left, q.reading = p, make([]uint32, len(p.Files)), map[int]bool{}
	devices := map[uint64]bool{}
	for i := range p.Files {
		f := &p.Files[i]
		switch {
		case f.Units == 0:
		case f.Block > 0:
			q.left[i] = f.Units
			q.pending = append(q.pending, i)
			devices[f.Dev] = true
		case p.whole(f):
			q.wholes.add(f.First, i)
		case len(q.batches.units) == 0 || q.batches.units[len(q.batches.units)-1] != f.First:
			q.batches.add(f.First, i)
		}
	}
	q.devices = len(devices)
	if !residentFirst {
		return
	}
	// What is mostly in memory first, then the others, each in their order.
	cold := func(i int) int {
		if f := &p.Files[i]; f.Resident*2 > f.Size {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(q.pending, func(a, b int) int { return cmp.Compare(cold(a), cold(b)) })
}

func (u *unitQueue) add(id uint32, file int) {
	u.units = append(u.units, id)
	u.files = append(u.files, file)
	u.todo++
}

// place is the position of a unit in the queue, false for one of another kind.
func (u *unitQueue) place(id uint32) (int, bool) { return slices.BinarySearch(u.units, id) }

// of is the queue that a unit is in, nil if it is a block, and its place there.
func (q *queue) of(id uint32) (*unitQueue, int) {
	for _, u := range []*unitQueue{&q.batches, &q.wholes} {
		if i, ok := u.place(id); ok {
			return u, i
		}
	}
	return nil, 0
}

// returned takes note that a unit is to be brought again.
func (q *queue) returned(id uint32) {
	if u, i := q.of(id); u != nil {
		u.todo++
		u.next = min(u.next, i)
		return
	}
	f := q.plan.FileOf(id)
	if q.left[f]++; q.left[f] == 1 {
		q.putBack(f)
	}
}

// putBack makes a file the next one, unless it is being read or has its place.
func (q *queue) putBack(f int) {
	if !q.reading[f] && q.left[f] > 0 && !slices.Contains(q.pending, f) {
		q.pending = slices.Insert(q.pending, 0, f)
	}
}

// taken takes note that a unit need not be brought any more.
func (q *queue) taken(id uint32) {
	if u, _ := q.of(id); u != nil {
		u.todo--
		return
	}
	q.left[q.plan.FileOf(id)]--
}

// LeftOf is how many units of a file with blocks are to be brought.
func (d *Dealer) LeftOf(file int) uint32 { return d.queue.left[file] }

// NextFile is the file that is to be read next: on a device of which none is being
// read, the first one that is read anyway, for others, else the first. From then on
// it is being read, until Leave.
func (d *Dealer) NextFile(readAnyway func(file int) bool) (file int, ok bool) {
	q := &d.queue
	busy := map[uint64]bool{}
	for f := range q.reading {
		busy[q.plan.Files[f].Dev] = true
	}
	if len(busy) >= q.devices {
		return 0, false
	}
	i := q.choose(busy, readAnyway)
	if i < 0 {
		return 0, false
	}
	file = q.pending[i]
	q.pending = slices.Delete(q.pending, i, i+1)
	d.ReadFile(file)
	return file, true
}

// choose is the place in pending of the next file; -1 for none.
func (q *queue) choose(busy map[uint64]bool, readAnyway func(file int) bool) int {
	q.pending = slices.DeleteFunc(q.pending, func(f int) bool { return q.left[f] == 0 })
	free := func(f int) bool { return !busy[q.plan.Files[f].Dev] }
	near := q.pending[:min(len(q.pending), joinWindow)]
	if i := slices.IndexFunc(near, func(f int) bool { return free(f) && readAnyway(f) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(q.pending, free)
}

// ReadFile takes note that a file is being read.
func (d *Dealer) ReadFile(file int) { d.queue.reading[file] = true }

// LeaveFile takes note that a file is not being read any more.
func (d *Dealer) LeaveFile(file int) {
	delete(d.queue.reading, file)
	d.queue.putBack(file)
}

// AllBatches is how many batches there are. It may be called by any goroutine.
func (d *Dealer) AllBatches() int { return len(d.queue.batches.units) }

// Batches is how many batches are to be brought.
func (d *Dealer) Batches() int { return d.queue.batches.todo }

// NextBatches are up to n batches that are to be brought, those first that a consumer
// waits for.
func (d *Dealer) NextBatches(n int) (ids []uint32) {
	q := &d.queue.batches
	for id := range d.fetches {
		if _, ok := q.place(id); ok && len(ids) < n {
			ids = append(ids, id)
		}
	}
	for i := q.next; i < len(q.units) && len(ids) < n && q.todo > 0; i++ {
		if d.Todo(q.units[i]) {
			ids = append(ids, q.units[i])
		} else if i == q.next {
			q.next++
		}
	}
	return ids
}

// NextWholes are the next files that are dealt whole, with their units. Which of them
// comes first depends on what is in memory.
func (d *Dealer) NextWholes() iter.Seq2[uint32, int] {
	return func(yield func(unit uint32, file int) bool) {
		w := &d.queue.wholes
		seen := 0
		for i := w.next; i < len(w.units) && seen < window; i++ {
			if id := w.units[i]; !d.Todo(id) {
				if i == w.next {
					w.next++
				}
			} else if seen++; !yield(id, w.files[i]) {
				return
			}
		}
	}
}

// Wholes is how many files that are dealt whole are to be dealt.
func (d *Dealer) Wholes() int { return d.queue.wholes.todo }

// pickWhole picks the next file that is dealt as one unit: of the next ones the
// one of which most is in memory (quartet, section 4.2), else the first. Of several
// of which as much is, the last: where an earlier reader left its last files, memory
// is short, and the kernel takes the first of them next. To read those in their
// order would be to come too late to each.
func (d *Dealer) pickWhole() (id uint32, ok bool) {
	if d.queue.wholes.todo == 0 {
		return 0, false
	}
	best := float64(-1)
	for u, file := range d.NextWholes() {
		if d.resident == nil {
			return u, true
		}
		if now := d.residentShare(u, file); now > best || now == best && now > 0 {
			id, best = u, now
		}
	}
	return id, true
}

// residentShare is the part of a whole file that is in memory, as far as is known.
func (d *Dealer) residentShare(id uint32, file int) float64 {
	size := d.plan.Files[file].Size
	if size == 0 {
		return 1
	}
	return float64(d.resident(id, file)) / float64(size)
}

// whole tells whether a file is dealt as one unit by itself.
func (p *Plan) whole(f *File) bool { return f.Codec != protocol.Plain || p.Rule.Split == Files }
