package disk

import (
	"iter"
	"slices"
	"time"

	"headrace"
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
	lines   []userLine // a buffer
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

// Move is a dump or restore as others see it.
type Move struct {
	User    uint32
	Restore bool
	// Took is how long it is expected to hold the device.
	Took time.Duration
}

// Waits returns how long a dump that is asked for now waits, while doing has the device, for as long as left still, and
// all the others wait, in the order of their asking: for each user of whom it waits longer or shorter than for
// others, appended to users, and for all the others. It assumes that nothing else is asked for.
//
// A user's moves begin, in virtual time, when those before them end, and go in that order: so a new one waits for those
// of its user, and for those of others that begin no later.
func (m *Moves[T]) Waits(users []headrace.UserQueue, doing Move, left time.Duration, all []Move) ([]headrace.UserQueue, time.Duration) {
	if len(all) == 0 {
		return users, left
	}
	m.lines = m.lines[:0]
	for _, s := range m.shares {
		m.lines = append(m.lines, userLine{user: s.user, begin: max(s.tag, m.virtual)})
	}
	if doing.Took > 0 || left > 0 {
		m.line(doing.User).begin += max(doing.Took, left, leastHeld)
	}
	for _, w := range all {
		l := m.line(w.User)
		l.own += w.Took
		l.end += max(w.Took, leastHeld)
	}
	for i := range m.lines {
		m.lines[i].end += m.lines[i].begin
	}
	others := left + m.before(all, m.virtual, -1)
	for i := range m.lines {
		l := &m.lines[i]
		if wait := left + l.own + m.before(all, l.end, i); wait != others {
			users = append(users, headrace.UserQueue{User: l.user, Wait: wait})
		}
	}
	return users, others
}

// userLine has the moves of a user, for Waits.
type userLine struct {
	user uint32
	// begin is when the first begins in virtual time, end when the last ends, at when the next one does that is looked at.
	begin, end, at time.Duration
	own            time.Duration
}

func (m *Moves[T]) line(user uint32) *userLine {
	for i := range m.lines {
		if m.lines[i].user == user {
			return &m.lines[i]
		}
	}
	m.lines = append(m.lines, userLine{user: user, begin: m.virtual})
	return &m.lines[len(m.lines)-1]
}

// before returns how long all take that begin at a virtual time or before it, without those of one line.
func (m *Moves[T]) before(all []Move, limit time.Duration, without int) (sum time.Duration) {
	for i := range m.lines {
		m.lines[i].at = m.lines[i].begin
	}
	for _, restores := range []bool{true, false} {
		for _, w := range all {
			if w.Restore != restores {
				continue
			}
			l := m.line(w.User)
			if l.at <= limit && (without < 0 || l.user != m.lines[without].user) {
				sum += w.Took
			}
			l.at += max(w.Took, leastHeld)
		}
	}
	return sum
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
