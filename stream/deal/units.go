package deal

import (
	"cmp"
	"iter"
	"maps"
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

// unitState is where a unit is.
type unitState uint8

const (
	// todo units have to be brought and dealt.
	todo unitState = iota
	// ready units are in memory and belong to nobody yet.
	ready
	// leased units were given to an attempt that is not over.
	leased
	// done units were given to attempts that have ended with code 0.
	done
	// empty units turned out to have no records.
	empty
	// mine is leased, while an attempt's list is compared with another one.
	mine
	unitStates
)

// Units says where each unit is, and which are to be brought next.
type Units struct {
	plan     *Plan
	resident func(unit uint32, file int) int64

	state []unitState
	count [unitStates]int
	// fetches are units that one consumer waits for: it has them on its list already.
	fetches map[uint32]fetch

	// left counts the units of each file with blocks that are to be brought.
	left []uint32
	// pending files have blocks to be brought and are not being read, in the order in
	// which they will be; devices counts on how many they are at all.
	pending []int
	reading map[int]bool
	devices int

	batches, wholes unitQueue
	// near is the file of the unit that was last somewhere else: a long list is mostly in order.
	near int
}

// unitQueue is units of one kind, of which some are todo.
type unitQueue struct {
	units []uint32
	files []int // that they begin with
	// todo counts them; none is before next.
	todo int
	next int
}

func newUnits(p *Plan, resident func(unit uint32, file int) int64) *Units {
	u := &Units{
		plan: p, resident: resident, state: make([]unitState, p.Units), fetches: map[uint32]fetch{},
		left: make([]uint32, len(p.Files)), reading: map[int]bool{},
	}
	u.count[todo] = int(p.Units)
	devices := map[uint64]bool{}
	for i := range p.Files {
		f := &p.Files[i]
		switch {
		case f.Units == 0:
		case f.Block > 0:
			u.left[i] = f.Units
			u.pending = append(u.pending, i)
			devices[f.Dev] = true
		case p.whole(f):
			u.wholes.add(f.First, i)
		case len(u.batches.units) == 0 || u.batches.units[len(u.batches.units)-1] != f.First:
			u.batches.add(f.First, i)
		}
	}
	u.devices = len(devices)
	if resident != nil {
		// What is mostly in memory first, then the others, each in their order.
		slices.SortStableFunc(u.pending, func(a, b int) int { return cmp.Compare(p.Files[a].cold(), p.Files[b].cold()) })
	}
	return u
}

// cold is 0 for a file that is mostly in memory, else 1.
func (f *File) cold() int {
	if f.Resident*2 > f.Size {
		return 0
	}
	return 1
}

func (u *unitQueue) add(id uint32, file int) {
	u.units = append(u.units, id)
	u.files = append(u.files, file)
	u.todo++
}

// place returns the position of a unit in the queue, false for one of another kind.
func (u *unitQueue) place(id uint32) (int, bool) { return slices.BinarySearch(u.units, id) }

// of returns the queue that a unit is in and its place there, for a block nil and its file.
func (u *Units) of(id uint32) (*unitQueue, int) {
	u.near = u.plan.fileNear(u.near, id)
	if u.plan.Files[u.near].Block > 0 {
		return nil, u.near
	}
	for _, k := range []*unitQueue{&u.batches, &u.wholes} {
		if i, ok := k.place(id); ok {
			return k, i
		}
	}
	return nil, u.near
}

// set takes note that a unit is somewhere else.
func (u *Units) set(id uint32, to unitState) {
	from := u.state[id]
	u.count[from]--
	u.count[to]++
	u.state[id] = to
	if to == todo {
		u.returned(id)
	} else if from == todo {
		u.taken(id)
	}
}

// Undealt returns the number of units that nobody has been given.
func (u *Units) Undealt() int { return u.count[todo] + u.count[ready] }

// Committed returns the number of units of consumers that are through.
func (u *Units) Committed() int { return u.count[done] }

// Todo tells whether a unit has to be brought for whoever comes.
func (u *Units) Todo(id uint32) bool { return u.state[id] == todo }

// Fetched tells whether a consumer waits for this very unit.
func (u *Units) Fetched(id uint32) bool { return u.fetches[id].c != nil }

// Fetches returns all units that consumers wait for.
func (u *Units) Fetches() iter.Seq[uint32] { return maps.Keys(u.fetches) }

// returned takes note that a unit is to be brought again.
func (u *Units) returned(id uint32) {
	k, i := u.of(id)
	if k != nil {
		k.todo++
		k.next = min(k.next, i)
	} else if u.left[i]++; u.left[i] == 1 {
		u.putBack(i)
	}
}

// putBack makes a file the next one, unless it is being read or has its place.
func (u *Units) putBack(f int) {
	if !u.reading[f] && u.left[f] > 0 && !slices.Contains(u.pending, f) {
		u.pending = slices.Insert(u.pending, 0, f)
	}
}

// taken takes note that a unit need not be brought any more.
func (u *Units) taken(id uint32) {
	if k, i := u.of(id); k != nil {
		k.todo--
	} else {
		u.left[i]--
	}
}

// Remaining returns how many units of a file with blocks are to be brought.
func (u *Units) Remaining(file int) uint32 { return u.left[file] }

// NextFile returns the file that is to be read next: on a device of which none is being
// read, the first one that is read anyway, for others, else the first. From then on
// it is being read, until LeaveFile.
func (u *Units) NextFile(readAnyway func(file int) bool) (file int, ok bool) {
	busy := map[uint64]bool{}
	for f := range u.reading {
		busy[u.plan.Files[f].Dev] = true
	}
	if len(busy) >= u.devices {
		return 0, false
	}
	i := u.choose(busy, readAnyway)
	if i < 0 {
		return 0, false
	}
	file = u.pending[i]
	u.pending = slices.Delete(u.pending, i, i+1)
	u.ReadFile(file)
	return file, true
}

// choose returns the place in pending of the next file; -1 for none.
func (u *Units) choose(busy map[uint64]bool, readAnyway func(file int) bool) int {
	u.pending = slices.DeleteFunc(u.pending, func(f int) bool { return u.left[f] == 0 })
	free := func(f int) bool { return !busy[u.plan.Files[f].Dev] }
	near := u.pending[:min(len(u.pending), joinWindow)]
	if i := slices.IndexFunc(near, func(f int) bool { return free(f) && readAnyway(f) }); i >= 0 {
		return i
	}
	return slices.IndexFunc(u.pending, free)
}

// ReadFile takes note that a file is being read.
func (u *Units) ReadFile(file int) { u.reading[file] = true }

// LeaveFile takes note that a file is not being read any more.
func (u *Units) LeaveFile(file int) {
	delete(u.reading, file)
	u.putBack(file)
}

// AllBatches returns how many batches there are. It may be called by any goroutine.
func (u *Units) AllBatches() int { return len(u.batches.units) }

// Batches returns how many batches are to be brought.
func (u *Units) Batches() int { return u.batches.todo }

// NextBatches returns up to n batches that are to be brought, those first that a consumer
// waits for.
func (u *Units) NextBatches(n int) (ids []uint32) {
	q := &u.batches
	for id := range u.fetches {
		if _, ok := q.place(id); ok && len(ids) < n {
			ids = append(ids, id)
		}
	}
	for i := q.next; i < len(q.units) && len(ids) < n && q.todo > 0; i++ {
		if u.Todo(q.units[i]) {
			ids = append(ids, q.units[i])
		} else if i == q.next {
			q.next++
		}
	}
	return ids
}

// NextWholes returns the next files that are dealt whole, with their units. Which of
// them comes first depends on what is in memory.
func (u *Units) NextWholes() iter.Seq2[uint32, int] {
	return func(yield func(unit uint32, file int) bool) {
		w := &u.wholes
		seen := 0
		for i := w.next; i < len(w.units) && seen < window; i++ {
			if id := w.units[i]; !u.Todo(id) {
				if i == w.next {
					w.next++
				}
			} else if seen++; !yield(id, w.files[i]) {
				return
			}
		}
	}
}

// Wholes returns how many files that are dealt whole are to be dealt.
func (u *Units) Wholes() int { return u.wholes.todo }

// pickWhole picks the next file that is dealt as one unit: of the next ones the
// one of which most is in memory (quartet, section 4.2), else the first. Of several
// of which as much is, the last: where an earlier reader left its last files, memory
// is short, and the kernel takes the first of them next. To read those in their
// order would be to come too late to each.
func (u *Units) pickWhole() (id uint32, ok bool) {
	if u.wholes.todo == 0 {
		return 0, false
	}
	best := float64(-1)
	for next, file := range u.NextWholes() {
		if u.resident == nil {
			return next, true
		}
		if now := u.residentShare(next, file); now > best || now == best && now > 0 {
			id, best = next, now
		}
	}
	return id, true
}

// residentShare returns the part of a whole file that is in memory, as far as is known.
func (u *Units) residentShare(id uint32, file int) float64 {
	size := u.plan.Files[file].Size
	if size == 0 {
		return 1
	}
	return float64(u.resident(id, file)) / float64(size)
}

// whole tells whether a file is dealt as one unit by itself.
func (p *Plan) whole(f *File) bool { return f.Codec != protocol.Plain || p.Rule.Split == Files }
