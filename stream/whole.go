package stream

import (
	"fmt"
	"os"
	"time"

	"headrace/disk"
	"headrace/internal/linux"
	"headrace/pagecache"
)

const (
	// wholeSlot is how a compressed file is read; its consumer gets between
	// minWholeSlots and maxWholeSlots of them ahead.
	wholeSlot     = 1 << 20
	minWholeSlots = 4
	maxWholeSlots = 32
	// window is how many of the next whole files are looked at for one that is in
	// memory. Those are followed.
	window = 2048
	// followStep bounds how many files are opened at a time to be followed.
	followStep = 256
	// followInterval is how often residency is looked at.
	followInterval = time.Second
)

// pickWhole picks the next file that is dealt as one unit: of the next ones the
// one of which most is in memory (quartet, section 4.2), else the first. Of several
// of which as much is, the last: where an earlier reader left its last files, memory
// is short, and the kernel takes the first of them next. To read those in their
// order would be to come too late to each.
func (q *source) pickWhole() (id uint32, ok bool) {
	w := &q.wholes
	if w.todo == 0 {
		return 0, false
	}
	for q.s.state[w.units[w.next]] != todo {
		w.next++
	}
	best, share := w.next, float64(-1)
	seen := 0
	for i := w.next; i < len(w.units) && seen < window; i++ {
		if q.s.state[w.units[i]] != todo {
			continue
		}
		if seen++; q.s.e.cfg.NoResidentFirst {
			break
		}
		if now := q.residentShare(w.units[i]); now > share || now == share && now > 0 {
			best, share = i, now
		}
	}
	id = w.units[best]
	q.follow.drop(id)
	return id, true
}

// residentShare is the part of a whole file that is in memory, as far as is
// known.
func (q *source) residentShare(id uint32) float64 {
	f := &q.s.plan.files[q.s.plan.fileOf(id)]
	have := f.resident
	if w := q.follow.watched(id); w != nil {
		have = w.Resident()
	}
	if f.Size == 0 {
		return 1
	}
	return float64(have) / float64(f.Size)
}

// followed are files whose residency is followed, by unit. The engine's lock
// guards it; nil has none.
type followed struct{ files map[uint32]pagecache.Watched }

func (f *followed) watched(id uint32) pagecache.Watched {
	if f == nil {
		return nil
	}
	return f.files[id]
}

func (f *followed) drop(id uint32) {
	if w := f.watched(id); w != nil {
		w.Close()
		delete(f.files, id)
	}
}

// unfollow ends the following of all files.
func (q *source) unfollow() {
	if q.follow != nil {
		for id := range q.follow.files {
			q.follow.drop(id)
		}
		q.follow = nil
	}
}

// followResidency keeps what is known of whole files that are to be dealt up to
// date.
func (e *Engine) followResidency() {
	if e.cfg.NoResidentFirst {
		return
	}
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		select {
		case <-e.ctx.Done():
			return
		case <-tick.C:
		}
		if e.followMore() {
			if err := e.cfg.Cache.Refresh(e.ctx); err != nil && e.ctx.Err() == nil {
				e.cfg.Log.Warn("find out what is in memory", "err", err)
			}
		}
	}
}

// followMore begins to follow the next files of streams that deal whole ones. It
// tells whether any is followed.
func (e *Engine) followMore() bool {
	any := false
	for _, s := range e.dealers() {
		e.mu.Lock()
		ids := s.source.toFollow()
		e.mu.Unlock()
		for _, id := range ids {
			e.followUnit(s, id)
		}
		e.mu.Lock()
		any = any || s.source.follow != nil && len(s.source.follow.files) > 0
		e.mu.Unlock()
	}
	return any
}

// dealers are the streams that have whole files to deal and consumers for them.
func (e *Engine) dealers() (list []*stream) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, s := range e.streams {
		if s.err == nil && s.source.wholes.todo > 1 && s.attachedCount() > 0 {
			list = append(list, s)
		}
	}
	return list
}

// toFollow are units in the window that are not followed yet.
func (q *source) toFollow() (ids []uint32) {
	w := &q.wholes
	seen := 0
	for i := w.next; i < len(w.units) && seen < window && len(ids) < followStep; i++ {
		if id := w.units[i]; q.s.state[id] == todo {
			seen++
			if q.follow.watched(id) == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

func (e *Engine) followUnit(s *stream, id uint32) {
	file := &s.plan.files[s.plan.fileOf(id)]
	f, err := s.openFile(file)
	if err != nil {
		return // whoever gets the file will say so
	}
	defer f.Close()
	w, err := e.cfg.Cache.Watch(f)
	if err != nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed || s.err != nil || s.state[id] != todo || s.attachedCount() == 0 {
		w.Close()
		return
	}
	if s.source.follow == nil {
		s.source.follow = &followed{files: map[uint32]pagecache.Watched{}}
	}
	s.source.follow.files[id] = w
}

// openFile opens a file of the plan with its owner's rights and sees that it is
// the one that was meant.
func (s *stream) openFile(file *file) (opened *os.File, err error) {
	err = linux.AsUser(s.spec.Owner, func() error {
		f, id, err := openInput(file.path)
		if err != nil {
			return err
		}
		if why := file.Changed(id); why != "" {
			f.Close()
			return fmt.Errorf("%s %s since the stream was opened", file.path, why)
		}
		opened = f
		return nil
	})
	return opened, err
}

// wholeReader reads one compressed file for one consumer.
type wholeReader struct {
	room
	s    *stream
	c    *consumer
	u    *unit
	file *file
}

// bringWhole reads a compressed file from a position on and hands its pieces out
// as they come.
func (q *source) bringWhole(id uint32, f int, c *consumer, position int64) {
	r := &wholeReader{
		room: newRoom(q.s.e, q.s.spec.Owner.UID), s: q.s, c: c, file: &q.s.plan.files[f],
		u: &unit{id: id, file: f, bytes: position, freed: position},
	}
	c.hand(r.u, position)
	q.s.e.work.Go(r.run)
}

func (r *wholeReader) run() {
	err := r.read()
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if err != nil && !r.u.cancelled && !r.e.closed {
		r.s.fail(err)
	}
	r.end()
}

func (r *wholeReader) read() error {
	f, err := r.s.openFile(r.file)
	if err != nil {
		return err
	}
	defer f.Close()
	device, err := r.e.cfg.Devices.Of(f)
	if err != nil {
		return err
	}
	n := int(r.s.spec.buffer()) / r.s.spec.Consumers / wholeSlot
	r.e.mu.Lock()
	err = r.equip(wholeSlot, max(minWholeSlots, min(n, maxWholeSlots)))
	r.e.mu.Unlock()
	if err != nil {
		return err
	}
	reader := r.e.cfg.Disks.Reader(device, disk.Demand, "stream: "+r.file.path)
	defer reader.Close()
	at := r.u.bytes
	for at < r.file.Size {
		slots := r.claim(r.file.Size - at)
		if slots == nil {
			return nil
		}
		turn, err := reader.Begin(r.e.ctx)
		if err != nil {
			r.giveUp(slots)
			return err
		}
		n, err := r.readExtent(f, at, slots)
		turn.End(n)
		if err != nil {
			return err
		}
		at += n
	}
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	if !r.u.cancelled {
		r.u.ended = true
		r.c.sendEnd(r.u)
	}
	return nil
}

// claim waits for half of the memory, or as much as is needed; nil: nobody wants
// the file any more.
func (r *wholeReader) claim(left int64) (slots []*slot) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	need := min(r.arena.n/2, int((left+wholeSlot-1)/wholeSlot))
	for len(r.arena.free) < need && !r.u.cancelled && !r.e.closed {
		r.cond.Wait()
	}
	if r.u.cancelled || r.e.closed {
		return nil
	}
	for range need {
		slots = append(slots, r.take())
	}
	return slots
}

func (r *wholeReader) giveUp(slots []*slot) {
	r.e.mu.Lock()
	defer r.e.mu.Unlock()
	for _, s := range slots {
		s.drop()
	}
}

// readExtent fills slots and sends each on.
func (r *wholeReader) readExtent(f *os.File, at int64, slots []*slot) (total int64, err error) {
	for i, s := range slots {
		n := min(wholeSlot, r.file.Size-at)
		if n > 0 {
			err = readFull(f, r.file, s.bytes()[:n], at)
		}
		if n <= 0 || err != nil {
			r.giveUp(slots[i:])
			return total, err
		}
		r.e.mu.Lock()
		if !r.u.cancelled {
			r.u.add(s, 0, int(n))
			r.c.link.sendPiece(r.u.id, r.u.pieces[len(r.u.pieces)-1])
		}
		s.drop()
		r.e.mu.Unlock()
		at += n
		total += n
	}
	return total, nil
}
