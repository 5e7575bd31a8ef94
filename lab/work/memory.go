package work

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pageSize is the unit of everything that is filled and checked. It is the
// smallest page of the kernels that this runs on, not necessarily theirs.
const pageSize = 4096

// words is anonymous memory outside the garbage collector, so that a workload
// holds what it was asked for and no more.
type words []uint64

// allocate maps bytes, rounded up to whole pages. No page is present before it is
// written.
func allocate(bytes int64) (words, error) {
	n := (bytes + pageSize - 1) / pageSize * pageSize
	if n <= 0 {
		return nil, fmt.Errorf("allocate %d bytes: want at least one", bytes)
	}
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	return unsafe.Slice((*uint64)(unsafe.Pointer(&b[0])), n/8), nil
}

// pages returns the number of pages of w.
func (w words) pages() int { return len(w) / (pageSize / 8) }

// page returns the i-th one.
func (w words) page(i int) []uint64 { return w[i*pageSize/8 : (i+1)*pageSize/8] }

// Random is the splitmix64 generator: every state is good, also 0, and nearby
// ones are unrelated.
type Random uint64

// Next draws a number.
func (r *Random) Next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// pageSeed returns the state that fills one version of one page.
func pageSeed(seed uint64, page int, version uint64) Random {
	r := Random(seed ^ uint64(page)*0xd1342543de82ef95)
	return Random(r.Next() + version)
}

// fillPage writes random values and returns their sum.
func fillPage(p []uint64, r Random) uint64 {
	var sum uint64
	for i := range p {
		v := r.Next()
		p[i] = v
		sum += v
	}
	return sum
}

// sumPage returns what fillPage returned for the same content.
func sumPage(p []uint64) uint64 {
	var sum uint64
	for _, v := range p {
		sum += v
	}
	return sum
}

// fold adds v to a checksum that depends on the order.
func fold(sum, v uint64) uint64 {
	r := Random(sum ^ v)
	return r.Next()
}
