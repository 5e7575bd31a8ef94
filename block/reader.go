package block

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"headrace/disk"
)

const (
	// mostExtent and leastExtent bound what is read in one turn. At 150 MB/s and 12 ms
	// for a seek, turns of 16 MB give 135 MB/s to any number of readers.
	mostExtent, leastExtent = 16 << 20, 1 << 20
	// smallRead is up to where a read is one of a client that jumps about: nothing is
	// read that it did not ask for.
	smallRead = 1 << 20
	// firstTrial is what is read first for a client that begins inside a block, four times as much each time that it
	// has taken all of that. Java's clients ask for the rest of the block when they seek, whatever they want.
	firstTrial = 256 << 10
)

// extent is how much each of so many readers reads in a turn.
func extent(memory, readers, piece int64) int64 {
	most := max(mostExtent, piece)
	if n := memory / max(readers, 1); n < most {
		most = n
	}
	return max(most, leastExtent)
}

// Part is some bytes of a block, as they were written: they have been compared with their
// checksums.
type Part struct {
	// Off is a multiple of Chunk.
	Off int64
	// Data ends with a chunk or with what readers see of the block.
	Data []byte
	// Sums has SumSize bytes for each chunk.
	Sums []byte
}

// Reader reads a part of a block in order. It may be used by one goroutine. The caller
// closes it.
type Reader struct {
	s      *Store
	r      *replica
	id     int64 // of the block
	handle *handle
	lane   *lane
	// length is what was visible of the block when the reader was opened, with its tail,
	// and cuts those of the replica then.
	length mark
	cuts   int
	offset int64 // of the region

	at, end int64
	whole   bool  // all of the block is read, in order
	trial   int64 // what is read next, until it is known that the client reads on; then 0
	parts   []Part
	buf     []byte
	ahead   chan fetched
	stop    context.CancelFunc
	ctx     context.Context
	closed  bool
}

// fetched is what one turn has brought.
type fetched struct {
	parts []Part
	buf   []byte
	err   error
}

// Open opens a replica for reading n bytes at off, of that generation or a newer one. It
// sees what is visible now. Bytes come from the chunk that has the first on, and to the
// end of the chunk that has the last.
func (s *Store) Open(b Block, off, n int64) (*Reader, error) {
	return s.open(b, off, n, nil)
}

// open reads in a lane of somebody's own, or in that of the file.
func (s *Store) open(b Block, off, n int64, l *lane) (*Reader, error) {
	s.mu.Lock()
	r, err := s.find(b.ID)
	switch {
	case err != nil:
	case r.state == Temporary || b.Stamp > r.head.stamp:
		err = refused(ErrNotFound, b.ID, "%v, generation %d", r.state, r.head.stamp)
	case off < 0 || n < 0 || off > r.visible.length || n > r.visible.length-off:
		err = refused(ErrState, b.ID, "%d bytes at %d of %d", n, off, r.visible.length)
	}
	if err != nil {
		s.mu.Unlock()
		return nil, err
	}
	rd := &Reader{s: s, r: r, id: b.ID, length: r.visible, cuts: r.cuts, offset: r.head.offset, at: down(off, Chunk),
		end: min(up(off+n, Chunk), r.visible.length), lane: l, whole: off == 0 && n == r.visible.length}
	if n == 0 {
		rd.end = rd.at
	}
	if l == nil && rd.at > 0 {
		rd.trial = firstTrial
	}
	r.readers++
	s.readers++
	s.mu.Unlock()
	rd.handle, err = r.file.use(0)
	if err != nil {
		rd.forget()
		switch {
		case errors.Is(err, os.ErrNotExist): // just now being made, or deleted
			err = refused(ErrNotFound, b.ID, "%w", err)
		case r.file.unreadable.Load() && r.file.v.err() == nil:
			err = errors.Join(refused(ErrDamaged, b.ID, "its file cannot be opened"), err)
			s.report(r, err)
		}
		return nil, err
	}
	if l == nil {
		rd.lane = &r.file.lane
		rd.lane.enter(s.Turns, r.file.v.device, disk.Demand, "blocks of a file")
	}
	rd.ctx, rd.stop = context.WithCancel(context.Background())
	return rd, nil
}

func (r *Reader) forget() {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.r.readers--
	r.s.readers--
	r.s.touched.note(r.r.file)
}

// Length returns how many bytes of the block are visible.
func (r *Reader) Length() int64 { return r.length.length }

// Next returns the next part, which is valid until the next call, or io.EOF. A part is as
// large as suits the disk: send it in pieces. ErrDamaged: the bytes are not what was
// written; what is behind them may be read through another Reader.
func (r *Reader) Next(ctx context.Context) (Part, error) {
	if r.closed {
		return Part{}, ErrClosed
	}
	for len(r.parts) == 0 {
		if r.at >= r.end {
			return Part{}, io.EOF
		}
		if err := r.advance(ctx); err != nil {
			return Part{}, err
		}
	}
	p := r.parts[0]
	r.parts = r.parts[1:]
	return p, nil
}

// sumsPieces is of how many pieces the checksums are read in one turn.
const sumsPieces = 16

// Sums is Next for checksums alone: it returns those of the next chunks as they were written, which nobody has compared with the bytes. The part that
// was opened ends with a full chunk.
func (r *Reader) Sums(ctx context.Context) ([]byte, error) {
	if r.closed {
		return nil, ErrClosed
	}
	if r.at >= r.end {
		return nil, io.EOF
	}
	v := r.r.file.v
	to := min(r.end, down(r.at, v.piece)+sumsPieces*v.piece)
	sums, from := make([]byte, (to-r.at)/Chunk*SumSize), r.offset+v.sumAt(r.at)
	err := r.lane.read(ctx, r.handle, from, int64(len(sums)), func() error {
		for rest, at := sums, r.at; at < to; at = v.pieceEnd(at) {
			n := (min(to, v.pieceEnd(at)) - at) / Chunk * SumSize
			if err := v.do(reading, func() error { return readFull(r.handle, rest[:n], r.offset+v.sumAt(at)) }); err != nil {
				return r.unreadable(at, err)
			}
			rest = rest[n:]
		}
		return nil
	})
	if err != nil {
		return nil, r.failed(ctx, err)
	}
	r.at = to
	return sums, nil
}

// unreadable is the error of a read at at: of the replica, unless the disk is out.
func (r *Reader) unreadable(at int64, err error) error {
	if r.r.file.v.err() != nil {
		return err
	}
	return errors.Join(refused(ErrDamaged, r.id, "at %d", at), err)
}

// failed notes why bytes could not be read, and returns what the caller hears of it.
func (r *Reader) failed(ctx context.Context, err error) error {
	if errors.Is(err, ErrOut) || errors.Is(err, ErrFull) || ctx.Err() != nil {
		return err
	}
	return r.s.examine(r.r, r.cuts, err)
}

// advance gets the next extent, which may be on its way already, and sends for the one
// after it if the disk has nothing else to do for this file.
func (r *Reader) advance(ctx context.Context) error {
	var f fetched
	if r.ahead != nil {
		select {
		case f = <-r.ahead:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.ahead = nil
		r.recycle(r.buf)
	} else {
		// Who waits for a turn holds no memory.
		r.recycle(r.buf)
		r.buf, r.parts = nil, nil
		f = r.fetch(ctx, r.at, r.extentEnd(r.at))
	}
	r.buf = f.buf
	if f.err != nil {
		return f.err
	}
	r.parts = f.parts
	last := f.parts[len(f.parts)-1]
	r.at = last.Off + int64(len(last.Data))
	if r.trial *= 4; r.trial >= mostExtent {
		r.trial = 0
	}
	if at, to := r.at, r.extentEnd(r.at); at < r.end && r.trial == 0 && r.lane.idle() && r.s.held.Load()+to-at <= r.s.Memory {
		ahead := make(chan fetched, 1)
		go func() { ahead <- r.fetch(r.ctx, at, to) }()
		r.ahead = ahead
	}
	return nil
}

// extentEnd returns where the extent that begins at at ends: with a piece if it can.
func (r *Reader) extentEnd(at int64) int64 {
	r.s.mu.Lock()
	readers := r.s.readers
	r.s.mu.Unlock()
	l := r.r.file.v.layout
	n := extent(r.s.Memory, readers, l.piece)
	if r.trial > 0 {
		n = min(n, r.trial)
	}
	to := at + n
	if e := down(to, l.piece); e > at {
		to = e
	}
	return min(down(to, Chunk), r.end)
}

// buffers are those of extents.
var buffers = sync.Pool{}

// buffer returns memory for an extent, which counts as held until it is recycled.
func (s *Store) buffer(n int64) []byte {
	b, ok := buffers.Get().(*[]byte)
	if !ok || int64(cap(*b)) < n {
		b = new([]byte)
		*b = make([]byte, n)
	}
	s.held.Add(int64(cap(*b)))
	return (*b)[:n]
}

// fetch reads from at to to in one turn and compares. All of a long extent is asked for at once, so that the disk
// goes on when nobody gets a processor.
func (r *Reader) fetch(ctx context.Context, at, to int64) fetched {
	l := r.r.file.v.layout
	need := to - at + (up(to, l.piece)-down(at, l.piece))/l.piece*l.sums()
	var buf []byte
	var parts []Part
	from := r.offset + l.sumAt(at)
	n := r.offset + l.dataAt(to-1) + 1 - from
	err := r.lane.read(ctx, r.handle, from, n, func() error {
		if n > smallRead {
			r.r.file.v.do(reading, func() error { r.handle.Prefetch(from, n); return nil })
		}
		buf = r.s.buffer(need)
		rest := buf
		for ; at < to; at += int64(len(parts[len(parts)-1].Data)) {
			n := min(to, l.pieceEnd(at)) - at
			p, err := r.readPiece(rest[:l.sums()+n], at, n)
			if err != nil {
				return err
			}
			parts = append(parts, p)
			rest = rest[l.sums()+n:]
		}
		if r.whole && to == r.length.length {
			r.s.readAhead(r.r, r.handle)
		}
		return nil
	})
	if errors.Is(err, ErrOut) {
		r.s.held.Add(-int64(cap(buf)))
		return fetched{err: err} // the buffer may be in use by a read that hangs
	}
	if err == nil {
		for _, p := range parts {
			if err = r.verify(p); err != nil {
				break
			}
		}
	}
	if err != nil {
		err = r.failed(ctx, err)
	}
	return fetched{parts, buf, err}
}

// readPiece reads a part of one piece with its checksums into buf, which has room for all
// checksums of a piece and the bytes.
func (r *Reader) readPiece(buf []byte, at, n int64) (Part, error) {
	v := r.r.file.v
	sums, data := buf[:v.sums()], buf[v.sums():]
	start := r.offset + v.sumAt(at)
	sums = sums[:up(n, Chunk)/Chunk*SumSize]
	err := v.do(reading, func() error {
		if at%v.piece == 0 && n > smallRead { // they lie together
			return readFull(r.handle, buf, start)
		}
		if err := readFull(r.handle, sums, start); err != nil {
			return err
		}
		return readFull(r.handle, data, r.offset+v.dataAt(at))
	})
	if err != nil {
		err = r.unreadable(at, err)
	}
	return Part{at, data, sums}, err
}

// verify compares bytes with their checksums. That of the last chunk a reader sees is
// known from when it was opened: the one on the disk may be of more bytes by now.
func (r *Reader) verify(p Part) error {
	for i := 0; i < len(p.Data); i += Chunk {
		chunk := p.Data[i:min(i+Chunk, len(p.Data))]
		at := p.Sums[i/Chunk*SumSize:]
		if len(chunk) < Chunk {
			binary.BigEndian.PutUint32(at, r.length.tail)
		}
		if sum(chunk) != be32(at) {
			return refused(ErrDamaged, r.id, "the chunk at %d", p.Off+int64(i))
		}
	}
	return nil
}

// readAhead begins to read the next block of the file on this disk, which whoever reads it
// block by block will ask for, unless it is being read already.
func (s *Store) readAhead(r *replica, h *handle) {
	s.mu.Lock()
	var next *replica
	for i, x := range r.file.regions {
		if x == r && i+1 < len(r.file.regions) {
			next = r.file.regions[i+1]
		}
	}
	var off, n int64
	if next != nil && next.state == Final && next.readers == 0 {
		v := r.file.v
		n = min(extent(s.Memory, s.readers, v.piece), next.visible.length)
		off, n = next.head.offset, v.dataAt(n)
	}
	s.mu.Unlock()
	if n > 0 {
		r.file.v.do(reading, func() error { h.Prefetch(off, n); return nil })
	}
}

// Close ends the reading. Parts are not valid any more.
func (r *Reader) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.stop()
	if r.ahead != nil {
		select {
		case f := <-r.ahead:
			r.recycle(f.buf)
		case <-time.After(r.s.Patience):
			go func() { r.recycle((<-r.ahead).buf) }()
		}
	}
	r.recycle(r.buf)
	if r.lane == &r.r.file.lane {
		r.lane.leave()
	}
	r.handle.release()
	r.forget()
}

func (r *Reader) recycle(b []byte) {
	if b != nil {
		r.s.held.Add(-int64(cap(b)))
		buffers.Put(&b)
	}
}
