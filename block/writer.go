package block

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

func update(c uint32, p []byte) uint32 { return crc32.Update(c, castagnoli, p) }

// bufferSize is how many bytes a writer collects at most before they go to the kernel.
const bufferSize = 128 << 10

// Writer writes a block. It may be used by one goroutine at a time; what fences it may
// come from others. The caller closes it.
type Writer struct {
	s      *Store
	r      *replica
	handle *handle
	err    error // after which nothing works but Close

	// buf is what the kernel does not have yet, from base on.
	buf  []byte
	base int64
	// sums are of the whole chunks that were filled since the last spill, the first of
	// them at sumsAt, and crc is of the chunk being filled.
	sums   []byte
	sumsAt int64
	crc    uint32
	// reserved is the end of the last piece that has been allocated.
	reserved int64
	// pace is after how many bytes the disk is waited for, 0: never; it has those up to out.
	pace, out int64
}

// newWriter makes a writer that goes on behind what readers see; it owns h. io is held.
func (s *Store) newWriter(r *replica, h *handle) *Writer {
	w := &Writer{s: s, r: r, handle: h, base: r.visible.length, sumsAt: down(r.visible.length, Chunk), crc: r.visible.tail}
	s.mu.Lock()
	r.writer = w
	s.mu.Unlock()
	return w
}

// enter locks the replica for an operation of the writer.
func (w *Writer) enter() error {
	w.r.io.Lock()
	err := w.err
	if err == nil && w.r.writer != w {
		err = refused(ErrFenced, w.r.head.block, "the writer was taken off")
	}
	if err == nil {
		err = w.r.file.v.err()
	}
	if err != nil {
		w.r.io.Unlock()
	}
	return err
}

// Pace has the writer wait after each so many bytes until the disk has them. What nobody waits for is written so: else the
// page cache would take all of it at once, and whoever reads from the disk, or writes to it, would wait behind that.
func (w *Writer) Pace(bytes int64) { w.pace = bytes }

// Beside returns how many bytes the replica of the same generation had that was there when a copy was begun, which takes its place; 0 if there was none.
func (w *Writer) Beside() int64 { return w.r.beside }

// Length returns the end of what was written.
func (w *Writer) Length() int64 { return w.base + int64(len(w.buf)) }

// Write takes the bytes at off, which must not be behind the end of what was written. What
// is there already is left as it is, and is to be the same (Same): clients send the bytes of a chunk again when they go
// on in it. After an error the block has what was flushed.
func (w *Writer) Write(p []byte, off int64) error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.r.io.Unlock()
	end := w.Length()
	if off < 0 || off > end || off+int64(len(p)) > w.r.head.capacity {
		return refused(ErrState, w.r.head.block, "%d bytes at %d of a block of %d, at most %d", len(p), off, end, w.r.head.capacity)
	}
	p = p[min(int64(len(p)), end-off):]
	for len(p) > 0 {
		if w.buf == nil {
			w.buf = make([]byte, 0, bufferSize)
		}
		room := min(int64(cap(w.buf)-len(w.buf)), w.r.file.v.pieceEnd(end)-end)
		n := int(min(int64(len(p)), room))
		w.add(p[:n], end)
		p, end = p[n:], end+int64(n)
		if len(w.buf) == cap(w.buf) || end%w.r.file.v.piece == 0 {
			if err := w.spill(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Same reports whether what was written has these bytes at off. They must not go beyond its end.
func (w *Writer) Same(p []byte, off int64) (bool, error) {
	if err := w.enter(); err != nil {
		return false, err
	}
	defer w.r.io.Unlock()
	if off < 0 || off+int64(len(p)) > w.Length() {
		return false, refused(ErrState, w.r.head.block, "%d bytes at %d of %d", len(p), off, w.Length())
	}
	v := w.r.file.v
	for len(p) > 0 && off < w.base {
		n := min(int64(len(p)), w.base-off, v.pieceEnd(off)-off)
		b, err := w.handle.read(w.r.head.offset+v.dataAt(off), n)
		if err != nil || !bytes.Equal(b, p[:n]) {
			return false, err
		}
		p, off = p[n:], off+n
	}
	return len(p) == 0 || bytes.Equal(p, w.buf[off-w.base:][:len(p)]), nil
}

// add takes bytes into the buffer, with their checksums.
func (w *Writer) add(p []byte, at int64) {
	w.buf = append(w.buf, p...)
	for len(p) > 0 {
		n := min(int64(len(p)), Chunk-at%Chunk)
		w.crc = update(w.crc, p[:n])
		p, at = p[n:], at+n
		if at%Chunk == 0 {
			w.sums = binary.BigEndian.AppendUint32(w.sums, w.crc)
			w.crc = 0
		}
	}
}

// spill hands what was collected to the kernel: the bytes, then their checksums. A chunk
// that is cut short by the end of the process has the checksum from before.
func (w *Writer) spill() error {
	if len(w.buf) == 0 {
		return nil
	}
	v, hd := w.r.file.v, &w.r.head
	end := w.Length()
	err := w.reserve(end)
	if err == nil {
		w.r.spilled = max(w.r.spilled, end)
		sums := w.sums
		if end%Chunk != 0 {
			sums = binary.BigEndian.AppendUint32(sums, w.crc)
		}
		buf, at, sumsAt := w.buf, hd.offset+v.dataAt(w.base), hd.offset+v.sumAt(w.sumsAt)
		err = v.do(changing, func() error { // at once: each time costs more than the second write
			_, err := w.handle.WriteAt(buf, at)
			if err == nil {
				w.s.at("spill.data")
				_, err = w.handle.WriteAt(sums, sumsAt)
			}
			return err
		})
	}
	if err != nil {
		w.err, w.buf = err, nil // the buffer may be in use by a write that hangs
		w.base = end
		return err
	}
	w.s.at("spill.sums")
	switch from := hd.offset; {
	case w.pace > 0 && end-w.out >= w.pace:
		from += v.dataAt(w.out)
		to := hd.offset + v.dataAt(end-1) + 1
		v.do(reading, func() error { w.handle.Writeback(from, to-from, true); return nil })
		w.out = end
	case w.pace == 0 && end%v.piece == 0:
		from += v.sumAt(end - v.piece)
		v.do(reading, func() error { w.handle.Writeback(from, v.sums()+v.piece, false); return nil })
	}
	w.base, w.buf = end, w.buf[:0]
	w.sums, w.sumsAt = w.sums[:0], down(end, Chunk)
	return nil
}

// reserve allocates the piece that ends at or behind end, once the block is not small any
// more, so that pieces lie in one place and a full disk is found before bytes are taken. What is left to nobody stays so, whoever has filled the disk: the names may lie there.
func (w *Writer) reserve(end int64) error {
	v, hd := w.r.file.v, &w.r.head
	if end <= w.reserved || end <= v.piece/8 {
		return nil
	}
	start := down(end-1, v.piece)
	to := min(start+v.piece, hd.capacity)
	from := hd.offset + v.sumAt(start)
	n := v.sums() + to - start
	err := v.allot(v.allocating.Load, func(free, total int64) error {
		if float64(free-n) < w.s.Reserve*float64(total) {
			return refused(ErrFull, hd.block, "%d bytes free", free)
		}
		v.allocating.Add(n)
		return nil
	})
	if err != nil {
		return err
	}
	defer v.allocating.Add(-n)
	if err := v.do(changing, func() error { return w.handle.Allocate(from, n) }); err != nil {
		return err
	}
	w.reserved = to
	w.s.mu.Lock()
	got := min(w.r.promised, to-start)
	w.r.promised -= got
	v.promised -= got
	w.s.mu.Unlock()
	return nil
}

// Flush lets readers see what was written. It then survives the end of the process.
func (w *Writer) Flush() error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.r.io.Unlock()
	return w.flush()
}

func (w *Writer) flush() error {
	if err := w.spill(); err != nil {
		return err
	}
	w.s.mu.Lock()
	w.r.show(mark{w.base, w.crc})
	w.s.mu.Unlock()
	return nil
}

// Sync does as Flush; what was written then survives the end of the machine, too.
func (w *Writer) Sync() error {
	if err := w.enter(); err != nil {
		return err
	}
	defer w.r.io.Unlock()
	if err := w.flush(); err != nil {
		return err
	}
	return w.fail(w.sync(w.r.head.kind))
}

// sync makes what is visible durable, with a header of that kind.
func (w *Writer) sync(k kind) error {
	r := w.r
	err := w.s.put(r, w.handle, func(next *header) {
		next.kind, next.mark, next.durable, next.settled = k, r.visible, r.visible, r.confirmed
	})
	if err != nil {
		return err
	}
	w.s.at("sync.header")
	if err := w.handle.sync(); err != nil {
		return err
	}
	w.s.at("sync.durable")
	r.confirmed = r.visible
	return nil
}

func (w *Writer) fail(err error) error {
	if err != nil {
		w.err = err
	}
	return err
}

// Finalize closes the block, which must have that length. A copy takes the place of the
// replica that was there.
func (w *Writer) Finalize(length int64) error {
	if err := w.enter(); err != nil {
		return err
	}
	r, s := w.r, w.s
	defer r.io.Unlock()
	if length != w.Length() {
		return refused(ErrState, r.head.block, "%d bytes were written: no closing at %d", w.Length(), length)
	}
	old, err := s.replaced(r)
	if err != nil {
		return err
	}
	if old != nil {
		defer old.io.Unlock()
		if old.head.stamp == r.head.stamp && old.visible.length > max(length, r.beside) { // it has been appended to since the copy began
			return refused(ErrExists, r.head.block, "%d bytes of generation %d", old.visible.length, old.head.stamp)
		}
	}
	if err := w.flush(); err != nil {
		return err
	}
	if r.state == Temporary || s.SyncOnClose {
		// The bytes first: a closed block that has lost its end is worse than an open one.
		if err := w.fail(w.sync(r.head.kind)); err != nil {
			return err
		}
		if err := w.fail(w.sync(final)); err != nil {
			return err
		}
	} else if err := w.fail(s.put(r, w.handle, func(next *header) { next.kind, next.mark = final, r.visible })); err != nil {
		return err
	}
	s.at("final.header")
	r.giveBack(w.handle)
	s.become(r, Final)
	s.cutOff(r)
	if old != nil {
		return dropFor(s, r, old)
	}
	return nil
}

// Keep makes a copy a block that is being written, for a pipeline that is to go on with it by Recover: it outlives Close.
// It takes the place of the replica that was there.
func (w *Writer) Keep() error {
	if err := w.enter(); err != nil {
		return err
	}
	r, s := w.r, w.s
	defer r.io.Unlock()
	if r.state != Temporary {
		return refused(ErrState, r.head.block, "%v is no copy", r.state)
	}
	old, err := s.replaced(r)
	if err != nil {
		return err
	}
	if old != nil {
		defer old.io.Unlock()
	}
	if err := w.flush(); err != nil {
		return err
	}
	// What was here may be durable, and so may be what others have, who are not in the pipeline any more.
	if err := w.fail(w.sync(writing)); err != nil {
		return err
	}
	s.at("keep.header")
	s.become(r, Writing)
	if old != nil {
		return dropFor(s, r, old)
	}
	return nil
}

// replaced returns the replica in whose place a copy is to come, held, or nil. It may have been taken up again since the copy began.
func (s *table) replaced(r *replica) (*replica, error) {
	for {
		s.mu.Lock()
		old := s.blocks[r.head.block]
		s.mu.Unlock()
		if old == nil || old == r || old.file.v.err() != nil {
			return nil, nil
		}
		old.io.Lock()
		s.mu.Lock()
		gone, may := old.state == 0, old.replaceable(r.head.stamp)
		err := refused(ErrExists, r.head.block, "%v, generation %d", old.state, old.head.stamp)
		s.mu.Unlock()
		if may && !gone {
			return old, nil
		}
		old.io.Unlock()
		if !gone {
			return nil, err
		}
	}
}

// become gives a replica its place, and its state, when it is no temporary copy any more.
func (s *table) become(r *replica, state State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.copies[r.head.block] == r {
		delete(s.copies, r.head.block)
		s.place(r)
	}
	r.state = state
	s.touched.note(r.file)
}

// Close ends the writing. What was not flushed is lost; the block waits for whoever goes
// on with it. A copy that is not final is removed.
func (w *Writer) Close() error {
	r := w.r
	r.io.Lock()
	defer r.io.Unlock()
	if w.err == nil {
		w.err = ErrClosed
	}
	if r.writer != w {
		return nil
	}
	w.s.cutOff(r)
	if r.state == Temporary && r.file.v.err() == nil {
		return w.s.drop(r)
	}
	return nil
}
