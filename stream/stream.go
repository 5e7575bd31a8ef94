package stream

import (
	"fmt"
	"slices"
	"sync"

	"headrace/pagecache"
	"headrace/stream/deal"
	"headrace/stream/protocol"
	"headrace/stream/scan"
)

// stream is one open stream: its dealer decides, its feed reads, and what the one
// wants is done here with the other and with the consumers' connections. The engine's
// lock guards it, except for journal.
type stream struct {
	*common
	dir  string
	spec Spec
	plan *deal.Plan
	// listed is what its list of files counts against its owner's part of the engine's lists.
	listed int64
	deal   *deal.Dealer
	feed   *scan.Feed

	seats []seat
	// units are in memory and belong to nobody.
	units map[uint32]*scan.Unit

	journalMu sync.Mutex
	journal   *journal
}

// seat is where a consumer is connected; it is empty without a link.
type seat struct {
	link *link
	// unit is what it has and has not consumed, nil without; position is how much of it
	// is consumed, in bytes.
	unit     *scan.Unit
	position int64
}

func newStream(e *common, dir string, spec Spec, p *deal.Plan, j *journal) *stream {
	s := &stream{
		common: e, dir: dir, spec: spec, plan: p, journal: j,
		seats: make([]seat, spec.Consumers), units: map[uint32]*scan.Unit{},
	}
	var resident func(unit uint32, file int) int64
	if !e.cfg.NoResidentFirst {
		resident = func(unit uint32, file int) int64 { return s.feed.Resident(unit, file) }
	}
	s.deal = deal.New(p, spec.Consumers, resident)
	s.feed = e.scans.Feed(scan.Spec{Plan: p, Owner: spec.Owner, Buffer: spec.buffer(), Consumers: spec.Consumers}, s.deal, s)
	return s
}

// write makes an entry of the journal durable, if make still has one when it is its
// turn. Call it without the lock.
func (s *stream) write(make func() *deal.Entry) error {
	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	if s.journal.f == nil {
		return ErrUnknown
	}
	e := make()
	if e == nil {
		return nil
	}
	if err := s.journal.write(e); err != nil {
		return err
	}
	if s.journal.grown() {
		if err := s.journal.fold(); err != nil {
			s.cfg.Log.Error("write the journal of a stream anew", "stream", s.spec.ID, "err", err)
		}
	}
	return nil
}

// keepEnds writes the plan anew if ends of files have been learned since it was written: what is appended
// is told from what is written anew by them, also by a later engine. Call it without the lock.
func (s *stream) keepEnds() {
	s.journalMu.Lock()
	defer s.journalMu.Unlock()
	s.mu.Lock()
	if s.journal.f == nil || !s.feed.Learned() {
		s.mu.Unlock()
		return
	}
	p := *s.plan
	p.Files = slices.Clone(p.Files)
	s.mu.Unlock()
	if err := writePlan(s.dir, &s.spec, &p); err != nil {
		s.cfg.Log.Error("write the plan of a stream anew; if one of its files grows before it is read, the stream fails", "stream", s.spec.ID, "err", err)
	}
}

// writeFor makes an entry durable that an attempt waits for, and goes on with it. It
// returns with the lock held.
func (s *stream) writeFor(e *deal.Entry) (doomed bool, err error) {
	err = s.write(func() *deal.Entry { return e })
	s.mu.Lock()
	return s.deal.Written(e, err == nil), err
}

// Arrived implements scan.Taker.
func (s *stream) Arrived(u *scan.Unit) {
	if s.units[u.ID] != nil {
		u.Cancel()
		return
	}
	s.units[u.ID] = u
	s.deal.Arrive(u.ID)
	s.Serve()
}

// Empty implements scan.Taker.
func (s *stream) Empty(id uint32) {
	s.deal.FoundEmpty(id)
	s.Serve()
}

// Failed implements scan.Taker: nothing can be dealt any more.
func (s *stream) Failed(err error) {
	if !s.deal.Fail(err) {
		return
	}
	if err != errRemoved {
		s.cfg.Log.Warn("stream failed", "stream", s.spec.ID, "err", err)
	}
	for i := range s.seats {
		if l := s.seats[i].link; l != nil {
			l.fail(err.Error())
		}
	}
	s.release()
}

// Serve implements scan.Taker: it gives units to the consumers that wait, and starts
// what is needed to bring more.
func (s *stream) Serve() {
	dealt := !s.closed && s.deal.Deal()
	s.perform()
	if dealt {
		s.feed.Advance()
	}
}

// release lets go of all memory and all reading. Units that were ready have to
// be brought again.
func (s *stream) release() {
	s.feed.Release()
	s.deal.Release()
	s.perform()
}

// perform does what the dealer wants done. It follows each of the dealer's events.
func (s *stream) perform() {
	for _, x := range s.deal.Effects() {
		switch x.Act {
		case deal.Hand:
			s.hand(x, s.take(x.Unit))
		case deal.Read:
			at := &s.seats[x.Consumer]
			s.hand(x, s.feed.Read(x.Unit, x.Position, at.sendNews))
		case deal.Fetch:
			s.feed.Fetch(x.Unit)
		case deal.End:
			s.seats[x.Consumer].link.say(&protocol.EOF{})
		case deal.Discard:
			s.take(x.Unit).Cancel()
		case deal.Return:
			s.feed.Returned()
		}
	}
}

// take takes a unit; one that is not in memory has no bytes.
func (s *stream) take(id uint32) *scan.Unit {
	u := s.units[id]
	if u == nil {
		return &scan.Unit{ID: id, File: s.plan.FileOf(id), Ended: true}
	}
	delete(s.units, id)
	return u
}

// hand gives a unit, from a position on, to the consumer that has it on its list.
func (s *stream) hand(x deal.Effect, u *scan.Unit) {
	s.feed.Dealt(u.ID)
	at := &s.seats[x.Consumer]
	at.unit, at.position = u, x.Position
	f := &s.plan.Files[u.File]
	at.link.say(&protocol.Unit{ID: u.ID, Path: f.Path, Offset: uint64(u.Offset), Codec: f.Codec})
	begin := u.Freed
	for _, p := range u.Pieces {
		if begin+int64(p.N) > x.Position {
			at.link.sendPiece(u.ID, p.Rest(max(0, x.Position-begin)))
		}
		begin += int64(p.N)
	}
	if u.Ended {
		at.sendEnd()
		u.Lend()
	}
}

// sendNews sends what has come of a unit that is read while it is consumed.
func (at *seat) sendNews(u *scan.Unit) {
	if u.Ended {
		at.sendEnd()
	} else {
		at.link.sendPiece(u.ID, u.Pieces[len(u.Pieces)-1])
	}
}

func (at *seat) sendEnd() {
	at.link.say(&protocol.End{Unit: at.unit.ID, Bytes: uint64(at.unit.Bytes), Unterminated: at.unit.Unterminated})
}

// clear empties the seat: what was in memory for it is let go.
func (at *seat) clear() {
	if at.unit != nil {
		at.unit.Cancel()
	}
	*at = seat{}
}

// dismiss tells the consumer why its connection ends, if it has one.
func (at *seat) dismiss(why string) {
	if at.link != nil {
		at.link.fail(why)
	}
	at.clear()
}

// consumed takes what a consumer reports. It may leave the rest of a unit unread by
// saying that it has consumed the whole.
func (s *stream) consumed(consumer uint32, m *protocol.Consumed) error {
	at := &s.seats[consumer]
	u := at.unit
	if u == nil || u.ID != m.Unit {
		return s.deal.Skip(consumer, m.Unit, m.Whole)
	}
	if int64(m.Bytes) < at.position || int64(m.Bytes) > u.Bytes {
		return fmt.Errorf("%d bytes of unit %d cannot have been consumed", m.Bytes, m.Unit)
	}
	at.position = int64(m.Bytes)
	u.Free(at.position)
	if m.Whole {
		u.Cancel()
		at.unit = nil
		s.deal.Consumed(consumer)
		s.tellRead(u)
	}
	return nil
}

// tellRead tells who warms files that a unit has been read.
func (s *stream) tellRead(u *scan.Unit) {
	if s.cfg.Read == nil {
		return
	}
	first, to := s.plan.Batch(u.ID)
	if f := &s.plan.Files[first]; f.Block > 0 {
		s.cfg.Read(s.spec.ID, f.Path, pagecache.Range{Off: u.Offset, Len: u.Bytes})
		return
	}
	for i := first; i < to; i++ {
		if f := &s.plan.Files[i]; f.Size > 0 {
			s.cfg.Read(s.spec.ID, f.Path, pagecache.Range{Len: f.Size})
		}
	}
}

// giveUp fails an attempt, durably, unless done, which keeps one that has ended with code 0.
func (s *stream) giveUp(consumer, attempt uint32, done bool) error {
	s.mu.Lock()
	had := s.deal.Attempt(consumer)
	entry := s.deal.Fence(consumer, attempt, done)
	if entry != nil && had < attempt {
		s.seats[consumer].dismiss(superseded(attempt, had))
	} else if entry != nil {
		s.seats[consumer].dismiss(fmt.Sprintf("attempt %d of consumer %d was given up", attempt, consumer))
	}
	s.perform()
	s.mu.Unlock()
	if entry == nil {
		return nil
	}
	_, err := s.writeFor(entry)
	defer s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("record that attempt %d of consumer %d of stream %s has failed: %w", attempt, consumer, s.spec.ID, err)
	}
	s.Serve()
	return nil
}

// absent takes note that an attempt has no processes.
func (s *stream) absent(consumer, attempt uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deal.Absent(consumer, attempt)
	s.Serve()
}

func superseded(by, had uint32) string {
	return fmt.Sprintf("attempt %d took the place of attempt %d", by, had)
}

// afterwards lets go of memory when nobody is there to read it.
func (s *stream) afterwards() {
	if s.deal.Present() == 0 {
		s.release()
	}
}
