package block

import (
	"hash/crc32"
	"os"
)

const (
	// Chunk is how many bytes have one checksum, as HDFS's clients want it.
	Chunk = 512
	// SumSize is that of a checksum: CRC32C, big-endian.
	SumSize = 4
	// Piece is how many bytes of a block lie together behind their checksums: the
	// block of VeloxDFS.
	Piece = 8 << 20

	// page is what parts of a file begin at a multiple of, on every machine. The kernel's pages may be larger.
	page       = 4096
	headerSize = page
)

// pageSize is that of the kernel's pages.
var pageSize = int64(os.Getpagesize())

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func sum(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// layout is where things lie in a region:
//
//	[header][checksums | data][checksums | data] ...
//
// A region starts at a multiple of a page, and so does each of its parts. The checksums
// of a piece fill 64 KB exactly.
type layout struct{ piece int64 }

// sums is how many bytes the checksums before a piece take.
func (l layout) sums() int64 { return up(l.piece/Chunk*SumSize, page) }

// size is that of a region for a block of at most capacity bytes.
func (l layout) size(capacity int64) int64 {
	return up(headerSize+up(capacity, l.piece)/l.piece*l.sums()+capacity, page)
}

// dataAt is where the byte at off of a block lies in its region.
func (l layout) dataAt(off int64) int64 {
	return headerSize + (off/l.piece+1)*l.sums() + off
}

// sumAt is where the checksum of the chunk that has the byte at off lies.
func (l layout) sumAt(off int64) int64 {
	start := headerSize + off/l.piece*(l.sums()+l.piece)
	return start + off%l.piece/Chunk*SumSize
}

// pieceEnd is the end of the piece that has the byte at off.
func (l layout) pieceEnd(off int64) int64 { return down(off, l.piece) + l.piece }

func down(n, to int64) int64 { return n / to * to }
func up(n, to int64) int64   { return down(n+to-1, to) }
