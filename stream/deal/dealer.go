package deal

import (
	"slices"

	"headrace/stream/protocol"
)

// Act is what is to be done.
type Act uint8

const (
	// Hand gives the consumer the unit, which is in memory or has no bytes.
	Hand Act = iota
	// Read has the unit, a whole file, read for the consumer, who takes its pieces as
	// they come.
	Read
	// Fetch has the unit brought, for the consumer alone. Until it is, it is one of
	// Fetches.
	Fetch
	// End tells the consumer that nothing is left for it.
	End
	// Discard lets go of a unit in memory.
	Discard
	// Return says that units which had been brought are to be brought again.
	Return
)

// Effect is something to be done. Position is how much of the unit the consumer has
// consumed already, in bytes.
type Effect struct {
	Act      Act
	Consumer uint32
	Unit     uint32
	Position int64
}

// fetch is a unit that one consumer waits for: it has it on its list already.
type fetch struct {
	c        *consumer
	position int64
}

// Dealer deals the units of a plan. One goroutine at a time may use it.
type Dealer struct {
	// Units are those of the plan; only the dealer changes where they are.
	Units   *Units
	plan    *Plan
	err     error
	effects []Effect
	// returned: there are units to be brought again since Effects was called last.
	returned bool

	// emptyBytes is the size of the blocks without records.
	emptyBytes int64
	consumers  []*consumer
	// unknown counts the consumers that may still come back after a restart.
	unknown int
	// ready units in the order in which they came; waiting consumers likewise.
	ready   []uint32
	waiting []*consumer
}

// New makes a dealer. Resident tells how many bytes of a file that is dealt whole, as
// one unit, are in memory, so that those come first; nil: all in their order.
func New(p *Plan, consumers int, resident func(unit uint32, file int) int64) *Dealer {
	d := &Dealer{plan: p, Units: newUnits(p, resident)}
	for i := range consumers {
		d.consumers = append(d.consumers, &consumer{d: d, index: uint32(i)})
	}
	return d
}

// Effects returns those that have come up since the last call.
func (d *Dealer) Effects() []Effect {
	if d.returned {
		d.do(Return, 0, 0, 0)
	}
	list := d.effects
	d.effects, d.returned = nil, false
	return list
}

func (d *Dealer) do(act Act, consumer, unit uint32, position int64) {
	d.effects = append(d.effects, Effect{act, consumer, unit, position})
}

func (d *Dealer) set(id uint32, to unitState) {
	d.Units.set(id, to)
	d.returned = d.returned || to == todo
}

// Err returns why nothing is dealt any more, nil as long as something is.
func (d *Dealer) Err() error { return d.err }

// Fail ends the dealing, and tells whether it had not ended before.
func (d *Dealer) Fail(err error) bool {
	if d.err != nil {
		return false
	}
	d.err = err
	return true
}

// Present counts the consumers that are connected.
func (d *Dealer) Present() int {
	n := 0
	for _, c := range d.consumers {
		if c.linked {
			n++
		}
	}
	return n
}

// Hungry tells whether a consumer waits for a unit that has to be brought.
func (d *Dealer) Hungry() bool {
	return d.err == nil && d.unknown == 0 && len(d.waiting)+len(d.Units.fetches) > 0
}

// Ready returns the number of units that are in memory and belong to nobody.
func (d *Dealer) Ready() int { return len(d.ready) }

// Wanted tells whether a unit has to be brought at all.
func (d *Dealer) Wanted(id uint32) bool {
	return d.err == nil && (d.Units.Todo(id) || d.Units.Fetched(id))
}

// Arrive takes note that a complete unit is in memory.
func (d *Dealer) Arrive(id uint32) {
	switch {
	case d.handFetched(id):
	case d.err != nil || d.Units.state[id] != todo || d.Present() == 0:
		d.do(Discard, 0, id, 0)
	default:
		d.set(id, ready)
		d.ready = append(d.ready, id)
	}
}

// FoundEmpty takes note that a unit has no records.
func (d *Dealer) FoundEmpty(id uint32) {
	if !d.handFetched(id) && d.Units.state[id] == todo {
		d.set(id, empty)
		d.emptyBytes += d.plan.UnitBytes(id)
	}
}

// handFetched hands a unit to the consumer that waits for this very one, if one does.
func (d *Dealer) handFetched(id uint32) bool {
	f := d.Units.fetches[id]
	if f.c == nil {
		return false
	}
	delete(d.Units.fetches, id)
	f.c.hand(Hand, id, f.position)
	return true
}

// Release lets go of all units that nobody has been given: they have to be brought
// again.
func (d *Dealer) Release() {
	units := d.ready
	d.ready = nil
	for _, id := range units {
		d.do(Discard, 0, id, 0)
		d.set(id, todo)
	}
}

// Deal gives units to the consumers that wait. It is called after whatever may let
// them have some. False: nothing is dealt any more, or not yet.
func (d *Dealer) Deal() bool {
	if d.unknown > 0 {
		d.settle()
	}
	if d.err != nil || d.unknown > 0 {
		return false
	}
	for len(d.waiting) > 0 && d.give(d.waiting[0]) {
		d.waiting = d.waiting[1:]
	}
	return true
}

// give tries to give the next unit to c, or tells it that there is none.
func (d *Dealer) give(c *consumer) bool {
	if id, whole := d.Units.pickWhole(); whole {
		c.lease(id)
		d.bring(id, c, 0)
	} else if len(d.ready) > 0 {
		id, d.ready = d.ready[0], d.ready[1:]
		c.lease(id)
		c.hand(Hand, id, 0)
	} else if d.Units.Undealt() == 0 && !d.returning() {
		d.do(End, c.index, 0, 0)
	} else {
		return false
	}
	c.asked = false
	return true
}

// returning tells whether an attempt is being given up, or is about to be, the units of which come back.
func (d *Dealer) returning() bool {
	return slices.ContainsFunc(d.consumers, func(c *consumer) bool { return c.fenced || c.failing })
}

// bring has a unit brought that c has on its list, from a position on.
func (d *Dealer) bring(id uint32, c *consumer, position int64) {
	switch f := &d.plan.Files[d.plan.FileOf(id)]; {
	case d.plan.Rule.Split == Files:
		c.hand(Hand, id, 0)
	case f.Codec != protocol.Plain:
		c.hand(Read, id, position)
	default:
		d.Units.fetches[id] = fetch{c, position}
		d.do(Fetch, c.index, id, position)
	}
}

// reclaim makes the units of an attempt anybody's again.
func (d *Dealer) reclaim(units []uint32) {
	for _, id := range units {
		if is := d.Units.state[id]; is == leased || is == done {
			d.set(id, todo)
		}
	}
}
