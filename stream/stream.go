package stream

import (
	"fmt"
	"slices"
	"sync"

	"headrace/pagecache"
	"headrace/stream/protocol"
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
	// done units were committed.
	done
	// empty units turned out to have no records.
	empty
	unitStates
)

// unit is a unit in memory, or on its way.
type unit struct {
	id   uint32
	file int
	// offset is where it begins in its file.
	offset int64
	pieces []piece
	// bytes counts all pieces that there have been, freed those that are gone.
	bytes, freed int64
	ended        bool
	unterminated bool
	// cancelled tells who brings it that nobody wants it any more.
	cancelled bool
}

// piece is a part of a slot; it holds a reference.
type piece struct {
	slot *slot
	off  int
	n    int
}

func (u *unit) add(s *slot, off, n int) {
	if n == 0 {
		return
	}
	s.refs++
	u.pieces = append(u.pieces, piece{s, off, n})
	u.bytes += int64(n)
}

// free lets go of all pieces that end at or before position.
func (u *unit) free(position int64) {
	for len(u.pieces) > 0 && u.freed+int64(u.pieces[0].n) <= position {
		u.freed += int64(u.pieces[0].n)
		u.pieces[0].slot.drop()
		u.pieces = u.pieces[1:]
	}
}

func (u *unit) cancel() {
	u.cancelled = true
	u.free(u.bytes)
}

// fetch is a unit that one consumer waits for: it has it on its list already.
type fetch struct {
	c        *consumer
	position int64
}

// stream is one open stream. The engine's lock guards it, except for journal.
type stream struct {
	e    *Engine
	dir  string
	spec Spec
	plan *plan
	err  error

	journalMu sync.Mutex
	journal   *journal

	state []unitState
	count [unitStates]int
	// emptyBytes is the size of the blocks without records.
	emptyBytes int64
	consumers  []*consumer
	// unknown counts the consumers that may still come back after a restart.
	unknown int
	// ready units in the order in which they came; waiting consumers likewise.
	ready   []*unit
	waiting []*consumer
	fetches map[uint32]*fetch

	// source brings units; see source.go.
	source source
}

func newStream(e *Engine, dir string, spec Spec, p *plan, j *journal) *stream {
	s := &stream{
		e: e, dir: dir, spec: spec, plan: p, journal: j,
		state: make([]unitState, p.units), fetches: map[uint32]*fetch{},
	}
	s.count[todo] = int(p.units)
	for i := range spec.Consumers {
		s.consumers = append(s.consumers, &consumer{s: s, index: uint32(i)})
	}
	s.source.init(s)
	return s
}

func (s *stream) set(id uint32, to unitState) {
	from := s.state[id]
	s.count[from]--
	s.count[to]++
	s.state[id] = to
	if to == todo {
		s.source.returned(id)
	} else if from == todo {
		s.source.taken(id)
	}
}

// write makes an entry of the journal durable. Call it without the lock.
func (s *stream) write(e entry) error {
	return s.writeIf(func() (entry, bool) { return e, true })
}

// writeIf writes what make returns, unless that is no longer true when it is the
// entry's turn.
func (s *stream) writeIf(make func() (e entry, still bool)) error {
	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	if s.journal.f == nil {
		return ErrUnknown
	}
	e, still := make()
	if !still {
		return nil
	}
	return s.journal.write(e)
}

// replayEntry takes in what an earlier engine wrote.
func (s *stream) replayEntry(e *entry) error {
	if int(e.consumer) >= len(s.consumers) {
		return errJournal
	}
	for _, u := range e.units {
		if u >= s.plan.units {
			return errJournal
		}
	}
	c := s.consumers[e.consumer]
	if c.attempt < e.attempt {
		c.supersede(e.attempt)
	}
	if c.phase >= committed && (e.verb == attached || e.verb == left) {
		return nil // a connection that came while the end was being written
	}
	switch e.verb {
	case attached:
		c.phase = unknown
	case left:
		c.phase, c.units, c.bytes = away, e.units, s.plan.totalBytes(e.units)
	case finished:
		c.close(e.units, e.code == 0)
	case failed:
		c.close(nil, false)
	}
	return nil
}

// awaitUnknown ends the replay: leases are entered, and consumers that were
// attached are waited for.
func (s *stream) awaitUnknown() {
	for _, c := range s.consumers {
		switch c.phase {
		case unknown:
			s.unknown++
		case away:
			for _, u := range c.units {
				s.set(u, leased)
			}
		}
	}
}

// fail ends the stream: nothing can be dealt any more.
func (s *stream) fail(err error) {
	if s.err != nil {
		return
	}
	s.err = err
	if err != errRemoved {
		s.e.cfg.Log.Warn("stream failed", "stream", s.spec.ID, "err", err)
	}
	for _, c := range s.consumers {
		if c.link != nil {
			c.link.fail(err.Error())
		}
	}
	s.release()
}

// release lets go of all memory and all reading. Units that were ready have to
// be brought again.
func (s *stream) release() {
	s.source.stop()
	units := s.ready
	s.ready = nil
	for _, u := range units {
		u.cancel()
		s.set(u.id, todo)
	}
}

func (s *stream) attachedCount() int {
	n := 0
	for _, c := range s.consumers {
		if c.link != nil {
			n++
		}
	}
	return n
}

// undealt is the number of units that nobody has been given.
func (s *stream) undealt() int { return s.count[todo] + s.count[ready] }

// stillWanted tells whether a unit has to be brought.
func (s *stream) stillWanted(id uint32) bool {
	return s.err == nil && (s.state[id] == todo || s.fetches[id] != nil)
}

// arrived takes a complete unit.
func (s *stream) arrived(u *unit) {
	u.ended = true
	if f := s.fetches[u.id]; f != nil {
		delete(s.fetches, u.id)
		f.c.hand(u, f.position)
		return
	}
	if s.err != nil || s.state[u.id] != todo || s.attachedCount() == 0 {
		u.cancel()
		return
	}
	s.set(u.id, ready)
	s.ready = append(s.ready, u)
	s.serve()
}

// foundEmpty takes note that a unit has no records.
func (s *stream) foundEmpty(id uint32) {
	if f := s.fetches[id]; f != nil {
		delete(s.fetches, id)
		f.c.hand(&unit{id: id, file: s.plan.fileOf(id), ended: true}, 0)
		return
	}
	if s.state[id] == todo {
		s.set(id, empty)
		s.emptyBytes += s.plan.unitBytes(id)
		s.serve()
	}
}

// serve gives units to the consumers that wait, and starts what is needed to
// bring more.
func (s *stream) serve() {
	if s.err != nil || s.unknown > 0 || s.e.closed {
		return
	}
	for len(s.waiting) > 0 && s.give(s.waiting[0]) {
		s.waiting = s.waiting[1:]
	}
	s.source.advance()
}

// give tries to give the next unit to c, or tells it that there is none.
func (s *stream) give(c *consumer) bool {
	if c.committedUnits != nil {
		return c.giveAgain()
	}
	if id, ok := s.source.pickWhole(); ok {
		c.lease(id)
		s.source.bring(id, c, 0)
		return true
	}
	if len(s.ready) > 0 {
		u := s.ready[0]
		s.ready = s.ready[1:]
		c.lease(u.id)
		c.hand(u, 0)
		return true
	}
	if s.undealt() == 0 {
		c.link.send(message(&protocol.EOF{}))
		c.asked = false
		return true
	}
	return false
}

// reclaim makes the units of an attempt, from the nth on, anybody's again.
func (s *stream) reclaim(units []uint32) {
	for _, id := range units {
		delete(s.fetches, id)
		if s.state[id] == leased {
			s.set(id, todo)
		}
	}
}

// giveUp fails an attempt, durably.
func (s *stream) giveUp(c *consumer, attempt uint32, why string) error {
	// Fenced first: nobody can attach to this attempt while it is written down.
	s.e.mu.Lock()
	if c.attempt > attempt || c.attempt == attempt && (c.phase == committed || c.phase == over) {
		s.e.mu.Unlock()
		return nil
	}
	if c.finishing {
		c.doomed = true
		s.e.mu.Unlock()
		return nil
	}
	if c.attempt < attempt {
		c.supersede(attempt)
	}
	c.fenced = true
	if c.link != nil {
		c.link.fail(fmt.Sprintf("attempt %d of consumer %d %s", attempt, c.index, why))
		c.unlink()
	}
	s.e.mu.Unlock()

	err := s.write(entry{verb: failed, consumer: c.index, attempt: attempt})

	s.e.mu.Lock()
	defer s.e.mu.Unlock()
	c.fenced = false
	if err != nil {
		return fmt.Errorf("record that attempt %d of consumer %d of stream %s has failed: %w", attempt, c.index, s.spec.ID, err)
	}
	c.close(nil, false)
	s.serve()
	return nil
}

// consumedRange tells who warms files that a part of one has been read.
func (s *stream) consumedRange(u *unit) {
	if s.e.cfg.Read == nil {
		return
	}
	f := &s.plan.files[u.file]
	if f.block > 0 || f.codec != protocol.Plain || s.spec.Rule.Split == Files {
		n := u.bytes
		if f.block == 0 {
			n = f.Size
		}
		s.e.cfg.Read(s.spec.ID, f.path, pagecache.Range{Off: u.offset, Len: n})
		return
	}
	from, to := s.plan.batch(u.id)
	for i := from; i < to; i++ {
		if f := &s.plan.files[i]; f.Size > 0 {
			s.e.cfg.Read(s.spec.ID, f.path, pagecache.Range{Len: f.Size})
		}
	}
}

// forgetWaiting takes c off the list of those who wait.
func (s *stream) forgetWaiting(c *consumer) {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *consumer) bool { return w == c })
	c.asked = false
}
