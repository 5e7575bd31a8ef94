package stream

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"headrace/disk"
	"headrace/pagecache"
)

const (
	// tailStep is how much is read at first behind an extent, to find the end of
	// its last record.
	tailStep = 64 << 10
	// parallelReads is how many blocks of an extent are asked for at a time, in
	// order, where seeking costs nothing. A disk that seeks gets one.
	parallelReads = 4
	// seeklessSpeed, in bytes per second, is more than any disk with a head reads.
	// Virtual disks often say that they have one.
	seeklessSpeed = 500e6
)

// read reads an extent and hands its units out as they come.
func (sc *scan) read(x *extent, reader *disk.Reader) error {
	if x.warm {
		sc.trim(x)
	} else {
		turn, err := reader.Begin(sc.e.ctx)
		if err != nil {
			return err
		}
		began := time.Now()
		defer func() {
			n := int64(x.to-x.from) * int64(sc.key.block)
			turn.End(n)
			sc.learn(n, time.Since(began))
		}()
	}
	prev, err := sc.before(x)
	if err != nil {
		return err
	}
	arrivals := sc.readBlocks(x)
	for i := x.from; i < x.to; i++ {
		s := x.slots[0]
		data := s.bytes()[:sc.length(i)]
		if err := <-arrivals[i-x.from]; err != nil {
			for _, later := range arrivals[i-x.from+1:] {
				<-later // nobody writes into the slots any more
			}
			return err
		}
		sc.place(x, i, data, prev)
		prev = tail(prev, data)
		x.slots = x.slots[1:]
	}
	return sc.readTail(x, prev)
}

// learn takes note of how fast an extent was read.
func (sc *scan) learn(n int64, took time.Duration) {
	if n >= 8*maxBlock && float64(n) > seeklessSpeed*took.Seconds() {
		sc.seekless = true
	}
}

// trim shortens an extent of blocks that were in memory to those before the first
// that is not any more.
func (sc *scan) trim(x *extent) {
	keep := x.from
	for ; keep < x.to; keep++ {
		off, n := int64(keep)*int64(sc.key.block), int64(sc.length(keep))
		if have, err := sc.e.cfg.Cache.Resident(sc.f, pagecache.Range{Off: off, Len: n}); err != nil || have < n {
			break
		}
	}
	if keep == x.to {
		return
	}
	sc.e.mu.Lock()
	defer sc.e.mu.Unlock()
	sc.resident[keep] = false // it is read from the disk, in its turn
	for i := keep; i < x.to; i++ {
		sc.claimed[i] = false
	}
	x.to = keep
	sc.cond.Broadcast()
}

// length is that of block i.
func (sc *scan) length(i int) int {
	return int(min(int64(sc.key.block), sc.size-int64(i)*int64(sc.key.block)))
}

// tail is the last bytes of what has been read, enough for every delimiter.
func tail(prev, data []byte) []byte {
	if len(data) >= maxDelimiter {
		return append([]byte(nil), data[len(data)-maxDelimiter:]...)
	}
	return append(append([]byte(nil), prev...), data...)
}

// before is what comes before the extent.
func (sc *scan) before(x *extent) ([]byte, error) {
	n := 0
	for _, t := range x.takers {
		n = max(n, t.rule.context())
	}
	off := int64(x.from) * int64(sc.key.block)
	prev := make([]byte, min(int64(n), off))
	return prev, sc.readAt(prev, off-int64(len(prev)))
}

// readBlocks begins to read the blocks of an extent into its slots. Each arrival
// comes when its block is there.
func (sc *scan) readBlocks(x *extent) []chan error {
	n := x.to - x.from
	arrivals := make([]chan error, n)
	for i := range arrivals {
		arrivals[i] = make(chan error, 1)
	}
	slots := x.slots
	depth := 1
	if x.warm || !sc.device.Rotational || sc.seekless {
		depth = parallelReads
	}
	var next atomic.Int64
	for range min(depth, n) {
		sc.e.work.Go(func() {
			for {
				k := int(next.Add(1)) - 1
				if k >= n {
					return
				}
				i := x.from + k
				arrivals[k] <- sc.readAt(slots[k].bytes()[:sc.length(i)], int64(i)*int64(sc.key.block))
			}
		})
	}
	return arrivals
}

func (sc *scan) readAt(p []byte, off int64) error {
	if len(p) == 0 {
		return nil
	}
	return readFull(sc.f, sc.file, p, off)
}

// place hands block i, or the head of it, to the takers.
func (sc *scan) place(x *extent, i int, data, prev []byte) {
	off := int64(i) * int64(sc.key.block)
	cuts := make([]int, len(x.takers))
	for k, t := range x.takers {
		cuts[k] = t.rule.cut(off, prev, data)
	}
	sc.placeCut(x, i, data, prev, cuts)
}

// placeCut is place when it is known where the takers cut.
func (sc *scan) placeCut(x *extent, i int, data, prev []byte, cuts []int) {
	last := int64(i)*int64(sc.key.block)+int64(len(data)) == sc.size
	sc.e.mu.Lock()
	defer sc.e.mu.Unlock()
	s := x.slots[0]
	for k, t := range x.takers {
		if t.a.detached {
			if t.pending != nil {
				t.pending.cancel()
				t.pending = nil
			}
			continue
		}
		t.goOn(s, len(data), cuts[k], last, prev, data)
		if i < x.to {
			t.begin(sc, i, s, len(data), cuts[k], last, prev, data)
		}
		if t.pending != nil && t.pending.bytes > sc.longest() {
			t.pending.cancel()
			t.a.s.fail(fmt.Errorf("%s: the record at or before byte %d is longer than the buffer can hold (%d bytes); give a larger buffer, or another split",
				sc.file.path, t.pending.offset+t.pending.bytes, sc.longest()))
			t.pending = nil
		}
	}
	s.drop()
}

// longest is the length of the longest unit that fits.
func (sc *scan) longest() int64 { return int64(max(1, sc.arena.n-3)) * int64(sc.key.block) }

// goOn gives the unit that was begun in earlier blocks its part of this one.
func (t *taker) goOn(s *slot, n, cut int, last bool, prev, data []byte) {
	u := t.pending
	if u == nil {
		return
	}
	if cut >= 0 {
		n = cut
	}
	u.add(s, 0, n)
	if cut >= 0 || last {
		u.unterminated = cut < 0 && !t.rule.terminated(tail(prev, data))
		t.pending = nil
		t.a.s.arrived(u)
	}
}

// begin begins unit i, unless no record starts in its block.
func (t *taker) begin(sc *scan, i int, s *slot, n, cut int, last bool, prev, data []byte) {
	id := t.a.first + uint32(i)
	if !t.a.s.stillWanted(id) {
		return
	}
	if cut < 0 || cut >= n {
		t.a.s.foundEmpty(id)
		return
	}
	u := &unit{id: id, file: t.a.file, offset: int64(i)*int64(sc.key.block) + int64(cut)}
	u.add(s, cut, n-cut)
	if last {
		u.unterminated = !t.rule.terminated(tail(prev, data))
		t.a.s.arrived(u)
		return
	}
	t.pending = u
}

// readTail reads on behind an extent until every unit in it has its end.
func (sc *scan) readTail(x *extent, prev []byte) error {
	for i := x.to; x.pending() && i < sc.blocks; i++ {
		if len(x.slots) == 0 {
			s := sc.oneSlot(x.warm)
			if s == nil {
				return errors.New("the stream has ended")
			}
			x.slots = append(x.slots, s)
		}
		full := sc.length(i)
		have := 0
		for n := min(tailStep, full); ; n = min(4*n, full) {
			buf := x.slots[0].bytes()[:n]
			if err := sc.readAt(buf[have:], int64(i)*int64(sc.key.block)+int64(have)); err != nil {
				return err
			}
			have = n
			cuts, found := x.cuts(int64(i)*int64(sc.key.block), prev, buf)
			if !found && n < full {
				continue
			}
			sc.placeCut(x, i, buf, prev, cuts)
			prev = tail(prev, buf)
			break
		}
		x.slots = x.slots[1:]
	}
	return nil
}

// cuts is where the takers cut, and whether that ends every pending unit.
func (x *extent) cuts(off int64, prev, data []byte) (cuts []int, found bool) {
	found = true
	cuts = make([]int, len(x.takers))
	for k, t := range x.takers {
		cuts[k] = -1
		if t.pending != nil {
			cuts[k] = t.rule.cut(off, prev, data)
			found = found && cuts[k] >= 0
		}
	}
	return cuts, found
}

func (x *extent) pending() bool {
	for _, t := range x.takers {
		if t.pending != nil {
			return true
		}
	}
	return false
}

// oneSlot waits for a slot; nil: nobody reads here any more.
func (sc *scan) oneSlot(warm bool) *slot {
	sc.e.mu.Lock()
	defer sc.e.mu.Unlock()
	for len(sc.arena.free) == 0 {
		if len(sc.attached) == 0 || sc.e.closed {
			return nil
		}
		sc.cond.Wait()
	}
	return sc.takeFor(warm)
}
