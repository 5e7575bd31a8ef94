package disk

import (
	"iter"
	"slices"
	"time"
)

// leastHeld is what every turn of a dump or restore counts for at least: one that fails at once has
// had its processes stopped, and the device idle.
const leastHeld = 10 * time.Millisecond

// Moves says whose dump or restore is next at a device. It is pure, so that what is simulated goes by
// the same rules: among users those of whom has had the device for the least time of late; of one
// user, and where users have had as much, restores before dumps; else the order in which they
// were asked for. The zero value works; it must not be used by two goroutines at once.
type Moves[T comparable] struct {
	waiting []waitingMove[T] // in the order of their asking
	shares  []share
	// virtual is the virtual time, as in a queue, but of time that the device was held.
	virtual time.Duration
}

type waitingMove[T comparable] struct {
	user    uint32
	restore bool
	what    T
}

// share is of a user who has some that wait, or has had more of the device than others since somebody waits.
type share struct {
	user uint32
	// tag is where its next turn begins in virtual time, waiting how many wait.
	tag     time.Duration
	waiting int
}

// Ask has a dump or restore, done for a user, wait for its turn.
func (m *Moves[T]) Ask(user uint32, restore bool, what T) {
	s := m.share(user)
	if s.waiting == 0 {
		s.tag = max(s.tag, m.virtual)
	}
	s.waiting++
	m.waiting = append(m.waiting, waitingMove[T]{user, restore, what})
}

// Withdraw takes one that waits out again, as if it had not been asked for, and reports whether it waited.
func (m *Moves[T]) Withdraw(what T) bool {
	i := slices.IndexFunc(m.waiting, func(w waitingMove[T]) bool { return w.what == what })
	if i >= 0 {
		m.remove(i)
	}
	return i >= 0
}

// Next takes the one out whose turn begins now; false: none waits.
func (m *Moves[T]) Next() (what T, ok bool) {
	if len(m.waiting) == 0 {
		return what, false
	}
	best, least := 0, m.share(m.waiting[0].user).tag
	for i, w := range m.waiting[1:] {
		tag := m.share(w.user).tag
		if tag < least || tag == least && w.restore && !m.waiting[best].restore {
			best, least = i+1, tag
		}
	}
	what = m.waiting[best].what
	m.virtual = max(m.virtual, least)
	m.remove(best)
	return what, true
}

// Held charges a user for having held the device for d, when a turn ends, or others are let by. Where nobody waits
// any more all is forgotten: it was taken from nobody.
func (m *Moves[T]) Held(user uint32, d time.Duration) {
	if len(m.waiting) == 0 {
		m.shares = m.shares[:0]
		return
	}
	m.share(user).tag += max(d, leastHeld)
}

// Waiting lists those that wait, in the order of their asking, and whether each is a restore.
func (m *Moves[T]) Waiting() iter.Seq2[T, bool] {
	return func(yield func(T, bool) bool) {
		for _, w := range m.waiting {
			if !yield(w.what, w.restore) {
				return
			}
		}
	}
}

// Len returns how many wait.
func (m *Moves[T]) Len() int { return len(m.waiting) }

func (m *Moves[T]) remove(i int) {
	m.share(m.waiting[i].user).waiting--
	m.waiting = slices.Delete(m.waiting, i, i+1)
}

// share returns that of a user.
func (m *Moves[T]) share(user uint32) *share {
	for i := range m.shares {
		if m.shares[i].user == user {
			return &m.shares[i]
		}
	}
	m.shares = append(m.shares, share{user: user, tag: m.virtual})
	return &m.shares[len(m.shares)-1]
}
