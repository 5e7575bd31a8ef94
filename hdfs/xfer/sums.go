package xfer

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"

	"headrace/hdfs/pb"
)

// Chunk is how many bytes of a replica have a checksum of their own, Sum how many bytes that has.
const (
	Chunk = 512
	Sum   = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSums adds the checksums of data's chunks: CRC32C, big-endian.
func AppendSums(sums, data []byte) []byte { return (checksum{Chunk, castagnoli}).append(sums, data) }

// checksum is a kind of checksum: of so many bytes, by a polynomial. Without a table there is none.
type checksum struct {
	chunk int
	table *crc32.Table
}

// ours is what stores have.
func ours() *pb.ChecksumProto {
	return &pb.ChecksumProto{Type: pb.ChecksumTypeProto_CHECKSUM_CRC32C.Enum(), BytesPerChecksum: pbUint32(Chunk)}
}

func pbUint32(v uint32) *uint32 { return &v }

// mostChunk is the largest chunk, in bytes, that a client may ask for.
const mostChunk = 1 << 20

// checksumOf returns what a client asks for.
func checksumOf(m *pb.ChecksumProto) (checksum, error) {
	n := m.GetBytesPerChecksum()
	if n == 0 || n > mostChunk {
		return checksum{}, fmt.Errorf("a checksum of %d bytes", n)
	}
	c := checksum{chunk: int(n)}
	switch m.GetType() {
	case pb.ChecksumTypeProto_CHECKSUM_NULL:
	case pb.ChecksumTypeProto_CHECKSUM_CRC32:
		c.table = crc32.IEEETable
	case pb.ChecksumTypeProto_CHECKSUM_CRC32C:
		c.table = castagnoli
	default:
		return checksum{}, fmt.Errorf("a checksum of type %v", m.GetType())
	}
	return c, nil
}

// append adds the checksums of data, which begins with a chunk.
func (c checksum) append(sums, data []byte) []byte {
	for part := range slices.Chunk(data, c.chunk) {
		sums = binary.BigEndian.AppendUint32(sums, crc32.Checksum(part, c.table))
	}
	return sums
}

// size returns how many bytes the checksums of so many have.
func (c checksum) size(data int) int {
	if c.table == nil {
		return 0
	}
	return (data + c.chunk - 1) / c.chunk * Sum
}

// verify compares data with its checksums.
func (c checksum) verify(data, sums []byte) error {
	if len(sums) != c.size(len(data)) {
		return refuse(pb.Status_ERROR_CHECKSUM, "%d bytes have %d bytes of checksums", len(data), len(sums))
	}
	if c.table == nil {
		return nil
	}
	at := 0
	for part := range slices.Chunk(data, c.chunk) {
		if want, is := binary.BigEndian.Uint32(sums[at/c.chunk*Sum:]), crc32.Checksum(part, c.table); want != is {
			return refuse(pb.Status_ERROR_CHECKSUM, "the checksum of %d bytes at %d is %08x, not %08x", len(part), at, is, want)
		}
		at += len(part)
	}
	return nil
}

// splicer turns the packets of a client into writes of a store, which go on where the replica ends, with
// checksums of the store's kind. A client sends again what was in a chunk that it had not filled, and a
// client that appends sends first what fills the last chunk (DFSOutputStream.adjustChunkBoundary).
type splicer struct {
	client checksum
	length int64  // of the replica
	tail   uint32 // the checksum of its last chunk, when that is not full
	sums   []byte
}

// again returns what the replica has already of a packet, at its beginning.
func (s *splicer) again(p *packet) []byte {
	return p.data[:min(max(0, s.length-p.offset), int64(len(p.data)))]
}

// asStored reports whether the checksums of what is new in a packet are those that a store has. That of a chunk of which the replica
// has a part is made here: it may be of a part that others have written, and the client does not know.
func (s *splicer) asStored(p *packet) bool {
	return s.client == checksum{Chunk, castagnoli} && p.offset%Chunk == 0 && s.length%Chunk == 0
}

// splice returns what is new in a packet, where it belongs, and the checksums of all chunks it touches, so far.
func (s *splicer) splice(p *packet) (offset int64, data, sums []byte, err error) {
	if p.offset > s.length {
		return 0, nil, nil, fmt.Errorf("a packet of bytes at %d, where %d are expected", p.offset, s.length)
	}
	offset = s.length
	skip := int(min(s.length-p.offset, int64(len(p.data))))
	if data = p.data[skip:]; len(data) == 0 {
		return offset, nil, nil, nil
	}
	if s.asStored(p) {
		sums = p.sums[(offset-p.offset)/Chunk*Sum:]
	} else {
		sums = s.compute(data)
	}
	s.length += int64(len(data))
	if s.length%Chunk != 0 {
		s.tail = binary.BigEndian.Uint32(sums[len(sums)-Sum:])
	}
	return offset, data, sums, nil
}

// compute returns the checksums of chunks that data, at the end of the replica, touches.
func (s *splicer) compute(data []byte) []byte {
	s.sums = s.sums[:0]
	if in := int(s.length % Chunk); in > 0 {
		rest := min(Chunk-in, len(data))
		s.sums = binary.BigEndian.AppendUint32(s.sums, crc32.Update(s.tail, castagnoli, data[:rest]))
		data = data[rest:]
	}
	s.sums = AppendSums(s.sums, data)
	return s.sums
}
