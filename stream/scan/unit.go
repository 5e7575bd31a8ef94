package scan

import (
	"os"

	"headrace/stream/protocol"
)

// Area is what pieces lie in: shared memory, or a file that consumers read
// themselves. No two have the same ID.
type Area struct {
	ID     uint32
	Shared *os.File
	// Announce tells a consumer of it; a descriptor goes with it.
	Announce protocol.Message
}

// slot is one block in memory. It has its place in the arena until refs is lent.
type slot struct {
	a    *arena
	off  int
	refs int
	// input, if not nil, has the bytes, from at on, and the memory stays untouched:
	// the slot only counts for how far ahead is read. Pieces that consumers have, which lent
	// counts, need no place.
	input *input
	at    int64
	lent  int
	// freed is called when the place has become free, with the lock held; then it is nil.
	freed func()
}

func (s *slot) bytes() []byte { return s.a.mem[s.off : s.off+s.a.slot] }

// drop takes a reference away.
func (s *slot) drop() {
	s.refs--
	if s.freed != nil {
		s.vacate()
	} else if s.refs == 0 {
		s.input.drop()
	}
}

// vacate gives the place back if nobody needs it any more.
func (s *slot) vacate() {
	if s.refs > s.lent {
		return
	}
	if s.refs > 0 {
		s.input.refs++
	}
	if s.input == nil {
		s.a.used = max(s.a.used, s.off+s.a.slot)
	}
	s.a.free = append(s.a.free, int32(s.off/s.a.slot))
	freed := s.freed
	s.freed = nil
	freed()
}

// Piece is a part of a unit: N bytes. It holds its memory.
type Piece struct {
	slot *slot
	off  int
	N    int
	lent bool
}

func (p Piece) drop() {
	if p.lent {
		p.slot.lent--
	}
	p.slot.drop()
}

// Location returns the area that the piece lies in, and its offset there.
func (p Piece) Location() (in *Area, at uint64) {
	if s := p.slot; s.input != nil {
		return &s.input.Area, uint64(s.at + int64(p.off))
	}
	return &p.slot.a.Area, uint64(p.slot.off + p.off)
}

// Rest returns the piece without its first bytes.
func (p Piece) Rest(skip int64) Piece {
	p.off += int(skip)
	p.N -= int(skip)
	return p
}

// Unit is a unit in memory, or on its way. The lock guards it.
type Unit struct {
	ID   uint32
	File int // in the plan
	// Offset is where it begins in its file.
	Offset int64
	Pieces []Piece
	// Bytes counts all pieces that there have been, Freed those that are gone.
	Bytes, Freed int64
	// Ended: all pieces have come. Unterminated: the last record lacks its delimiter.
	Ended, Unterminated bool
	// cancelled tells who brings it that nobody wants it any more.
	cancelled bool
}

func (u *Unit) add(s *slot, off, n int) {
	if n == 0 {
		return
	}
	s.refs++
	u.Pieces = append(u.Pieces, Piece{slot: s, off: off, N: n})
	u.Bytes += int64(n)
}

// Lend takes note that a consumer has the unit, all of which has come: where it lies in a file it
// takes no memory, so that others can be read ahead in its place.
func (u *Unit) Lend() {
	for i := range u.Pieces {
		if p := &u.Pieces[i]; p.slot.input != nil {
			p.lent = true
			p.slot.lent++
			p.slot.vacate()
		}
	}
}

// Free lets go of all pieces that end at or before position.
func (u *Unit) Free(position int64) {
	for len(u.Pieces) > 0 && u.Freed+int64(u.Pieces[0].N) <= position {
		u.Freed += int64(u.Pieces[0].N)
		u.Pieces[0].drop()
		u.Pieces = u.Pieces[1:]
	}
}

// Cancel lets go of the unit.
func (u *Unit) Cancel() {
	u.cancelled = true
	u.Free(u.Bytes)
}
