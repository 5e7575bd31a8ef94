package names

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
)

// A snapshot is snapshotMagic, keys and values, each with its length before it, an empty key, and the checksum of
// all that. Keys come in order.
const snapshotMagic = "headrace names 1\n"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errSnapshot = errors.New("names: not the bytes of a snapshot")

// Snapshot implements quorum.Machine. Its end is only read if all of it is what was written to the state.
func (m *machine) Snapshot() (io.ReadCloser, error) {
	g, r, done, err := m.look()
	if err != nil {
		return nil, err
	}
	s := &sending{m: m, left: []byte(snapshotMagic), done: done, content: -g.sum}
	s.next, s.stop = iter.Pull2(r.Scan(nil, end))
	s.sum = crc32.Update(0, castagnoli, s.left)
	return s, nil
}

// sending is a snapshot that is being read.
type sending struct {
	m       *machine
	next    func() (k, v []byte, ok bool)
	stop    func()
	done    func()
	left    []byte
	sum     uint32
	content uint64 // what is too much in the sum of the state
	ended   bool
}

func (s *sending) Read(p []byte) (int, error) {
	for len(s.left) == 0 {
		if s.ended {
			return 0, io.EOF
		}
		if err := Sound(s.fill); err != nil {
			s.m.spoil(err)
			return 0, err
		}
	}
	n := copy(p, s.left)
	s.left = s.left[n:]
	return n, nil
}

func (s *sending) fill() error {
	k, v, ok := s.next()
	if !ok && s.content != 0 {
		return errSum(s.content, 0)
	}
	if bytes.Equal(k, digestKey) { // whoever receives the others makes its own
		return nil
	}
	if ok && counted(k) {
		s.content += sumOf(k, v)
	}
	b := binary.AppendUvarint(s.left[:0], uint64(len(k)))
	if !ok {
		s.ended = true
		s.sum = crc32.Update(s.sum, castagnoli, b)
		s.left = binary.BigEndian.AppendUint32(b, s.sum)
		return nil
	}
	b = append(b, k...)
	b = binary.AppendUvarint(b, uint64(len(v)))
	s.left = append(b, v...)
	s.sum = crc32.Update(s.sum, castagnoli, s.left)
	return nil
}

func (s *sending) Close() error {
	s.stop()
	s.done()
	return nil
}

// Restore implements quorum.Machine.
func (m *machine) Restore(index uint64, r io.Reader) error {
	err := m.replace(func(put func(k, v []byte) error) error {
		var view []byte
		in, sum := &receiving{r: bufio.NewReaderSize(r, 64<<10)}, uint64(0)
		err := in.all(func(k, v []byte) error {
			if !counted(k) {
				return nil
			}
			if bytes.Equal(k, viewKey) {
				view = v
			}
			sum += sumOf(k, v)
			return put(k, v)
		}, func() error { return put(indexKey, ofNumber(index)) })
		if err == nil && view != nil { // of a version that is not known here the state is not taken over
			_, err = m.readable(view)
		}
		if err != nil {
			return err
		}
		return put(digestKey, encodeDigest(index, sum))
	})
	if err == nil {
		m.restored()
	}
	return err
}

// wipe makes the state none.
func (m *machine) wipe() error { return m.replace(func(func(k, v []byte) error) error { return nil }) }

// replace puts another state in the place of this one.
func (m *machine) replace(fill func(put func(k, v []byte) error) error) error {
	m.flushing.Lock()
	defer m.flushing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock() // who applies and who replaces is the same goroutine
	m.freezes++
	m.now.Store(&generation{freezes: m.freezes, gone: true})
	if err := m.store.replace(fill); err != nil {
		m.err = errStore(err)
		return m.err
	}
	if err := m.load(); err != nil {
		return err
	}
	if m.roster != nil {
		v := m.roster.View
		m.changed(&v)
	}
	return nil
}

// receiving reads a snapshot.
type receiving struct {
	r   *bufio.Reader
	sum uint32
	one [1]byte
}

// ReadByte implements io.ByteReader.
func (in *receiving) ReadByte() (byte, error) {
	b, err := in.r.ReadByte()
	in.one[0] = b
	if err == nil {
		in.sum = crc32.Update(in.sum, castagnoli, in.one[:])
	}
	return b, err
}

const mostRecord = 64 << 20

func (in *receiving) bytes(n uint64) ([]byte, error) {
	if n > mostRecord {
		return nil, fmt.Errorf("a record of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(in.r, b)
	in.sum = crc32.Update(in.sum, castagnoli, b)
	return b, err
}

func (in *receiving) text() ([]byte, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil {
		return nil, err
	}
	return in.bytes(n)
}

// all calls each for keys and values, and index in the place of the key of the index.
func (in *receiving) all(each func(k, v []byte) error, index func() error) error {
	wrong := func(err error) error { return fmt.Errorf("%w: %w", errSnapshot, err) }
	magic, err := in.bytes(uint64(len(snapshotMagic)))
	if err != nil || string(magic) != snapshotMagic {
		return wrong(errors.Join(err, errors.New("of another version")))
	}
	var last []byte
	indexed := false
	for {
		k, err := in.text()
		if err != nil {
			return wrong(err)
		}
		if !indexed && (len(k) == 0 || bytes.Compare(k, indexKey) >= 0) {
			indexed = true
			if err := index(); err != nil {
				return err
			}
		}
		if len(k) == 0 {
			break
		}
		if bytes.Compare(k, last) <= 0 {
			return wrong(errors.New("keys are not in order"))
		}
		last = k
		v, err := in.text()
		if err != nil {
			return wrong(err)
		}
		if err := each(k, v); err != nil {
			return err
		}
	}
	sum := in.sum
	b, err := in.bytes(4)
	if err != nil || binary.BigEndian.Uint32(b) != sum {
		return wrong(errors.Join(err, errors.New("the checksum is wrong")))
	}
	return nil
}
