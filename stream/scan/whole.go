package scan

import (
	"headrace/disk"
	"headrace/stream/deal"
	"headrace/stream/source"
)

const (
	// wholeSlot is how a compressed file is read; its consumer gets between
	// minWholeSlots and maxWholeSlots of them ahead.
	wholeSlot     = 1 << 20
	minWholeSlots = 4
	maxWholeSlots = 32
)

// wholeReader reads one compressed file for one consumer.
type wholeReader struct {
	slotPool
	f    *Feed
	u    *Unit
	file *deal.File
	news func(*Unit)
}

// Read reads a compressed file from a position on, in bytes. News is called with the
// lock held for each piece that has come, and at the end, until the unit is cancelled.
func (f *Feed) Read(id uint32, position int64, news func(*Unit)) *Unit {
	i := f.Plan.FileOf(id)
	r := &wholeReader{
		slotPool: newSlotPool(&f.set.memory, f.Owner.UID), f: f, file: &f.Plan.Files[i], news: news,
		u: &Unit{ID: id, File: i, Bytes: position, Freed: position},
	}
	f.set.work.Go(r.run)
	return r.u
}

// gone tells whether nobody wants the file any more.
func (r *wholeReader) gone() bool { return r.u.cancelled || r.f.set.closed }

func (r *wholeReader) run() {
	err := r.read()
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	if err != nil && !r.gone() {
		r.f.taker.Failed(err)
	}
	r.end()
}

func (r *wholeReader) read() error {
	f, err := r.f.open(r.file, r.gone)
	if err != nil {
		return err
	}
	defer f.Close()
	device, _, err := f.Device()
	if err != nil {
		return err
	}
	n := int(r.f.Buffer) / r.f.Consumers / wholeSlot
	n = max(minWholeSlots, min(n, maxWholeSlots))
	if err := r.equip(wholeSlot, n, r.gone); err != nil {
		return err
	}
	reader := r.f.set.cfg.Source.Reader(r.f.Owner.UID, device, "stream: "+r.file.Path)
	defer reader.Close()
	at := r.u.Bytes
	for at < r.file.Size {
		slots := r.claim(r.file.Size - at)
		if slots == nil {
			return nil
		}
		turn, err := reader.Begin(r.f.set.ctx)
		if err != nil {
			r.drop(slots)
			return err
		}
		n, err := r.readExtent(f, at, slots, turn)
		if err == nil {
			err = r.f.learn(f, r.file)
		}
		turn.End(n)
		if err != nil {
			return err
		}
		at += n
	}
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	if !r.u.cancelled {
		r.u.Ended = true
		r.news(r.u)
	}
	return nil
}

// claim waits for half of the memory, or as much as is needed; nil: nobody wants
// the file any more.
func (r *wholeReader) claim(left int64) (slots []*slot) {
	r.mem.mu.Lock()
	defer r.mem.mu.Unlock()
	need := min(r.arena.n/2, int((left+wholeSlot-1)/wholeSlot))
	for len(r.arena.free) < need && !r.gone() {
		r.cond.Wait()
	}
	if r.gone() {
		return nil
	}
	return r.takeSome(need)
}

// readExtent fills slots and sends each on.
func (r *wholeReader) readExtent(f source.File, at int64, slots []*slot, turn *disk.Turn) (total int64, err error) {
	for i, s := range slots {
		n := min(wholeSlot, r.file.Size-at)
		if n > 0 {
			err = f.ReadFull(s.bytes()[:n], at)
		}
		if n <= 0 || err != nil {
			r.drop(slots[i:])
			return total, err
		}
		turn.Progress()
		r.mem.mu.Lock()
		if !r.u.cancelled {
			r.u.add(s, 0, int(n))
			r.news(r.u)
		}
		s.drop()
		r.mem.mu.Unlock()
		at += n
		total += n
	}
	return total, nil
}
