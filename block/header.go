package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// A header says what a region is. It lies twice in the page before the region's first
// piece, at the beginning and in the middle: a new one is written over the older of the
// two, so that a write torn by a power failure leaves the other. Of two good ones that
// with the higher number counts.
type header struct {
	seq uint64
	// disk is random, and nobody but this store knows it: bytes of a user that look
	// like a header are none.
	disk   [16]byte
	file   uint64
	offset int64 // of the region in its combined file
	block  int64
	// stamp is the generation stamp, fence the highest that a recovery was promised.
	stamp, fence uint64
	capacity     int64
	kind         kind
	// since is the time of the disk in which a writer began (Config.Since); 0 is none that is known.
	since uint64
	// mark is the length when the header was written, durable one that was about to be
	// made durable with it, and settled one that had been before.
	mark, durable, settled mark
}

// mark is a length with the checksum of the chunk that it ends in; 0 if it ends with one.
type mark struct {
	length int64
	tail   uint32
}

// kind is what a region holds, as far as its header says.
type kind uint8

const (
	// writing: a block of a client that has not closed it.
	writing kind = iota + 1
	// copying: a copy that is being made from another node. It counts when it is final.
	copying
	final
	// gone: a deleted block. Its header stays, so that the next region is found.
	gone
)

var magic = [8]byte{'H', 'R', 'b', 'l', 'o', 'c', 'k', '1'}

const (
	slotSize  = page / 2
	headerLen = 144
)

// errHeader: these bytes are no header.
var errHeader = errors.New("no header of a block")

// wireHeader is a header as it lies on the disk, between magic and checksum.
type wireHeader struct {
	Seq                                uint64
	Disk                               [16]byte
	File                               uint64
	Offset, Block                      int64
	Stamp, Fence                       uint64
	Capacity, Length, Durable, Settled int64
	Tail, DurableTail, SettledTail     uint32
	Kind                               uint8
	Since                              uint64 // 0 where it was not noted yet
}

// append encodes h in headerLen bytes.
func (h *header) append(b []byte) []byte {
	start := len(b)
	b = append(b, magic[:]...)
	b, _ = binary.Append(b, binary.BigEndian, &wireHeader{
		Seq: h.seq, Disk: h.disk, File: h.file, Offset: h.offset, Block: h.block, Stamp: h.stamp, Fence: h.fence,
		Capacity: h.capacity, Length: h.mark.length, Durable: h.durable.length, Settled: h.settled.length,
		Tail: h.mark.tail, DurableTail: h.durable.tail, SettledTail: h.settled.tail, Kind: uint8(h.kind), Since: h.since})
	b = append(b, make([]byte, start+headerLen-4-len(b))...)
	return binary.BigEndian.AppendUint32(b, sum(b[start:]))
}

// parseHeader decodes what append has encoded.
func parseHeader(b []byte) (h header, err error) {
	if len(b) < headerLen || !bytes.Equal(b[:8], magic[:]) ||
		binary.BigEndian.Uint32(b[headerLen-4:]) != crc32.Checksum(b[:headerLen-4], castagnoli) {
		return h, errHeader
	}
	var w wireHeader
	if _, err := binary.Decode(b[8:], binary.BigEndian, &w); err != nil {
		return h, errHeader
	}
	h = header{seq: w.Seq, disk: w.Disk, file: w.File, offset: w.Offset, block: w.Block, stamp: w.Stamp, fence: w.Fence,
		capacity: w.Capacity, kind: kind(w.Kind), since: w.Since, mark: mark{w.Length, w.Tail}, durable: mark{w.Durable, w.DurableTail},
		settled: mark{w.Settled, w.SettledTail}}
	switch {
	case h.kind < writing || h.kind > gone,
		h.offset < 0 || h.offset%page != 0,
		h.capacity < 0 || h.capacity > maxCapacity,
		h.mark.length < 0 || h.mark.length > h.capacity,
		h.durable.length < 0 || h.durable.length > h.capacity,
		h.settled.length < 0 || h.settled.length > h.capacity:
		return header{}, errHeader
	}
	return h, nil
}

// maxCapacity keeps sums of offsets far from the end of int64.
const maxCapacity = 1 << 40

// newest returns the header that counts of the two in a page.
func newest(p []byte) (header, error) {
	a, aerr := parseHeader(p)
	b, berr := parseHeader(p[slotSize:])
	switch {
	case aerr != nil && berr != nil:
		return a, errHeader
	case aerr != nil || berr == nil && b.seq > a.seq:
		return b, nil
	}
	return a, nil
}

// slot is where in its page a header belongs.
func (h *header) slot() int64 { return int64(h.seq%2) * slotSize }
