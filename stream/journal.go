package stream

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"headrace/fileset"
	"headrace/internal/crash"
	"headrace/internal/linux"
	"headrace/stream/protocol"
)

// A stream has a directory with two files: what it deals, written once, and a
// journal of what became of its consumers' attempts, appended to.
const (
	planName    = "plan"
	journalName = "journal"
)

// verb is what happened to an attempt.
type verb uint8

const (
	// attached: somebody said Hello for it.
	attached verb = iota + 1
	// left: its connection ended; these are its units, in order.
	left
	// finished: it said Finish, with a code and its units.
	finished
	// failed: it was given up; its units went back.
	failed
)

// entry is one record of a journal.
type entry struct {
	verb     verb
	consumer uint32
	attempt  uint32
	code     int32
	units    []uint32
}

var journalSums = crc32.MakeTable(crc32.Castagnoli)

// encode is a length, a checksum and the fields as varints; the units are
// differences, small because neighbours are dealt one after the other.
func (e *entry) encode() []byte {
	b := make([]byte, 8, 32+2*len(e.units))
	b = append(b, byte(e.verb))
	b = binary.AppendUvarint(b, uint64(e.consumer))
	b = binary.AppendUvarint(b, uint64(e.attempt))
	b = binary.AppendVarint(b, int64(e.code))
	b = binary.AppendUvarint(b, uint64(len(e.units)))
	last := int64(0)
	for _, u := range e.units {
		b = binary.AppendVarint(b, int64(u)-last)
		last = int64(u)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-8))
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:], journalSums))
	return b
}

var errJournal = errors.New("damaged journal")

// decodeEntry reads the body of an entry.
func decodeEntry(b []byte) (entry, error) {
	var e entry
	if len(b) == 0 {
		return e, errJournal
	}
	e.verb, b = verb(b[0]), b[1:]
	bad := e.verb < attached || e.verb > failed
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	signed := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			bad = true
			return 0
		}
		b = b[n:]
		return v
	}
	e.consumer, e.attempt, e.code = uint32(number()), uint32(number()), int32(signed())
	n := number()
	if bad || n > uint64(len(b)) {
		return e, errJournal
	}
	last := int64(0)
	for range n {
		last += signed()
		if last < 0 || last > maxUnits {
			bad = true
		}
		e.units = append(e.units, uint32(last))
	}
	if bad || len(b) != 0 {
		return e, errJournal
	}
	return e, nil
}

// readJournal reads the entries and the length of what is whole. What is torn at
// the end was never acknowledged.
func readJournal(in io.Reader) (entries []entry, size int64, err error) {
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		var head [8]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return entries, size, tornOrNil(err)
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > 5*maxUnits {
			return entries, size, nil
		}
		body, err := io.ReadAll(io.LimitReader(r, int64(n)))
		if err != nil {
			return entries, size, err
		}
		if len(body) < int(n) || crc32.Checksum(body, journalSums) != binary.LittleEndian.Uint32(head[4:]) {
			return entries, size, nil
		}
		e, err := decodeEntry(body)
		if err != nil {
			return entries, size, err
		}
		entries = append(entries, e)
		size += 8 + int64(n)
	}
}

func tornOrNil(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}

// journal appends entries. It is used by one goroutine at a time.
type journal struct{ f *os.File }

// openJournal opens or creates it and reads what is there; a torn end is cut
// off.
func openJournal(dir string) (*journal, []entry, error) {
	f, err := os.OpenFile(filepath.Join(dir, journalName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	entries, size, err := readJournal(f)
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err == nil {
		err = linux.SyncDir(dir)
	}
	if err != nil {
		f.Close()
		return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	return &journal{f}, entries, nil
}

// write makes an entry durable.
func (j *journal) write(e entry) error {
	b := e.encode()
	at, err := j.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	crash.Here("stream-journal-before")
	if _, err = j.f.Write(b); err == nil {
		err = j.f.Sync()
	}
	if err != nil {
		// Nothing half-written may stay before later entries.
		terr := j.f.Truncate(at)
		if terr == nil {
			_, terr = j.f.Seek(at, io.SeekStart)
		}
		return fmt.Errorf("write %s: %w", j.f.Name(), errors.Join(err, terr))
	}
	crash.Here("stream-journal-after")
	return nil
}

// planHead is the first line of a plan file, planLine one line for each file.
type planHead struct {
	Version int  `json:"version"`
	Spec    Spec `json:"spec"`
}

type planLine struct {
	Path []byte `json:"path"` // may be anything but UTF-8
	fileset.Identity
	Codec protocol.Codec `json:"codec,omitempty"`
}

const planVersion = 1

// writePlan makes spec and plan durable in dir. The plan's units follow from the
// files and are not written.
func writePlan(dir string, spec *Spec, p *plan) error {
	temp := filepath.Join(dir, planName+".new")
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	w := bufio.NewWriter(z)
	enc := json.NewEncoder(w)
	err = enc.Encode(planHead{planVersion, *spec})
	for i := range p.files {
		if err != nil {
			return err
		}
		e := &p.files[i]
		err = enc.Encode(planLine{[]byte(e.path), e.Identity, e.codec})
	}
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = z.Close()
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, planName))
	}
	if err == nil {
		err = linux.SyncDir(dir)
	}
	return err
}

// readPlan reads what writePlan wrote.
func readPlan(dir string) (*Spec, *plan, error) {
	f, err := os.Open(filepath.Join(dir, planName))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	z, err := zstd.NewReader(f, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	defer z.Close()
	dec := json.NewDecoder(z)
	var head planHead
	if err := dec.Decode(&head); err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
	}
	if head.Version != planVersion {
		return nil, nil, fmt.Errorf("%s has version %d; this program reads %d", f.Name(), head.Version, planVersion)
	}
	m := newMaker(head.Spec.Rule)
	for {
		var line planLine
		if err := dec.Decode(&line); err == io.EOF {
			return &head.Spec, m.p, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("read %s: %w", f.Name(), err)
		}
		if err := m.add(string(line.Path), line.Identity, line.Codec); err != nil {
			return nil, nil, err
		}
	}
}
