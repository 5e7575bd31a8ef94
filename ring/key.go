package ring

import "math/bits"

// golden is 2^64 divided by the golden ratio. Its multiples, modulo 2^64, are spread as
// evenly as those of any number can be, whatever their count.
const golden = 0x9e3779b97f4a7c15

// hash is FNV-1a with the end of splitmix64, as FNV alone leaves the upper bits, which
// choose the segment, alike for names that differ at the end.
func hash(key string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(key) {
		h = (h ^ uint64(key[i])) * 1099511628211
	}
	return mix(h)
}

func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Segment returns the segment of a key. Segment s of n has the keys whose hashes are in
// [s, s+1) * 2^64/n.
func (t *Table) Segment(key string) uint16 {
	s, _ := bits.Mul64(hash(key), uint64(len(t.segments)))
	return uint16(s)
}

// Place chooses the segment of a file's new block. The blocks of a file go round the
// segments in the order of their owners, in steps of the golden ratio, so owners get
// nearly equal parts even of a short file. Who calls keeps the answer with the block: in
// the next epoch it may be another one.
func (t *Table) Place(file uint64, block int) uint16 {
	at := mix(file+golden) + uint64(block)*golden
	i, _ := bits.Mul64(at, uint64(len(t.arcs)))
	return t.arcs[i]
}
