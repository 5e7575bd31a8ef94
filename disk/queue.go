package disk

import (
	"cmp"
	"slices"
	"time"
)

// Class is what a turn is for. Of those who read, lower ones go first; of those who move a checkpoint, of one user.
type Class uint8

const (
	// Demand: somebody waits for the data.
	Demand Class = iota
	// Restore: a task goes on when its checkpoint has been read.
	Restore
	// Dump: a task leaves when its checkpoint has been written.
	Dump
	// Warming: somebody will want it later. It gets a turn when no demand waits, and
	// no checkpoint is being written or read.
	Warming

	classes = 4
)

// String returns the name for people.
func (c Class) String() string { return [classes]string{"demand", "restore", "dump", "warming"}[c] }

// side is a turn that a device has to give: to one who reads files, and beside that
// one to one who moves a checkpoint.
type side uint8

const (
	reads side = iota
	moves

	sides = 2
)

func (c Class) side() side {
	if c == Restore || c == Dump {
		return moves
	}
	return reads
}

// entry is a reader's place in a queue. It has a turn or waits for one, or
// neither.
type entry struct {
	class Class
	// start and finish are of the turn that it has or waits for, and of the last
	// one that it had, in virtual time.
	start, finish int64
	// asked orders those that wait.
	asked  uint64
	reader *Reader
	// user is for whom a dump or restore is done.
	user uint32
	// flow, if not nil, is what it is part of; then its tags say only whose turn it
	// is there. granted is the tag of the flow when it got its turn.
	flow    *flow
	granted int64
}

// flow is all readers of a user in one class: among the others it counts as one.
type flow struct {
	readers int
	waiting int
	// start, finish and asked are as those of an entry, of its turns that are next and
	// last; virtual is the virtual time among its readers.
	start, finish, virtual int64
	asked                  uint64
}

// tag is by which those who wait are ordered.
func (e *entry) tag() int64 {
	if e.flow != nil {
		return e.flow.start
	}
	return e.start
}

// line is the readers of one class that wait, and the virtual time of the class. That never goes back, and those who
// wait do not change it.
type line struct {
	waiting []*entry
	virtual int64
}

// queue decides who has the turns at one device. The rules are in the comment of
// the package. It is not safe for concurrent use. Of its fields moves has the dumps and restores that wait.
type queue struct {
	// least is the number of bytes that every turn counts for.
	least int64
	// held: no turn of warming begins; shut: none of reading.
	held, shut bool
	holder     [sides]*entry
	moves      Moves[*entry]

	demand, warming line
	asked           uint64
}

// line returns that of readers of class c.
func (q *queue) line(c Class) *line {
	if c == Warming {
		return &q.warming
	}
	return &q.demand
}

// ask lets e, which neither waits nor has the turn, wait for it.
func (q *queue) ask(e *entry) {
	if e.class.side() == moves {
		q.moves.Ask(e.user, e.class == Restore, e)
		return
	}
	q.asked++
	e.asked = q.asked
	l := q.line(e.class)
	virtual := l.virtual
	if f := e.flow; f != nil {
		if f.waiting == 0 {
			f.start, f.asked = max(f.finish, virtual), e.asked
		}
		f.waiting++
		virtual = f.virtual
	}
	e.start = max(e.finish, virtual)
	l.waiting = append(l.waiting, e)
}

// cancel takes e from those who wait, as if it had never asked.
func (q *queue) cancel(e *entry) {
	if e.class.side() == moves {
		q.moves.Withdraw(e)
		return
	}
	l := q.line(e.class)
	if i := slices.Index(l.waiting, e); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		if e.flow != nil {
			e.flow.waiting--
		}
	}
}

// grant gives a turn that is free to the next one who waits for it, if any.
func (q *queue) grant() *entry {
	if q.holder[moves] == nil {
		if e, ok := q.moves.Next(); ok {
			q.holder[moves] = e
			return e
		}
	}
	for _, c := range [...]Class{Demand, Warming} {
		l := q.line(c)
		if len(l.waiting) == 0 || !q.free(c) || c == Warming && q.held {
			continue
		}
		e := slices.MinFunc(l.waiting, earlier)
		q.cancel(e)
		e.granted = e.tag()
		q.holder[reads], l.virtual = e, e.granted
		if e.flow != nil {
			e.flow.virtual = e.start
		}
		return e
	}
	return nil
}

// free reports whether nobody has what keeps readers of class c from a turn.
func (q *queue) free(c Class) bool {
	return q.holder[reads] == nil && !q.shut && (c != Warming || q.holder[moves] == nil)
}

// earlier orders those who wait: by flow, and in a flow by reader.
func earlier(a, b *entry) int {
	return cmp.Or(
		cmp.Compare(a.tag(), b.tag()), cmp.Compare(a.order(), b.order()),
		cmp.Compare(a.start, b.start), cmp.Compare(a.asked, b.asked),
	)
}

// order is which of those with the same tag waits for longest.
func (e *entry) order() uint64 {
	if e.flow != nil {
		return e.flow.asked
	}
	return e.asked
}

// pass takes the turn from e, which has it, and has others go on; end follows all the same.
func (q *queue) pass(e *entry) {
	if side := e.class.side(); q.holder[side] == e {
		q.holder[side] = nil
	}
}

// moved takes the turn back from a dump or restore, which has it, or had until pass, and charges its user for some of the
// time that it has held it.
func (q *queue) moved(e *entry, held time.Duration) {
	q.pass(e)
	q.moves.Held(e.user, held)
}

// end takes the turn back from a reader, which has it, or had until pass, and has read that many bytes.
func (q *queue) end(e *entry, bytes int64) {
	q.pass(e)
	bytes = max(bytes, q.least)
	e.finish = e.start + bytes
	if f := e.flow; f != nil {
		f.finish = e.granted + bytes
		if f.waiting > 0 {
			q.asked++
			f.start, f.asked = max(f.start, f.finish), q.asked
		}
	}
}
