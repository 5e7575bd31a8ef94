package scan

import (
	"bytes"

	"headrace/disk"
	"headrace/stream/deal"
)

// batchSlot holds a batch and the delimiters between its files.
const batchSlot = 2 << 20

// turnBatches is how many batches are read in one turn at the disk.
const turnBatches = 16

// maxTries is how often in a row batches are tried of which files cannot be opened yet.
const maxTries = 3

// batcher reads the batches of small files of one stream. The lock
// guards it.
type batcher struct {
	slotPool
	f       *Feed
	stopped bool
	// readers are those of each device, used by the batcher's goroutine alone.
	readers map[disk.ID]*disk.Reader
}

func (f *Feed) startBatcher() {
	f.batcher = &batcher{slotPool: newSlotPool(&f.set.memory, f.Owner.UID), f: f, readers: map[disk.ID]*disk.Reader{}}
	f.set.work.Go(f.batcher.run)
}

func (b *batcher) stop() {
	b.stopped = true
	b.cond.Broadcast()
}

func (b *batcher) gone() bool { return b.stopped || b.f.set.closed }

func (b *batcher) run() {
	err := b.read()
	for _, r := range b.readers {
		r.Close()
	}
	b.mem.mu.Lock()
	defer b.mem.mu.Unlock()
	if b.f.batcher == b {
		b.f.batcher = nil
	}
	if err != nil && !b.gone() {
		b.f.taker.Failed(err)
	}
	b.end()
}

func (b *batcher) read() error {
	slots := max(4, min(int(b.f.Buffer)/batchSlot, b.f.deal.Units.AllBatches()+1))
	if err := b.equip(batchSlot, slots, b.gone); err != nil {
		return err
	}
	for tries := 0; ; {
		ids, slots := b.claim()
		if len(ids) == 0 {
			return nil
		}
		err := b.readTurn(ids, slots)
		if tries++; b.f.passes(err) && tries <= maxTries {
			err = b.waitForFiles(ids)
		} else if err == nil {
			tries = 0
		}
		if err != nil {
			return err
		}
	}
}

// waitForFiles opens the files of batches, as soon as they can be, without a turn at the
// disk.
func (b *batcher) waitForFiles(ids []uint32) error {
	for _, id := range ids {
		from, to := b.f.Plan.Batch(id)
		for i := from; i < to; i++ {
			f, err := b.f.open(&b.f.Plan.Files[i], b.gone)
			if err != nil {
				return err
			}
			f.Close()
		}
	}
	return nil
}

// claim waits for room for the next batches; none: there is nothing to do any
// more.
func (b *batcher) claim() (ids []uint32, slots []*slot) {
	b.mem.mu.Lock()
	defer b.mem.mu.Unlock()
	for {
		if b.gone() {
			return nil, nil
		}
		ids = b.f.deal.Units.NextBatches(min(turnBatches, len(b.arena.free)))
		if len(ids) > 0 {
			return ids, b.takeSome(len(ids))
		}
		if len(b.f.deal.Units.NextBatches(1)) == 0 {
			// Said under the lock: whoever wants more starts another one.
			b.f.batcher = nil
			return nil, nil
		}
		b.cond.Wait()
	}
}

// readTurn reads batches, in one turn at the disk if all files are on one.
func (b *batcher) readTurn(ids []uint32, slots []*slot) error {
	defer b.drop(slots)
	t := batchTurn{b: b}
	defer t.end()
	for i, id := range ids {
		u := &Unit{ID: id}
		n, err := b.fill(u, slots[i].bytes(), &t)
		if err != nil {
			return err
		}
		b.mem.mu.Lock()
		u.add(slots[i], 0, n)
		if b.stopped || !b.f.deal.Wanted(id) {
			u.Cancel()
		} else {
			b.f.arrived(u)
		}
		b.mem.mu.Unlock()
	}
	return nil
}

// batchTurn is the turn at the disk of the files that are being read.
type batchTurn struct {
	b     *batcher
	turn  *disk.Turn
	dev   uint64
	bytes int64 // read in it
}

// at takes care that it is the turn at the disk of a file. Another one that it had is
// over: if this file cannot be read, nobody waits for that one.
func (t *batchTurn) at(file *deal.File) error {
	if t.turn != nil && t.dev == file.Dev {
		return nil
	}
	t.end()
	reader, err := t.b.reader(file)
	if err != nil {
		return err
	}
	t.turn, err = reader.Begin(t.b.f.set.ctx)
	t.dev, t.bytes = file.Dev, 0
	return err
}

func (t *batchTurn) end() {
	if t.turn != nil {
		t.turn.End(t.bytes)
		t.turn = nil
	}
}

// reader returns the one for the device of a file.
func (b *batcher) reader(file *deal.File) (*disk.Reader, error) {
	f, err := b.f.open(file, b.gone)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	device, _, err := f.Device()
	if err != nil {
		return nil, err
	}
	r := b.readers[device.ID]
	if r == nil {
		r = b.f.set.cfg.Source.Reader(b.f.Owner.UID, device, "stream: "+file.Path+" and others")
		b.readers[device.ID] = r
	}
	return r, nil
}

// fill reads the files of a batch one behind the other. A file whose last record
// has no delimiter gets one, so that records stay apart.
func (b *batcher) fill(u *Unit, buf []byte, t *batchTurn) (n int, err error) {
	from, to := b.f.Plan.Batch(u.ID)
	u.File = from
	rule := b.f.Plan.Rule
	for i := from; i < to; i++ {
		file := &b.f.Plan.Files[i]
		if file.Size == 0 {
			continue
		}
		if n > 0 && rule.Split == deal.Lines && !bytes.HasSuffix(buf[:n], rule.Delimiter) {
			n += copy(buf[n:], rule.Delimiter)
		}
		if err := t.at(file); err != nil {
			return n, err
		}
		f, err := b.f.openNow(file, b.gone)
		if err != nil {
			return n, err
		}
		err = f.ReadFull(buf[n:n+int(file.Size)], 0)
		if err == nil {
			err = b.f.learn(f, file)
		}
		f.Close()
		if err != nil {
			return n, err
		}
		n += int(file.Size)
		t.bytes += file.Size
		t.turn.Progress()
	}
	u.Unterminated = !rule.Terminated(buf[:n])
	return n, nil
}
