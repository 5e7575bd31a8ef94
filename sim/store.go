package sim

import (
	"slices"
	"time"
)

// store is what a node keeps checkpoints on. It does one dump or restore at a time, in
// the order of the turns of package disk.
type store struct {
	clock      *clock
	node       int32
	size, used int64
	// queue is what it has to do, the first of it since began.
	queue []move
	began time.Duration
	// busy is how long it has worked in all.
	busy time.Duration
	// dump begins a dump, or reports that there will be none.
	dump func(*move) bool
}

// move is a dump or a restore.
type move struct {
	t       *task
	restore bool
	// took is how long it takes; of those that wait, how long it is expected to.
	took time.Duration
}

// fits reports whether there is room for so many bytes more.
func (s *store) fits(bytes int64) bool { return s.used+bytes <= s.size }

// add asks for a dump or restore.
func (s *store) add(m move) {
	at := len(s.queue)
	for m.restore && at > 1 && !s.queue[at-1].restore {
		at-- // before the dumps that wait
	}
	s.queue = slices.Insert(s.queue, at, m)
	if len(s.queue) == 1 {
		s.next()
	}
}

// next begins with what is first in the queue.
func (s *store) next() {
	for len(s.queue) > 0 {
		s.began = s.clock.now
		m := &s.queue[0]
		if m.restore || s.dump(m) {
			s.clock.in(m.took, event{who: s.node, kind: evStored})
			return
		}
		s.queue = s.queue[1:]
	}
}

// done ends the first. The caller looks after its task before the next one begins.
func (s *store) done() (t *task, restored bool) {
	m := s.queue[0]
	s.busy += m.took
	s.queue = s.queue[1:]
	return m.t, m.restore
}

// withdraw takes t, which has ended, out of the queue.
func (s *store) withdraw(t *task) {
	s.queue = slices.DeleteFunc(s.queue, func(m move) bool { return m.t == t })
}

// wait returns how long a dump that is asked for now waits for others.
func (s *store) wait() time.Duration {
	var sum time.Duration
	for i, m := range s.queue {
		if i == 0 {
			m.took = max(0, s.began+m.took-s.clock.now)
		}
		sum += m.took
	}
	return sum
}

// promised returns what the dumps that wait would write now.
func (s *store) promised() (bytes int64) {
	for i, m := range s.queue {
		if i > 0 && !m.restore {
			bytes += m.t.dirty(m.t.progress(s.clock.now))
		}
	}
	return bytes
}

// writes returns what the dump under way adds for t, or 0.
func (s *store) writes(t *task) int64 {
	if len(s.queue) > 0 && s.queue[0].t == t && !s.queue[0].restore {
		return t.writes
	}
	return 0
}
