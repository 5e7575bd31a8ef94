package pagecache

import (
	"math/bits"
	"sync/atomic"
)

// ReadPart is the granularity at which it is seen what is read of a file.
const ReadPart = BlockSize / 64

// SeesReads reports whether the kernel tells of reads to who may load BPF programs.
func SeesReads() bool { return traced("mm_filemap_get_pages") }

// ReadWatched is a Watched that also tells what is read. Those of New are.
type ReadWatched interface {
	Watched
	// TakeReads tells which parts of the file other processes than this one had read by
	// the last Refresh, and was not told yet, whoever asked of those that watch the file:
	// a bit for each ReadPart, 64 of them in each number. Nil: none, or that is not known;
	// it takes the method BPF and Linux 6.13. Reads through mappings (mmap) and past the
	// page cache (O_DIRECT) are not seen, nor is what is read before the first call for any
	// file: where nobody asks, reading costs nothing.
	TakeReads() []uint64
}

// ReadBytes returns how many bytes of a file of that size the parts have that TakeReads
// told of.
func ReadBytes(parts []uint64, size int64) (n int64) {
	for i, p := range parts {
		left := size - int64(i)*BlockSize
		if left <= 0 {
			break
		}
		if last := (left - 1) / ReadPart; last < 64 { // the file ends in it
			if p &= ^uint64(0) >> (63 - last); p>>last != 0 {
				n += left - (last+1)*ReadPart // its last part is a short one
			}
		}
		n += int64(bits.OnesCount64(p)) * ReadPart
	}
	return n
}

// seeReads takes in what the kernel has seen since. f.mu is held.
func (f *file) seeReads() {
	if f.counted == nil || f.c.counters.reads == nil {
		return
	}
	for i := range min(len(f.blocks), len(f.counted.marks)) {
		p := &f.c.counters.reads[f.counted.span.First+uint32(i)]
		if atomic.LoadUint64(p) == 0 {
			continue
		}
		f.telling.Lock()
		if len(f.reads) <= i {
			f.reads = append(f.reads, make([]uint64, i+1-len(f.reads))...)
		}
		f.reads[i] |= atomic.SwapUint64(p, 0)
		f.telling.Unlock()
	}
}

// TakeReads implements ReadWatched.
func (w *watched) TakeReads() []uint64 {
	if k := w.f.c.counters; k != nil && k.reads != nil {
		w.f.c.seeReads.Do(func() {
			if err := k.seeReads(); err != nil {
				w.f.c.cfg.Log.Warn("page cache: it is not seen what is read", "err", err)
			}
		})
	}
	w.f.telling.Lock()
	defer w.f.telling.Unlock()
	reads := w.f.reads
	w.f.reads = nil
	return reads
}
