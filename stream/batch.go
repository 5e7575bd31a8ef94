package stream

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"headrace/disk"
	"headrace/fileset"
)

// batchSlot holds a batch and the delimiters between its files.
const batchSlot = 2 << 20

// turnBatches is how many batches are read in one turn at the disk.
const turnBatches = 16

// batcher reads the batches of small files of one stream. The engine's lock
// guards it.
type batcher struct {
	room
	s       *stream
	stopped bool
	// readers are those of each device, used by the batcher's goroutine alone.
	readers map[disk.ID]*disk.Reader
}

func (q *source) startBatcher() {
	b := &batcher{room: newRoom(q.s.e, q.s.spec.Owner.UID), s: q.s, readers: map[disk.ID]*disk.Reader{}}
	q.batcher = b
	q.s.e.work.Go(b.run)
}

func (b *batcher) stop() {
	b.stopped = true
	b.cond.Broadcast()
}

func (b *batcher) run() {
	err := b.read()
	for _, r := range b.readers {
		r.Close()
	}
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	if b.s.source.batcher == b {
		b.s.source.batcher = nil
	}
	if err != nil && !b.stopped && !b.e.closed {
		b.s.fail(err)
	}
	b.end()
}

func (b *batcher) read() error {
	b.e.mu.Lock()
	n := min(int(b.s.spec.buffer())/batchSlot, len(b.s.source.batches.units)+1)
	err := b.equip(batchSlot, max(n, 4))
	b.e.mu.Unlock()
	if err != nil {
		return err
	}
	for {
		ids, slots := b.claim()
		if len(ids) == 0 {
			return nil
		}
		err := b.readTurn(ids, slots)
		if err != nil {
			return err
		}
	}
}

// claim waits for room for the next batches; none: there is nothing to do any
// more.
func (b *batcher) claim() (ids []uint32, slots []*slot) {
	b.e.mu.Lock()
	defer b.e.mu.Unlock()
	for {
		if b.stopped || b.e.closed {
			return nil, nil
		}
		ids = b.next(min(turnBatches, len(b.arena.free)))
		if len(ids) > 0 {
			for range ids {
				slots = append(slots, b.take())
			}
			return ids, slots
		}
		if len(b.next(1)) == 0 {
			// Said under the lock: whoever wants more starts another one.
			b.s.source.batcher = nil
			return nil, nil
		}
		b.cond.Wait()
	}
}

// next are up to n batches that are to be brought, those first that a consumer
// waits for.
func (b *batcher) next(n int) (ids []uint32) {
	q := &b.s.source.batches
	for id := range b.s.fetches {
		if _, ok := q.place(id); ok && len(ids) < n {
			ids = append(ids, id)
		}
	}
	for i := q.next; i < len(q.units) && len(ids) < n && q.todo > 0; i++ {
		if b.s.state[q.units[i]] == todo {
			ids = append(ids, q.units[i])
		} else if i == q.next {
			q.next++
		}
	}
	return ids
}

// readTurn reads batches in one turn at the disk of the first file.
func (b *batcher) readTurn(ids []uint32, slots []*slot) (err error) {
	defer func() {
		b.e.mu.Lock()
		defer b.e.mu.Unlock()
		for _, s := range slots {
			s.drop()
		}
	}()
	first, _ := b.s.plan.batch(ids[0])
	reader, err := b.reader(&b.s.plan.files[first])
	if err != nil {
		return err
	}
	turn, err := reader.Begin(b.e.ctx)
	if err != nil {
		return err
	}
	total := int64(0)
	defer func() { turn.End(total) }()
	for i, id := range ids {
		u := &unit{id: id}
		n, err := b.fill(u, slots[i].bytes())
		if err != nil {
			return err
		}
		total += int64(n)
		b.e.mu.Lock()
		u.add(slots[i], 0, n)
		if b.stopped || !b.s.stillWanted(id) {
			u.cancel()
		} else {
			b.s.arrived(u)
		}
		b.e.mu.Unlock()
	}
	return nil
}

// reader is the one for the device of a file.
func (b *batcher) reader(file *file) (*disk.Reader, error) {
	f, err := b.s.openFile(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	device, err := b.e.cfg.Devices.Of(f)
	if err != nil {
		return nil, err
	}
	r := b.readers[device.ID]
	if r == nil {
		r = b.e.cfg.Disks.Reader(device, disk.Demand, "stream: "+file.path+" and others")
		b.readers[device.ID] = r
	}
	return r, nil
}

// fill reads the files of a batch one behind the other. A file whose last record
// has no delimiter gets one, so that records stay apart.
func (b *batcher) fill(u *unit, buf []byte) (n int, err error) {
	from, to := b.s.plan.batch(u.id)
	u.file = from
	rule := b.s.spec.Rule
	for i := from; i < to; i++ {
		file := &b.s.plan.files[i]
		if file.Size == 0 {
			continue
		}
		if n > 0 && rule.Split == Lines && !bytes.HasSuffix(buf[:n], rule.Delimiter) {
			n += copy(buf[n:], rule.Delimiter)
		}
		f, err := b.s.openFile(file)
		if err != nil {
			return n, err
		}
		err = readFull(f, file, buf[n:n+int(file.Size)], 0)
		f.Close()
		if err != nil {
			return n, err
		}
		n += int(file.Size)
	}
	u.unterminated = !rule.terminated(buf[:n])
	return n, nil
}

// readFull reads exactly len(p) bytes of a file of the plan, and sees that it is
// still what it was.
func readFull(f *os.File, file *file, p []byte, off int64) error {
	n, err := f.ReadAt(p, off)
	if now, ierr := fileset.Identify(f); ierr == nil {
		if why := file.Changed(now); why != "" {
			return fmt.Errorf("%s %s while it was read", file.path, why)
		}
	}
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("read %s at %d: %w", file.path, off, err)
}
