package sim

import (
	"time"

	"headrace"
	"headrace/disk"
	"headrace/policy"
)

// store is what a node keeps checkpoints on. It does one dump or restore at a time, in
// the order of [disk.Moves], as a live device does.
type store struct {
	clock      *clock
	node       int32
	size, used int64
	// doing is the one under way, nil for none, since began; line has those that wait.
	doing *move
	line  disk.Moves[*move]
	began time.Duration
	// busy is how long it has worked in all.
	busy time.Duration
	// dump begins a dump, or reports that there will be none.
	dump func(*move) bool
	// dumps and others are buffers.
	dumps  []policy.Dump
	others []disk.Move
}

// move is a dump or a restore.
type move struct {
	t       *task
	restore bool
	// user is for whom it is done.
	user int32
	// took is how long it takes; of those that wait, how long it is expected to.
	took time.Duration
}

// fits reports whether there is room for so many bytes more.
func (s *store) fits(bytes int64) bool { return s.used+bytes <= s.size }

// add asks for a dump or restore.
func (s *store) add(m move) {
	s.line.Ask(uint32(m.user), m.restore, &m)
	if s.doing == nil {
		s.next()
	}
}

// next begins with what is next.
func (s *store) next() {
	for s.doing == nil {
		m, ok := s.line.Next()
		if !ok {
			return
		}
		s.began = s.clock.now
		if m.restore || s.dump(m) {
			s.doing = m
			s.clock.in(m.took, event{who: s.node, kind: evStored})
			return
		}
		s.line.Held(uint32(m.user), 0)
	}
}

// done ends the one under way. The caller looks after its task before the next one begins.
func (s *store) done() (t *task, restored bool) {
	m := s.doing
	s.doing = nil
	s.busy += m.took
	s.line.Held(uint32(m.user), m.took)
	return m.t, m.restore
}

// withdraw takes the dump of t, which has ended before that has begun, out of those that wait.
func (s *store) withdraw(t *task) {
	for m := range s.line.Waiting() {
		if m.t == t {
			s.line.Withdraw(m)
			return
		}
	}
}

// idle reports whether it has nothing to do.
func (s *store) idle() bool { return s.doing == nil && s.line.Len() == 0 }

// left returns how much longer the one under way takes.
func (s *store) left() time.Duration {
	if s.doing == nil {
		return 0
	}
	return max(0, s.began+s.doing.took-s.clock.now)
}

// wait returns how long all take that are asked for.
func (s *store) wait() time.Duration {
	sum := s.left()
	for m := range s.line.Waiting() {
		sum += m.took
	}
	return sum
}

// waits returns how long a dump that is asked for now waits for others: for the users that are
// appended, and for others.
func (s *store) waits(users []headrace.UserQueue) ([]headrace.UserQueue, time.Duration) {
	s.others = s.others[:0]
	for m, restore := range s.line.Waiting() {
		s.others = append(s.others, disk.Move{User: uint32(m.user), Restore: restore, Took: m.took})
	}
	var doing disk.Move
	if s.doing != nil {
		doing = disk.Move{User: uint32(s.doing.user), Restore: s.doing.restore, Took: s.doing.took}
	}
	return s.line.Waits(users, doing, s.left(), s.others)
}

// free returns the room left beside the dumps that wait; used counts the one under way.
func (s *store) free() int64 {
	s.dumps = s.dumps[:0]
	for m := range s.line.Waiting() {
		if !m.restore {
			s.dumps = append(s.dumps, policy.Dump{Bytes: m.t.dirty(m.t.progress(s.clock.now))})
		}
	}
	return policy.StoreFree(s.size-s.used, s.dumps...)
}

// writes returns what the dump under way adds for t, or 0.
func (s *store) writes(t *task) int64 {
	if s.doing != nil && s.doing.t == t && !s.doing.restore {
		return t.writes
	}
	return 0
}
