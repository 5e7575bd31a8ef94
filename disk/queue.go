package disk

import "slices"

// Class is how urgent a reader is.
type Class uint8

const (
	// Demand: somebody waits for the data.
	Demand Class = iota
	// Warming: somebody will want it later. It gets a turn when no demand waits.
	Warming

	classes = 2
)

// String is for people.
func (c Class) String() string {
	if c == Warming {
		return "warming"
	}
	return "demand"
}

// entry is a reader's place in a queue. It has one turn or waits for one, or
// neither.
type entry struct {
	class Class
	// start and finish are of the turn that it has or waits for, and of the last
	// one that it had, in virtual time.
	start, finish int64
	// asked orders those that wait.
	asked  uint64
	reader *Reader
}

// queue decides who has the turn at one device. The rules are in the comment of
// the package. It is not safe for concurrent use.
type queue struct {
	// least is the number of bytes that every turn counts for.
	least int64
	// held: no turn of warming begins.
	held    bool
	holder  *entry
	waiting [classes][]*entry
	// virtual is the virtual time of each class. It never goes back, and those who
	// wait do not change it.
	virtual [classes]int64
	asked   uint64
}

// ask lets e, which neither waits nor has the turn, wait for it.
func (q *queue) ask(e *entry) {
	q.asked++
	e.asked = q.asked
	e.start = max(e.finish, q.virtual[e.class])
	q.waiting[e.class] = append(q.waiting[e.class], e)
}

// cancel takes e from those who wait, as if it had never asked.
func (q *queue) cancel(e *entry) {
	w := q.waiting[e.class]
	if i := slices.Index(w, e); i >= 0 {
		q.waiting[e.class] = slices.Delete(w, i, i+1)
	}
}

// grant gives the turn, if it is free, to the next one who waits, if any.
func (q *queue) grant() *entry {
	if q.holder != nil {
		return nil
	}
	for c, w := range q.waiting {
		if len(w) == 0 || Class(c) == Warming && q.held {
			continue
		}
		e := slices.MinFunc(w, earlier)
		q.cancel(e)
		q.holder, q.virtual[c] = e, e.start
		return e
	}
	return nil
}

func earlier(a, b *entry) int {
	if a.start != b.start {
		return sign(a.start < b.start)
	}
	return sign(a.asked < b.asked)
}

func sign(less bool) int {
	if less {
		return -1
	}
	return 1
}

// end takes the turn back from its holder, who has read that many bytes.
func (q *queue) end(bytes int64) {
	e := q.holder
	q.holder = nil
	e.finish = e.start + max(bytes, q.least)
}
