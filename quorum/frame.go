package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"google.golang.org/protobuf/proto"

	pb "go.etcd.io/raft/v3/raftpb"
)

// A frame is what one fsync makes durable: a head, records of any groups, zeros up to a
// multiple of 8. Frames are numbered through all segments.
const (
	frameMagic = 0x51524d31
	frameHead  = 20 // magic, length of the records, checksum, number
	frameLimit = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sumFrame(head, records []byte) uint32 {
	return crc32.Update(crc32.Update(crc32.Checksum(head[4:8], castagnoli), castagnoli, head[12:frameHead]), castagnoli, records)
}

// sealFrame completes a buffer of frameHead free bytes and records.
func sealFrame(b []byte, number uint64) []byte {
	binary.LittleEndian.PutUint32(b, frameMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-frameHead))
	binary.LittleEndian.PutUint64(b[12:], number)
	binary.LittleEndian.PutUint32(b[8:], sumFrame(b, b[frameHead:]))
	for len(b)%8 != 0 {
		b = append(b, 0)
	}
	return b
}

// openFrame returns the records of the frame that b begins with, its number and length.
func openFrame(b []byte) (records []byte, number uint64, length int, ok bool) {
	if len(b) < frameHead || binary.LittleEndian.Uint32(b) != frameMagic {
		return nil, 0, 0, false
	}
	n := int(binary.LittleEndian.Uint32(b[4:]))
	length = (frameHead + n + 7) &^ 7
	if n > frameLimit || length > len(b) {
		return nil, 0, 0, false
	}
	records = b[frameHead : frameHead+n]
	if sumFrame(b, records) != binary.LittleEndian.Uint32(b[8:]) {
		return nil, 0, 0, false
	}
	return records, binary.LittleEndian.Uint64(b[12:]), length, true
}

// Kinds of records. Each names a group.
const (
	recGroup     = iota + 1 // the group is here, as this replica, and its log ended there
	recHard                 // term, vote, and what is known to be committed
	recEntries              // entries, which replace all from the first one's index on
	recStart                // the log begins behind this point
	recRestoring            // the machine is about to get the state of this point, or not
	recReset                // it has it: the log is empty and begins there
	recGone                 // the group is not here any more
)

var errRecord = errors.New("a record that makes no sense")

func putRecord(b []byte, kind byte, group uint64, numbers ...uint64) []byte {
	b = binary.AppendUvarint(append(b, kind), group)
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return b
}

func putBytes(b, p []byte) []byte { return append(binary.AppendUvarint(b, uint64(len(p))), p...) }

func putHard(b []byte, group uint64, h *pb.HardState) []byte {
	return putRecord(b, recHard, group, h.GetTerm(), h.GetVote(), h.GetCommit())
}

func putEntries(b []byte, group uint64, entries []*pb.Entry) []byte {
	b = putRecord(b, recEntries, group, uint64(len(entries)))
	for _, e := range entries {
		b = binary.AppendUvarint(b, e.GetTerm())
		b = binary.AppendUvarint(b, e.GetIndex())
		b = binary.AppendUvarint(b, uint64(e.GetType()))
		b = putBytes(b, e.GetData())
	}
	return b
}

func putPoint(b []byte, kind byte, group uint64, p point) []byte {
	conf, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.conf)
	if err != nil {
		panic(err) // a message of plain numbers
	}
	return putBytes(putRecord(b, kind, group, p.index, p.term), conf)
}

// reader takes records apart. After a fault all it returns is zero.
type reader struct {
	b   []byte
	err error
}

func (r *reader) number() uint64 {
	n, l := binary.Uvarint(r.b)
	if l <= 0 {
		r.b, r.err = nil, errRecord
		return 0
	}
	r.b = r.b[l:]
	return n
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.b, r.err = nil, errRecord
		return nil
	}
	p := r.b[:n:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) point() point {
	p := point{index: r.number(), term: r.number(), conf: &pb.ConfState{}}
	if err := proto.Unmarshal(r.bytes(), p.conf); err != nil && r.err == nil {
		r.err = fmt.Errorf("%w: %v", errRecord, err)
	}
	return p
}

func (r *reader) entries() []*pb.Entry {
	var all []*pb.Entry
	for n := r.number(); n > 0 && r.err == nil; n-- {
		e := &pb.Entry{Term: new(r.number()), Index: new(r.number()), Type: pb.EntryType(r.number()).Enum(), Data: bytes.Clone(r.bytes())}
		all = append(all, e)
	}
	return all
}
