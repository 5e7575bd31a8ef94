package work

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"headrace/lab/pages"
)

// Records are lines of recordBytes bytes: the number in eight hexadecimal digits,
// some text, and a line feed.
const RecordBytes = 100

// Tally is what was found of records. That of a whole file does not depend on the
// order in which they came, and hardly any error leaves all three numbers as they
// were.
type Tally struct {
	Records uint64 `json:"records"`
	Sum     uint64 `json:"sum"`     // of the numbers
	Squares uint64 `json:"squares"` // of the squares of the numbers
}

func (t *Tally) add(number uint64) {
	t.Records++
	t.Sum += number
	t.Squares += number * number
}

// Plus returns what both have found.
func (t Tally) Plus(o Tally) Tally {
	return Tally{t.Records + o.Records, t.Sum + o.Sum, t.Squares + o.Squares}
}

// sum returns the checksum for the last line of a task's output.
func (t Tally) sum() uint64 { return fold(fold(fold(0, t.Records), t.Sum), t.Squares) }

// WriteRecords makes a file of about so many bytes in whole records whose numbers
// begin with first, durable and not in memory.
func WriteRecords(path string, bytes int64, first uint32) (Tally, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return Tally{}, err
	}
	defer f.Close()
	var found Tally
	block := recordText()
	left := bytes / RecordBytes
	for number := uint64(first); left > 0; {
		n := min(left, int64(len(block)/RecordBytes))
		for i := range n {
			binary.BigEndian.PutUint64(block[i*RecordBytes:], hexDigits(uint32(number)))
			found.add(number)
			number++
		}
		if _, err := f.Write(block[:n*RecordBytes]); err != nil {
			return Tally{}, err
		}
		left -= n
	}
	return found, errors.Join(f.Sync(), pages.DropCached(f))
}

// recordText has about 1 MiB of records without numbers. No two lines that follow
// each other are alike.
func recordText() []byte {
	const letters = "etaoinshrdlucmfwypvbgkjqxz      "
	block := make([]byte, 10000*RecordBytes)
	r := Random(1)
	for i := range block {
		block[i] = letters[(r.Next()>>32)%uint64(len(letters))]
		if i%RecordBytes == RecordBytes-1 {
			block[i] = '\n'
		}
	}
	return block
}

// hexDigits returns the eight digits of a number, the first in the highest byte.
func hexDigits(v uint32) uint64 {
	// Spread the nibbles, then turn each into a digit: 10 to 15 are 39 further on.
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	letters := ((x + 0x0606060606060606) >> 4) & 0x0101010101010101
	return x + 0x3030303030303030 + letters*39
}

// hexNumber returns the number of eight digits, and whether they are those of one.
func hexNumber(digits uint64) (uint32, bool) {
	x := digits & 0x0f0f0f0f0f0f0f0f
	letters := (digits >> 6) & 0x0101010101010101
	x += letters * 9
	x = (x | x>>4) & 0x00ff00ff00ff00ff
	x = (x | x>>8) & 0x0000ffff0000ffff
	x = (x | x>>16) & 0x00000000ffffffff
	return uint32(x), hexDigits(uint32(x)) == digits
}

// recordReader finds the records in what it is given piece by piece.
type recordReader struct {
	found Tally
	begun []byte // of a record that was cut
}

// Write takes the next piece.
func (r *recordReader) Write(b []byte) (int, error) {
	all := len(b)
	if len(r.begun) > 0 {
		n := min(RecordBytes-len(r.begun), len(b))
		r.begun = append(r.begun, b[:n]...)
		b = b[n:]
		if len(r.begun) < RecordBytes {
			return all, nil
		}
		if err := r.record(r.begun); err != nil {
			return 0, err
		}
		r.begun = r.begun[:0]
	}
	for len(b) >= RecordBytes {
		if err := r.record(b[:RecordBytes]); err != nil {
			return 0, err
		}
		b = b[RecordBytes:]
	}
	r.begun = append(r.begun, b...)
	return all, nil
}

func (r *recordReader) record(b []byte) error {
	number, ok := hexNumber(binary.BigEndian.Uint64(b))
	if !ok || b[RecordBytes-1] != '\n' {
		return fmt.Errorf("after %d records: this is none: %q", r.found.Records, b)
	}
	r.found.add(uint64(number))
	return nil
}

// end fails if the last record was cut.
func (r *recordReader) end() error {
	if len(r.begun) > 0 {
		return fmt.Errorf("after %d records: the last one ends after %d bytes: %q", r.found.Records, len(r.begun), r.begun)
	}
	return nil
}

// recordsOf returns the bounds of the records that begin in a region of a file.
func recordsOf(from, length, size int64) (begin, end int64) {
	up := func(v int64) int64 { return (v + RecordBytes - 1) / RecordBytes * RecordBytes }
	begin = min(up(from), size)
	return begin, max(begin, min(up(from+length), size))
}

// A RecordFile is one of an experiment, as its readers see it.
type RecordFile struct {
	Path  string
	Bytes int64
	All   Tally
}

// readRegion gives the records of a region to r, in pieces of 1 MiB.
func readRegion(f *os.File, from, length int64, to io.Writer) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	begin, end := recordsOf(from, length, info.Size())
	buf := make([]byte, 1<<20)
	for at := begin; at < end; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
		if n == 0 && err != nil {
			return fmt.Errorf("read %s at %d: %w", f.Name(), at, err)
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

// ownCPU returns the processor time of this process so far, in seconds.
func ownCPU() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("own processor time: %w", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}
