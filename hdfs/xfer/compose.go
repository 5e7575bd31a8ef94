package xfer

import (
	"encoding/binary"
	"hash/crc32"
)

// Checksums are composed as polynomials over GF(2): that of A and B together is that of A times x^(8|B|), plus
// that of B, modulo the generator; crc32_combine of zlib, CrcUtil of Hadoop. The first coefficient is the highest bit.

// one is the polynomial 1, and xBytes is x^8.
const (
	one    = uint32(1) << 31
	xBytes = one >> 8
)

// times multiplies modulo CRC32C's generator.
func times(a, b uint32) (p uint32) {
	for m := one; m != 0; m >>= 1 {
		if a&m != 0 {
			p ^= b
		}
		if b&1 != 0 {
			b = b>>1 ^ crc32.Castagnoli
		} else {
			b >>= 1
		}
	}
	return p
}

// shift returns x^(8n).
func shift(n int) uint32 {
	p := one
	for x := xBytes; n > 0; n >>= 1 {
		if n&1 != 0 {
			p = times(p, x)
		}
		x = times(x, x)
	}
	return p
}

var shiftChunk = shift(Chunk)

// compose returns the checksum of bytes of which sum is that of the beginning, and sums those of the chunks
// after it, which have so many bytes.
func compose(sum uint32, sums []byte, bytes int) uint32 {
	for ; len(sums) >= Sum; sums = sums[Sum:] {
		by := shiftChunk
		if bytes < Chunk {
			by = shift(bytes)
		}
		sum = times(sum, by) ^ binary.BigEndian.Uint32(sums)
		bytes -= Chunk
	}
	return sum
}
