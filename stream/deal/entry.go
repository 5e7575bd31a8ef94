package deal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// Kind is what happened to an attempt.
type Kind uint8

const (
	// Attached: somebody said Hello for it, with these units.
	Attached Kind = iota + 1
	// Left: its connection ended; these are its units, in order.
	Left
	// Finished: it said Finish with code 0; these are its units. (Earlier daemons wrote down
	// other codes, too.)
	Finished
	// Failed: it was given up; its units went back.
	Failed
)

// Entry is one record of a stream's journal: what became of an attempt of a consumer.
type Entry struct {
	Kind     Kind
	Consumer uint32
	Attempt  uint32
	Code     int32
	Units    []uint32
}

// over tells whether the attempt cannot come back after this.
func (e *Entry) over() bool { return e.Kind == Failed || e.Kind == Finished && e.Code != 0 }

var journalSums = crc32.MakeTable(crc32.Castagnoli)

// Encode returns a length, a checksum and the fields as varints; the units are
// differences, small because neighbours are dealt one after the other.
func (e *Entry) Encode() []byte {
	b := make([]byte, 8, 32+2*len(e.Units))
	b = append(b, byte(e.Kind))
	b = binary.AppendUvarint(b, uint64(e.Consumer))
	b = binary.AppendUvarint(b, uint64(e.Attempt))
	b = binary.AppendVarint(b, int64(e.Code))
	b = binary.AppendUvarint(b, uint64(len(e.Units)))
	last := int64(0)
	for _, u := range e.Units {
		b = binary.AppendVarint(b, int64(u)-last)
		last = int64(u)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], journalSums))
	return b
}

// ErrJournal: what was read is no journal of this stream.
var ErrJournal = errors.New("damaged journal")

// decodeEntry reads the body of an entry.
func decodeEntry(b []byte) (Entry, error) {
	var e Entry
	if len(b) == 0 {
		return e, ErrJournal
	}
	e.Kind, b = Kind(b[0]), b[1:]
	bad := e.Kind < Attached || e.Kind > Failed
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		bad = bad || n <= 0
		b = b[max(0, n):]
		return v
	}
	signed := func() int64 {
		v := number()
		return int64(v>>1) ^ -int64(v&1)
	}
	e.Consumer, e.Attempt, e.Code = uint32(number()), uint32(number()), int32(signed())
	n := number()
	if bad || n > uint64(len(b)) {
		return e, ErrJournal
	}
	last := int64(0)
	for range n {
		last += signed()
		if last < 0 || last > MaxUnits {
			bad = true
		}
		e.Units = append(e.Units, uint32(last))
	}
	if bad || len(b) != 0 {
		return e, ErrJournal
	}
	return e, nil
}

// ReadEntries calls each with every entry, and returns the length of what is whole. What
// is torn at the end was never acknowledged. What is damaged with more behind it was:
// that is ErrJournal.
func ReadEntries(in io.Reader, each func(Entry)) (size int64, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return size, tornOrNil(err)
		}
		n := binary.LittleEndian.Uint32(head[:])
		body, err := io.ReadAll(io.LimitReader(r, int64(n)))
		if err != nil {
			return size, err
		}
		if len(body) < int(n) {
			return size, nil
		}
		sum := crc32.Checksum(body, journalSums)
		if n == 0 || sum != binary.LittleEndian.Uint32(head[4:]) {
			return size, lastOrDamaged(r)
		}
		e, err := decodeEntry(body)
		if err != nil {
			return size, err
		}
		each(e)
		size += 8 + int64(n)
	}
}

func tornOrNil(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// lastOrDamaged returns nil if nothing follows, or zeros: a file system may have made
// the file longer before it wrote what belongs there.
func lastOrDamaged(r *bufio.Reader) error {
	for {
		switch b, err := r.ReadByte(); {
		case err != nil:
			return tornOrNil(err)
		case b != 0:
			return ErrJournal
		}
	}
}
