package consumer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
)

// DefaultMaxRecord is the longest record that Records reads unless told
// otherwise, in bytes.
const DefaultMaxRecord = 64 << 20

// ErrTooLong: a record is longer than Records.Max.
var ErrTooLong = errors.New("the record is too long; allow for more in Records.Max")

// ErrCutRecord: the bytes of a file are not a whole number of records of a fixed
// size.
var ErrCutRecord = errors.New("a record is cut short at the end of its file")

// Records reads the records of a Client one by one, decompressed:
//
//	r := consumer.Records{Client: c}
//	for r.Scan(ctx) {
//		use(r.Record())
//	}
//	if err := r.Err(); err != nil {
//		...
//	}
//
// A record ends with the stream's delimiter, which is not part of it; the last
// one of a file may lack it. In a stream without a delimiter, records have Size
// bytes, or, with Size 0, a record is whatever comes at once. The first fields
// may be set before the first Scan. One goroutine uses it.
type Records struct {
	Client *Client
	// Size is the size of the records of a stream without a delimiter, in bytes.
	Size int
	// Max is the longest record, 0 for DefaultMaxRecord.
	Max int

	unit *Unit
	in   io.ReadCloser
	// buf holds bytes that were read; those before start are used up, and there is
	// no delimiter in the first searched of the others.
	buf             []byte
	start, searched int
	ended           bool
	delimiter       []byte
	record          []byte
	err             error
}

// Scan reads the next record. It returns false at the end of the stream, and
// when something is wrong, which Err tells.
func (r *Records) Scan(ctx context.Context) bool {
	r.record = nil
	for r.err == nil {
		if r.in == nil && !r.open(ctx) {
			return false
		}
		if r.cut() {
			return true
		}
		if r.ended {
			r.close()
			continue
		}
		r.fill()
	}
	return false
}

// Record is the record that Scan has read, valid until the next Scan.
func (r *Records) Record() []byte { return r.record }

// Unit is the unit that the record is in, nil before the first Scan.
func (r *Records) Unit() *Unit { return r.unit }

// Err is what ended Scan early, nil at the end of the stream.
func (r *Records) Err() error { return r.err }

// open goes to the next unit.
func (r *Records) open(ctx context.Context) bool {
	if r.unit == nil {
		r.delimiter = []byte(r.Client.Welcome().Delimiter)
		if r.Max <= 0 {
			r.Max = DefaultMaxRecord
		}
	}
	u, err := r.Client.Next(ctx)
	if err == io.EOF {
		return false
	}
	if err == nil {
		r.in, err = u.Open()
	}
	if err != nil {
		r.err = err
		return false
	}
	r.unit, r.ended = u, false
	r.buf, r.start, r.searched = r.buf[:0], 0, 0
	return true
}

func (r *Records) close() {
	r.in.Close()
	r.in = nil
}

// cut takes the next record off the buffer, if it is there.
func (r *Records) cut() bool {
	b := r.buf[r.start:]
	switch {
	case len(r.delimiter) > 0:
		if i := bytes.Index(b[r.searched:], r.delimiter); i >= 0 {
			r.take(r.searched+i, len(r.delimiter))
			return true
		}
		r.searched = max(0, len(b)-len(r.delimiter)+1)
		if r.ended && len(b) > 0 {
			r.take(len(b), 0)
			return true
		}
	case r.Size > 0:
		if len(b) >= r.Size {
			r.take(r.Size, 0)
			return true
		}
		if r.ended && len(b) > 0 {
			r.err = fmt.Errorf("%s: %w: %d of %d bytes", r.unit.path, ErrCutRecord, len(b), r.Size)
		}
	case len(b) > 0:
		r.take(len(b), 0)
		return true
	}
	return false
}

// take makes the next n bytes the record and passes over what ends it.
func (r *Records) take(n, end int) {
	r.record = r.buf[r.start : r.start+n : r.start+n]
	r.start += n + end
	r.searched = 0
}

// fill reads more into the buffer.
func (r *Records) fill() {
	const step = 64 << 10
	have := len(r.buf) - r.start
	if have > r.Max {
		r.err = fmt.Errorf("%s: %w", r.unit.path, ErrTooLong)
		return
	}
	if r.start > 0 {
		copy(r.buf, r.buf[r.start:])
		r.buf, r.start = r.buf[:have], 0
	}
	if cap(r.buf)-have < step {
		b := make([]byte, have, max(2*cap(r.buf), step))
		copy(b, r.buf)
		r.buf = b
	}
	n, err := r.in.Read(r.buf[have:cap(r.buf)])
	r.buf = r.buf[:have+n]
	switch {
	case err == io.EOF:
		r.ended = true
	case err != nil:
		r.err = err
	}
}
