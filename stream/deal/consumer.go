package deal

import (
	"errors"
	"fmt"
	"slices"

	"headrace/stream/protocol"
)

// ErrLater says that a consumer is to come again.
var ErrLater = errors.New("not now")

// phase is where the newest attempt of a consumer is.
type phase uint8

const (
	// none: there was no attempt yet.
	none phase = iota
	// unknown: it was attached when the last dealer ended, and has not come back.
	unknown
	// present: it has a connection.
	present
	// away: it had one; its units are known.
	away
	// committed: it has said that it ended with code 0. That counts unless it is given up, or
	// comes back from a checkpoint, after all.
	committed
	// over: it was given up.
	over
)

// consumer is one of a stream's consumers.
type consumer struct {
	d     *Dealer
	index uint32

	attempt uint32
	phase   phase
	// units were given to the attempt, in order. bytes is the size of those that
	// it has consumed.
	units []uint32
	bytes int64
	// left is what it had when it last left or came back, as far as that is known: what is
	// restored from a checkpoint begins with it.
	left []uint32
	// absent: it has no processes; see Absent.
	absent bool

	linked bool
	// holds: it was handed the last of units and has not consumed it.
	holds bool
	// asked: it waits for a unit.
	asked bool
	// arriving counts connections that are about to be its own.
	arriving int
	// finishing and fenced: an end is being written down. doomed: it is to be given up
	// after that.
	finishing, fenced, doomed bool
	// failing: it has said that it ended with another code than 0; it will be given up.
	failing bool
}

// Attempt returns the newest attempt of a consumer; 0 before the first.
func (d *Dealer) Attempt(consumer uint32) uint32 { return d.consumers[consumer].attempt }

// Given returns how many units a consumer has been given, and the size of those of them
// that it has consumed.
func (d *Dealer) Given(consumer int) (units int, bytes int64) {
	c := d.consumers[consumer]
	return len(c.units), c.bytes
}

// DealtBytes returns the size of what all consumers have consumed, and of blocks
// without records.
func (d *Dealer) DealtBytes() int64 {
	n := d.emptyBytes
	for _, c := range d.consumers {
		n += c.bytes
	}
	return n
}

// Admit tells whether h may attach; ErrLater: not now.
func (d *Dealer) Admit(h *protocol.Hello) error {
	switch c := d.consumers[h.Consumer]; {
	case d.err != nil:
		return d.err
	case h.Attempt < c.attempt, h.Attempt == c.attempt && (c.phase == over || c.fenced):
		return fmt.Errorf("attempt %d of consumer %d was given up", h.Attempt, c.index)
	case c.finishing, c.fenced:
		return ErrLater // an earlier connection of it is finishing, or an earlier attempt is being given up
	}
	return nil
}

// Coming admits a connection that is to attach as soon as the entry is durable. Written has to
// follow. The entry says what the attempt brings along.
func (d *Dealer) Coming(h *protocol.Hello) (*Entry, error) {
	if err := d.Admit(h); err != nil {
		return nil, err
	}
	d.consumers[h.Consumer].arriving++
	return &Entry{Kind: Attached, Consumer: h.Consumer, Attempt: h.Attempt, Units: slices.Clip(h.Units)}, nil
}

// Attach connects an attempt that was admitted; an earlier connection of the
// consumer is none any more. Its list of units is the one that counts, and the last
// of them is brought again if it was not consumed. That also holds for one that has ended:
// it did not get the answer, or its end counts for nothing and it comes from a checkpoint.
// Bytes is the list's size, by Plan.Measure.
func (d *Dealer) Attach(h *protocol.Hello, bytes int64) error {
	c := d.consumers[h.Consumer]
	if h.Attempt > c.attempt {
		c.supersede(h.Attempt)
	}
	c.unlink()
	c.reopen()
	if err := c.adopt(h.Units); err != nil {
		return err
	}
	c.linked = true
	c.bytes = bytes
	if n := len(h.Units); n > 0 && !h.Whole {
		c.bytes -= d.plan.UnitBytes(h.Units[n-1])
		d.bring(h.Units[n-1], c, int64(h.Position))
	}
	c.known()
	c.phase = present
	return nil
}

// Detach takes note that a connection has ended. The attempt's units are to be written
// down, by the entry that Left makes.
func (d *Dealer) Detach(consumer uint32) {
	c := d.consumers[consumer]
	c.unlink()
	c.phase = away
}

// Left returns the entry that says what an attempt had when it left; nil: it has come
// back, is about to, or is over.
func (d *Dealer) Left(consumer, attempt uint32) *Entry {
	c := d.consumers[consumer]
	if c.phase != away || c.attempt != attempt || c.arriving > 0 { // then it has units that are not on this list
		return nil
	}
	return &Entry{Kind: Left, Consumer: consumer, Attempt: attempt, Units: slices.Clip(c.units)}
}

// Ask takes note that a consumer wants a unit. Deal gives it one.
func (d *Dealer) Ask(consumer uint32) error {
	c := d.consumers[consumer]
	switch {
	case c.holds:
		return errors.New("it asks for a unit before it has consumed the last one")
	case c.asked:
		return errors.New("it has asked for a unit already")
	}
	if n := len(c.units); n > 0 && d.Units.Fetched(c.units[n-1]) {
		return errors.New("it asks for a unit while the last one is still on its way")
	}
	c.asked = true
	d.waiting = append(d.waiting, c)
	return nil
}

// Consumed takes note that a consumer has consumed, or passed over, the whole of the
// unit that it holds.
func (d *Dealer) Consumed(consumer uint32) {
	c := d.consumers[consumer]
	c.holds = false
	c.bytes += d.plan.UnitBytes(c.units[len(c.units)-1])
}

// Skip takes what a consumer reports of a unit that it does not hold: it may be on
// its way again, and not be needed any more when whole is set.
func (d *Dealer) Skip(consumer, unit uint32, whole bool) error {
	c := d.consumers[consumer]
	if c.holds || d.Units.fetches[unit].c != c {
		return fmt.Errorf("unit %d is not the one that it has", unit)
	}
	if whole {
		delete(d.Units.fetches, unit)
	}
	return nil
}

// Finishing begins the end of an attempt, which the entry says. Written has to follow.
// Nil: it has ended with another code than 0. Then it keeps its units until it is given up, for who
// decides that may have it go on from a checkpoint; till then nobody is told that nothing is left.
// ErrLater: it is to say so on its next connection, which is about to be there.
func (d *Dealer) Finishing(consumer uint32, code int32) (*Entry, error) {
	c := d.consumers[consumer]
	switch {
	case c.arriving > 0:
		return nil, ErrLater
	case code != 0:
		c.failing = true
		return nil, nil
	}
	c.finishing, c.doomed = true, false
	return &Entry{Kind: Finished, Consumer: consumer, Attempt: c.attempt, Units: slices.Clip(c.units)}, nil
}

// Fence begins to give an attempt up, unless done, which keeps one that has said that it ended with
// code 0: nobody can attach to it from now on. Written has to follow. Nil: there is nothing
// to give up, or not yet.
func (d *Dealer) Fence(consumer, attempt uint32, done bool) *Entry {
	c := d.consumers[consumer]
	switch {
	case c.attempt > attempt || c.attempt == attempt && c.phase == over:
		return nil
	case done && c.attempt == attempt && (c.finishing || c.phase == committed):
		return nil
	case c.finishing:
		c.doomed = true
		return nil
	case c.attempt < attempt:
		c.supersede(attempt)
	}
	c.fenced = true
	c.unlink()
	return &Entry{Kind: Failed, Consumer: consumer, Attempt: attempt}
}

// Written goes on after an entry was written; when it could not be, nothing ends, and who
// was to be given up stays out until it can. Of an end, doomed tells that the attempt was to be given up meanwhile.
func (d *Dealer) Written(e *Entry, ok bool) (doomed bool) {
	c := d.consumers[e.Consumer]
	switch e.Kind {
	case Attached:
		c.arriving--
		return false
	case Finished:
		c.finishing, doomed = false, c.doomed
	case Failed:
		c.fenced = !ok // Fence is tried again
	}
	if ok && e.Kind != Left {
		c.close(e.Units, e.Kind == Finished)
	}
	return doomed
}

// Replay takes in an entry that an earlier dealer had written. After the last comes
// Await.
func (d *Dealer) Replay(e *Entry) error {
	if int(e.Consumer) >= len(d.consumers) {
		return ErrJournal
	}
	for _, u := range e.Units {
		if u >= d.plan.Units {
			return ErrJournal
		}
	}
	c := d.consumers[e.Consumer]
	switch {
	case c.attempt < e.Attempt:
		c.supersede(e.Attempt)
	case c.attempt > e.Attempt, c.phase == over: // a connection that came while that was written
		return nil
	}
	c.units, c.bytes = e.Units, d.plan.TotalBytes(e.Units)
	if len(e.Units) > 0 || e.Kind != Attached {
		c.left = e.Units
	}
	switch {
	case e.over():
		c.phase, c.units, c.bytes, c.left = over, nil, 0, nil
	case e.Kind == Attached:
		c.phase, c.units, c.bytes = unknown, nil, 0 // it says itself what it has
	case e.Kind == Left:
		c.phase = away
	case e.Kind == Finished:
		c.phase = committed
	}
	return nil
}

// Await ends the replay: leases are entered, and consumers that were attached are
// waited for: until they have come back or were given up nothing is dealt.
func (d *Dealer) Await() {
	for _, c := range d.consumers {
		switch {
		case c.phase == unknown:
			d.unknown++
		case c.phase == away:
			c.mark(leased)
		case c.phase == committed:
			c.mark(done)
		}
	}
	d.effects, d.returned = nil, false // of nothing that was brought
}

// Absent takes note that an attempt has no processes, and comes back, if at all, from a
// checkpoint that was taken before it last came. When all others that are waited for
// are known it is taken to be away, with what it had then: it may need that again, but
// nobody needs to wait for it.
func (d *Dealer) Absent(consumer, attempt uint32) {
	c := d.consumers[consumer]
	if c.attempt != attempt {
		return
	}
	c.failing = false
	c.absent = c.absent || c.phase == unknown && len(c.left) > 0
}

// Awaited returns the consumers that have to come back, or be given up, before anything is
// dealt; none: something is, or nothing ever will be.
func (d *Dealer) Awaited() (list []int) {
	if d.err != nil || d.unknown == 0 {
		return nil
	}
	var absent []int // waited for only if two of them claim the same
	for i, c := range d.consumers {
		switch {
		case c.phase == unknown && c.absent:
			absent = append(absent, i)
		case c.phase == unknown:
			list = append(list, i)
		}
	}
	if list == nil {
		return absent
	}
	return list
}

// settle ends the waiting for consumers that are absent, if it is for these only. What
// one of them had and somebody else has by now it had given away before.
func (d *Dealer) settle() {
	var absent []*consumer
	claimed := map[uint32]bool{}
	for _, c := range d.consumers {
		if c.phase != unknown {
			continue
		}
		if !c.absent {
			return
		}
		for _, u := range c.left {
			if claimed[u] {
				return // which of two has it only they can tell
			}
			claimed[u] = true
		}
		absent = append(absent, c)
	}
	for _, c := range absent {
		c.known()
		c.phase = away
		for _, u := range c.left {
			if d.Units.state[u] == todo {
				c.lease(u)
			}
		}
		c.bytes = d.plan.TotalBytes(c.units)
	}
}

// supersede begins a new attempt.
func (c *consumer) supersede(attempt uint32) {
	c.unlink()
	c.known()
	c.d.reclaim(c.units)
	c.attempt, c.phase, c.units, c.bytes, c.left, c.absent, c.failing = attempt, none, nil, 0, nil, false, false
}

// reopen takes an end for none: its units are its own as before.
func (c *consumer) reopen() {
	if c.failing = false; c.phase == committed {
		c.mark(leased)
		c.phase = away
	}
}

// mark enters where its units are.
func (c *consumer) mark(as unitState) {
	for _, id := range c.units {
		c.d.set(id, as)
	}
}

// known: it is waited for no longer.
func (c *consumer) known() {
	if c.phase == unknown && c.d.unknown > 0 {
		c.d.unknown--
	}
}

// close ends the attempt: its units are committed or go back.
func (c *consumer) close(units []uint32, commit bool) {
	c.unlink()
	c.known()
	c.left, c.failing = nil, false
	if commit {
		c.units, c.bytes, c.phase = units, c.d.plan.TotalBytes(units), committed
		c.mark(done)
		return
	}
	c.d.reclaim(c.units)
	c.units, c.bytes, c.phase = nil, 0, over
}

// unlink ends the connection's part.
func (c *consumer) unlink() {
	d := c.d
	d.waiting = slices.DeleteFunc(d.waiting, func(w *consumer) bool { return w == c })
	if n := len(c.units); n > 0 && d.Units.fetches[c.units[n-1]].c == c {
		delete(d.Units.fetches, c.units[n-1])
	}
	c.linked, c.holds, c.asked = false, false, false
}

// lease enters a unit on the attempt's list.
func (c *consumer) lease(id uint32) {
	c.d.set(id, leased)
	c.units = append(c.units, id)
}

// hand has a unit of its list given to the consumer.
func (c *consumer) hand(how Act, id uint32, position int64) {
	c.holds = true
	c.d.do(how, c.index, id, position)
}

// adopt makes units the list of the attempt.
func (c *consumer) adopt(units []uint32) error {
	d := c.d
	for _, id := range units {
		if id >= d.plan.Units {
			return fmt.Errorf("there is no unit %d", id)
		}
	}
	state := d.Units.state
	c.remark(leased, mine)
	for _, id := range units {
		if is := state[id]; is != mine && is != todo && is != ready {
			c.remark(mine, leased)
			return fmt.Errorf("unit %d belongs to another consumer", id)
		}
	}
	for _, id := range units {
		switch state[id] {
		case mine:
			state[id] = leased
		case ready:
			d.do(Discard, 0, id, 0)
			fallthrough
		default:
			d.set(id, leased)
		}
	}
	d.ready = slices.DeleteFunc(d.ready, func(r uint32) bool { return state[r] != ready })
	for _, id := range c.units {
		if state[id] == mine {
			state[id] = leased
			d.set(id, todo)
		}
	}
	c.units = units
	return nil
}

// remark gives another mark to what the attempt has on its list. It still counts as
// leased.
func (c *consumer) remark(from, to unitState) {
	for _, id := range c.units {
		if state := c.d.Units.state; state[id] == from {
			state[id] = to
		}
	}
}
