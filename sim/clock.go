package sim

import "time"

// kind is what an event is about.
type kind uint8

const (
	// evBegun: a task that was started has its first instruction.
	evBegun kind = iota
	// evEnd: a task has run as long as it has to.
	evEnd
	// evRead: a task has copied from memory what it reads now.
	evRead
	// evKilled, evStopped: a task that had to leave has done so.
	evKilled
	evStopped
	// evResumed: a suspended task's memory is back.
	evResumed
	// evMoved: a checkpoint has come over the network.
	evMoved
	// evPaged: a node has paged out what was first in its queue.
	evPaged
	// evStored: a node's store is done with what was first in its queue.
	evStored
	// evDisk, evNet: something that is read from a node's disk, or from the node over
	// the network, is there.
	evDisk
	evNet
	// evAnnounced: it is known what jobs will read.
	evAnnounced
)

// event is something that happens at a time. who is a task's slot, or a node. An
// event of an earlier generation of its task is void.
type event struct {
	at   time.Duration
	seq  uint64
	who  int32
	gen  uint32
	kind kind
}

func (e event) before(o event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (event) placed(int) {}

// events are in order of time, equal ones as they were added.
type events struct {
	heap heap[event]
	seq  uint64
}

func (q *events) add(e event) {
	q.seq++
	e.seq = q.seq
	q.heap.push(e)
}

// next returns when the earliest is due, or false.
func (q *events) next() (time.Duration, bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// take removes the earliest. There must be one.
func (q *events) take() event { return q.heap.remove(0) }

// clock is the virtual time, and what is to happen.
type clock struct {
	now time.Duration
	events
}

// in makes an event happen after some time.
func (c *clock) in(after time.Duration, e event) {
	e.at = c.now + after
	c.add(e)
}

// later makes an event of t happen after some time.
func (c *clock) later(t *task, after time.Duration, k kind) {
	c.in(after, event{who: t.slot, gen: t.gen, kind: k})
}
