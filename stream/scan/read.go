package scan

import (
	"errors"
	"fmt"
	"time"

	"headrace/disk"
	"headrace/pagecache"
	"headrace/stream/deal"
)

const (
	// firstLook is how much of a block is read at first to find where its first
	// record starts.
	firstLook = 16 << 10
	// seeklessSpeed, in bytes per second, is more than any disk with a head reads.
	// Virtual disks often say that they have one.
	seeklessSpeed = 500e6
	// trustFor is after how many extents it is looked again whether a disk reads that
	// fast: there may have been a cache in front of it.
	trustFor = 15
)

// read reads an extent and hands its units out as they come.
func (sc *scan) read(x *extent, reader *disk.Reader) error {
	if x.warm {
		sc.trim(x)
		return sc.deliver(x, true)
	}
	turn, err := reader.Begin(sc.set.ctx)
	if err != nil {
		return err
	}
	n := min(sc.offset(x.to), sc.size) - sc.offset(x.from)
	x.reader, x.turn, x.bytes = reader, turn, n
	defer func() { x.turn.End(x.bytes) }()
	if err := sc.readInTurn(x, n); err != nil {
		return err
	}
	return sc.learn(x)
}

// learn has all who read the file know its end.
func (sc *scan) learn(x *extent) error {
	if err := sc.opener.learn(sc.input.File, sc.file); err != nil {
		return err
	}
	x.turn.Progress()
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	for _, a := range sc.attached {
		a.ends(&a.Plan.Files[a.file], sc.file.End)
	}
	return nil
}

// readInTurn reads an extent of n bytes when it is the scan's turn at the disk.
func (sc *scan) readInTurn(x *extent, n int64) error {
	if !sc.seeks {
		return sc.deliver(x, true)
	}
	if sc.trusted > 0 {
		sc.trusted--
		return sc.deliver(x, true)
	}
	cold := sc.cold(x, n)
	began := time.Now()
	if err := sc.deliver(x, false); err != nil {
		return err
	}
	if took := time.Since(began); cold && n >= 8*deal.MaxBlock && float64(n) > seeklessSpeed*took.Seconds() {
		sc.trusted = trustFor
	}
	return nil
}

// deliver reads an extent in place if that is good and possible, else into memory.
func (sc *scan) deliver(x *extent, inPlace bool) error {
	switch {
	case x.from == x.to:
		return nil
	case inPlace && sc.input.Area.Shared != nil:
		return sc.refer(x)
	}
	return sc.fetch(x)
}

// cold tells whether an extent of n bytes has to be read from the disk.
func (sc *scan) cold(x *extent, n int64) bool {
	have, err := sc.input.Resident(pagecache.Range{Off: sc.offset(x.from), Len: n})
	return err == nil && have < n/8
}

// trim shortens an extent of blocks that were in memory to those before the first
// that is not any more.
func (sc *scan) trim(x *extent) {
	keep := x.from
	for ; keep < x.to; keep++ {
		off, n := sc.offset(keep), int64(sc.length(keep))
		if have, err := sc.input.Resident(pagecache.Range{Off: off, Len: n}); err != nil || have < n {
			break
		}
	}
	if keep == x.to {
		return
	}
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	sc.resident[keep] = false // it is read from the disk, in its turn
	x.to = keep
	sc.cond.Broadcast()
}

// length returns that of block i.
func (sc *scan) length(i int) int { return int(min(int64(sc.key.block), sc.size-sc.offset(i))) }

// offset returns where block i begins, at the end of the file the first one behind it.
func (sc *scan) offset(i int) int64 { return int64(i) * int64(sc.key.block) }

// tail returns the last bytes of what has been read, enough for every delimiter.
func tail(prev, data []byte) []byte {
	if len(data) >= deal.MaxDelimiter {
		return append([]byte(nil), data[len(data)-deal.MaxDelimiter:]...)
	}
	return append(append([]byte(nil), prev...), data...)
}

// fetch reads an extent into shared memory.
func (sc *scan) fetch(x *extent) error {
	prev, err := sc.before(x, x.from)
	if err != nil {
		return err
	}
	for i := x.from; i < x.to; i++ {
		data := x.slots[0].bytes()[:sc.length(i)]
		if err := sc.readAt(x, data, sc.offset(i)); err != nil {
			return err
		}
		cuts, _ := x.cuts(i, sc.offset(i), prev, data)
		prev = tail(prev, data)
		sc.place(x, i, len(data), cuts, prev)
	}
	return sc.readTail(x, nil)
}

// refer hands the units of an extent out as places in the file, which consumers
// read themselves, so that nobody copies the bytes. All that is read here is where
// records start. It is for what needs no order: blocks in memory, and disks that do
// not seek, which several readers use better than one.
func (sc *scan) refer(x *extent) error {
	for i := x.from; i < x.to && !x.warm; i++ { // all at once: each takes its time
		from := max(0, sc.offset(i)-deal.MaxDelimiter)
		sc.input.ReadAhead(from, sc.offset(i)+firstLook-from)
	}
	heads := make([]byte, firstLook)
	for i := x.from; i < x.to; i++ {
		x.slots[0].input, x.slots[0].at = sc.input, sc.offset(i)
		_, cuts, _, err := sc.look(x, i, heads)
		if err != nil {
			return err
		}
		end, err := sc.ending(x, i)
		if err != nil {
			return err
		}
		sc.place(x, i, sc.length(i), cuts, end)
	}
	return sc.readTail(x, heads)
}

// ending returns the last bytes of the file if block i is its last one.
func (sc *scan) ending(x *extent, i int) ([]byte, error) {
	if i < sc.blocks-1 {
		return nil, nil
	}
	end := make([]byte, min(deal.MaxDelimiter, sc.size))
	return end, sc.readAt(x, end, sc.size-int64(len(end)))
}

// readTail reads on behind an extent until every unit in it has its end: into
// shared memory, or only to look if there is a buffer for that.
func (sc *scan) readTail(x *extent, heads []byte) error {
	for i := x.to; x.pending() && i < sc.blocks; i++ {
		if len(x.slots) == 0 {
			s, err := sc.tailSlot(x)
			if err != nil {
				return err
			}
			x.slots = append(x.slots, s)
		}
		s, buf := x.slots[0], heads
		if buf == nil {
			buf = s.bytes()
		} else {
			s.input, s.at = sc.input, sc.offset(i)
		}
		n, cuts, end, err := sc.look(x, i, buf)
		if err != nil {
			return err
		}
		sc.place(x, i, n, cuts, end)
	}
	return nil
}

// look reads the head of a block: the first n bytes, which show where those takers
// cut that wait for it, and end with end.
func (sc *scan) look(x *extent, i int, buf []byte) (n int, cuts []int, end []byte, err error) {
	prev, err := sc.before(x, i)
	full := sc.length(i)
	have := 0
	for n = min(firstLook, full); err == nil; n = min(4*n, full) {
		if n > len(buf) {
			buf = append(buf[:have:have], make([]byte, full-have)...)
		}
		if err = sc.readAt(x, buf[have:n], sc.offset(i)+int64(have)); err != nil {
			break
		}
		have = n
		cuts, found := x.cuts(i, sc.offset(i), prev, buf[:n])
		if found || n == full {
			return n, cuts, tail(prev, buf[:n]), nil
		}
	}
	return 0, nil, nil, err
}

// cuts returns where the takers cut in the head of block i, -1 for those that do not,
// or have no use for it, and whether more of the block would not change that.
func (x *extent) cuts(i int, off int64, prev, data []byte) (cuts []int, found bool) {
	found = true
	cuts = make([]int, len(x.takers))
	for k, t := range x.takers {
		cuts[k] = -1
		if i < x.to || t.pending != nil {
			cuts[k] = t.rule.Cut(off, prev, data)
			found = found && cuts[k] >= 0
		}
	}
	return cuts, found
}

// before returns what comes before block i, as much of it as the takers need.
func (sc *scan) before(x *extent, i int) ([]byte, error) {
	n := 0
	for _, t := range x.takers {
		n = max(n, t.rule.Context())
	}
	prev := make([]byte, min(int64(n), sc.offset(i)))
	return prev, sc.readAt(x, prev, sc.offset(i)-int64(len(prev)))
}

func (sc *scan) readAt(x *extent, p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	err := sc.input.ReadFull(p, off)
	if x.turn != nil {
		x.turn.Progress()
	}
	return err
}

// place hands the first n bytes of block i, which end with end, to the takers.
func (sc *scan) place(x *extent, i, n int, cuts []int, end []byte) {
	last := sc.offset(i)+int64(n) == sc.size
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	s := x.slots[0]
	x.slots = x.slots[1:]
	for k, t := range x.takers {
		if t.a.detached {
			if t.pending != nil {
				t.pending.Cancel()
				t.pending = nil
			}
			continue
		}
		t.goOn(s, n, cuts[k], last, end)
		if i < x.to {
			t.begin(sc, i, s, n, cuts[k], last, end)
		}
		if t.pending != nil && t.pending.Bytes > sc.longest() {
			t.pending.Cancel()
			t.a.taker.Failed(fmt.Errorf("%s: the record at or before byte %d is longer than the buffer can hold (%d bytes); give a larger buffer, or another split",
				t.a.Plan.Files[t.a.file].Path, t.pending.Offset+t.pending.Bytes, sc.longest()))
			t.pending = nil
		}
	}
	s.drop()
}

// longest returns the length of the longest unit that fits.
func (sc *scan) longest() int64 { return int64(max(1, sc.arena.n-3)) * int64(sc.key.block) }

// goOn gives the unit that was begun in earlier blocks its part of this one.
func (t *taker) goOn(s *slot, n, cut int, last bool, end []byte) {
	u := t.pending
	if u == nil {
		return
	}
	if cut >= 0 {
		n = cut
	}
	u.add(s, 0, n)
	if cut >= 0 || last {
		u.Unterminated = cut < 0 && !t.rule.Terminated(end)
		t.pending = nil
		t.a.arrived(u)
	}
}

// begin begins unit i, unless no record starts in its block.
func (t *taker) begin(sc *scan, i int, s *slot, n, cut int, last bool, end []byte) {
	id := t.a.first + uint32(i)
	if !t.a.deal.Wanted(id) {
		return
	}
	if cut < 0 || cut >= n {
		t.a.taker.Empty(id)
		return
	}
	u := &Unit{ID: id, File: t.a.file, Offset: sc.offset(i) + int64(cut)}
	u.add(s, cut, n-cut)
	if last {
		u.Unterminated = !t.rule.Terminated(end)
		t.a.arrived(u)
		return
	}
	t.pending = u
}

func (x *extent) pending() bool {
	for _, t := range x.takers {
		if t.pending != nil {
			return true
		}
	}
	return false
}

var (
	errEnded = errors.New("the stream has ended")
	// errYields: the units whose end was not found yet are to be read again later.
	errYields = errors.New("another part of the file goes first")
)

// tailSlot returns a slot for what comes behind an extent. While there is none, others
// have the disk: slots become free only when consumers like.
func (sc *scan) tailSlot(x *extent) (*slot, error) {
	if s := sc.freeSlot(x.warm); s != nil {
		return s, nil
	}
	if x.turn != nil {
		x.turn.End(x.bytes)
		x.bytes = 0
	}
	s, err := sc.awaitSlot(x.warm)
	if err != nil || x.turn == nil {
		return s, err
	}
	turn, err := x.reader.Begin(sc.set.ctx)
	if err != nil {
		sc.drop([]*slot{s})
		return nil, err
	}
	x.turn = turn
	return s, nil
}

// freeSlot takes a slot if there is one.
func (sc *scan) freeSlot(warm bool) *slot {
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	if len(sc.arena.free) == 0 {
		return nil
	}
	return sc.takeFor(warm)
}

// awaitSlot waits for a slot. One filler at a time does: of two, each could have what the
// other waits for.
func (sc *scan) awaitSlot(warm bool) (*slot, error) {
	sc.set.mu.Lock()
	defer sc.set.mu.Unlock()
	for len(sc.arena.free) == 0 {
		switch {
		case sc.gone():
			return nil, errEnded
		case sc.tailing:
			return nil, errYields
		}
		sc.tailing = true
		sc.waitForRoom()
		sc.tailing = false
	}
	sc.cond.Broadcast() // who waits because this one did
	return sc.takeFor(warm), nil
}
