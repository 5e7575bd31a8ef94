package stream

import (
	"fmt"
	"slices"

	"headrace/stream/protocol"
)

// phase is where the newest attempt of a consumer is.
type phase uint8

const (
	// none: there was no attempt yet.
	none phase = iota
	// unknown: it was attached when the last engine ended, and has not come back.
	unknown
	// present: it has a connection.
	present
	// away: it had one; its units are known.
	away
	// committed: it ended with code 0.
	committed
	// over: it failed or was given up.
	over
)

// consumer is one of a stream's consumers. The engine's lock guards it.
type consumer struct {
	s     *stream
	index uint32

	attempt uint32
	phase   phase
	// units were given to the attempt, in order. bytes is the size of those that
	// it has consumed.
	units []uint32
	bytes int64
	// committedUnits are what an earlier attempt committed; then this one gets
	// exactly these again.
	committedUnits []uint32

	// cur is what it has and has not consumed, nil without.
	cur *unit
	// position is how much of cur is consumed.
	position int64
	link     *link
	// asked: it waits for a unit.
	asked bool
	// arriving counts connections that are about to be its own.
	arriving int
	// finishing and fenced: an end is being written down. doomed: it is to fail if
	// that does not work.
	finishing, fenced, doomed bool
}

// supersede begins a new attempt.
func (c *consumer) supersede(attempt uint32) {
	if c.link != nil {
		c.link.fail(fmt.Sprintf("attempt %d took the place of attempt %d", attempt, c.attempt))
	}
	c.unlink()
	if c.phase == unknown && c.s.unknown > 0 {
		c.s.unknown--
	}
	if c.phase == committed {
		c.committedUnits = c.units
	} else {
		c.s.reclaim(c.units)
	}
	c.attempt, c.phase, c.units, c.bytes = attempt, none, nil, 0
}

// close ends the attempt: its units are committed or go back.
func (c *consumer) close(units []uint32, commit bool) {
	c.unlink()
	if c.phase == unknown && c.s.unknown > 0 {
		c.s.unknown--
	}
	if commit {
		for _, id := range units {
			c.s.set(id, done)
		}
		c.bytes = c.s.plan.totalBytes(units)
		c.units, c.phase = units, committed
		return
	}
	if c.committedUnits == nil {
		c.s.reclaim(c.units)
	}
	c.units, c.bytes, c.phase = nil, 0, over
}

// unlink ends the connection's part: what was in memory for it is let go.
func (c *consumer) unlink() {
	if c.cur != nil {
		c.cur.cancel()
		c.cur = nil
	}
	c.s.forgetWaiting(c)
	if n := len(c.units); n > 0 {
		delete(c.s.fetches, c.units[n-1])
	}
	c.link = nil
}

// lease enters a unit on the attempt's list.
func (c *consumer) lease(id uint32) {
	c.s.set(id, leased)
	c.units = append(c.units, id)
	c.asked = false
}

// giveAgain gives the next of the committed units.
func (c *consumer) giveAgain() bool {
	n := len(c.units)
	c.asked = false
	if n == len(c.committedUnits) {
		c.link.send(message(&protocol.EOF{}))
		return true
	}
	id := c.committedUnits[n]
	c.units = append(c.units, id)
	c.s.source.bring(id, c, 0)
	return true
}

// hand gives a unit, from a position on, to the consumer that has it on its
// list.
func (c *consumer) hand(u *unit, position int64) {
	if c.link == nil {
		u.cancel()
		return
	}
	c.cur, c.position = u, position
	f := &c.s.plan.files[u.file]
	c.link.send(message(&protocol.Unit{ID: u.id, Path: f.path, Offset: uint64(u.offset), Codec: f.codec}))
	pieces := u.pieces
	at := u.freed
	for _, p := range pieces {
		if at+int64(p.n) > position {
			c.sendPiece(u, p, max(0, position-at))
		}
		at += int64(p.n)
	}
	if u.ended {
		c.sendEnd(u)
	}
}

// sendPiece sends a piece without its first skip bytes.
func (c *consumer) sendPiece(u *unit, p piece, skip int64) {
	p.off += int(skip)
	p.n -= int(skip)
	c.link.sendPiece(u.id, p)
}

func (c *consumer) sendEnd(u *unit) {
	c.link.send(message(&protocol.End{Unit: u.id, Bytes: uint64(u.bytes), Unterminated: u.unterminated}))
}

// consumed takes what the consumer reports. It may leave the rest of a unit
// unread by saying that it has consumed the whole.
func (c *consumer) consumed(m *protocol.Consumed) error {
	u := c.cur
	if f := c.s.fetches[m.Unit]; u == nil && f != nil && f.c == c {
		if m.Whole {
			delete(c.s.fetches, m.Unit)
		}
		return nil
	}
	if u == nil || u.id != m.Unit {
		return fmt.Errorf("unit %d is not the one that it has", m.Unit)
	}
	if int64(m.Bytes) < c.position || int64(m.Bytes) > u.bytes {
		return fmt.Errorf("%d bytes of unit %d cannot have been consumed", m.Bytes, m.Unit)
	}
	c.position = int64(m.Bytes)
	u.free(c.position)
	if m.Whole {
		u.cancel()
		c.cur = nil
		c.bytes += c.s.plan.unitBytes(u.id)
		c.s.consumedRange(u)
	}
	return nil
}

// resume makes the engine's list that of the consumer, and brings the last unit
// again if it was not consumed.
func (c *consumer) resume(m *protocol.Hello) error {
	if err := c.adopt(m.Units); err != nil {
		return err
	}
	n := len(m.Units)
	c.bytes = c.s.plan.totalBytes(m.Units)
	if n > 0 && !m.Whole {
		c.bytes -= c.s.plan.unitBytes(m.Units[n-1])
		c.s.source.bring(m.Units[n-1], c, int64(m.Position))
	}
	return nil
}

func (c *consumer) adopt(units []uint32) error {
	s := c.s
	for _, id := range units {
		if id >= s.plan.units {
			return fmt.Errorf("there is no unit %d", id)
		}
	}
	if c.committedUnits != nil {
		if len(units) > len(c.committedUnits) || !slices.Equal(units, c.committedUnits[:len(units)]) {
			return fmt.Errorf("its units are not those that were committed")
		}
		c.units = units
		return nil
	}
	mine := map[uint32]bool{}
	for _, id := range c.units {
		mine[id] = true
	}
	for _, id := range units {
		if !mine[id] && s.state[id] != todo && s.state[id] != ready {
			return fmt.Errorf("unit %d belongs to another consumer", id)
		}
	}
	for _, id := range units {
		delete(mine, id)
		if s.state[id] == ready {
			s.unready(id)
		}
		if s.state[id] == todo {
			s.set(id, leased)
		}
	}
	for id := range mine {
		s.reclaim([]uint32{id})
	}
	c.units = units
	return nil
}

// unready drops a ready unit from memory.
func (s *stream) unready(id uint32) {
	i := slices.IndexFunc(s.ready, func(u *unit) bool { return u.id == id })
	s.ready[i].cancel()
	s.ready = slices.Delete(s.ready, i, i+1)
	s.set(id, todo)
}
