package pagecache

import (
	"math/bits"
	"slices"
	"time"
)

// A span is a number of counters in a row. Its layout is that of struct span in
// pagewatch.bpf.c.
type span struct{ First, Count uint32 }

// spans hands out spans of an array of counters. Their sizes are powers of two,
// halves of a larger one that was split (the buddy system), so that files grow a
// good while before they need another span.
type spans struct {
	// free[k] are the starts of free spans of 2^k.
	free    [33][]uint32
	retired []retired
}

// A retired span waits until nobody can be counting in it any more.
type retired struct {
	span
	since time.Time
}

// retirement is how long. A program in the kernel that has just looked up the
// span may be interrupted before it counts.
const retirement = time.Second

// newSpans returns spans with all counters free; their number must be a power of two.
func newSpans(count uint32) *spans {
	s := &spans{}
	k := bits.Len32(count) - 1
	s.free[k] = []uint32{0}
	return s
}

// take returns a span of at least count counters, or false.
func (s *spans) take(count uint32, now time.Time) (span, bool) {
	s.reclaim(now)
	want := bits.Len32(max(count, 1) - 1)
	k := want
	for k < len(s.free) && len(s.free[k]) == 0 {
		k++
	}
	if k == len(s.free) {
		return span{}, false
	}
	last := len(s.free[k]) - 1
	first := s.free[k][last]
	s.free[k] = s.free[k][:last]
	for k > want {
		k--
		s.free[k] = append(s.free[k], first+1<<k)
	}
	return span{first, 1 << want}, true
}

// retire gives a span back for later.
func (s *spans) retire(sp span, now time.Time) {
	s.retired = append(s.retired, retired{sp, now})
}

// reclaim makes free what has retired long enough ago.
func (s *spans) reclaim(now time.Time) {
	n := 0
	for n < len(s.retired) && now.Sub(s.retired[n].since) >= retirement {
		s.give(s.retired[n].span)
		n++
	}
	s.retired = slices.Delete(s.retired, 0, n)
}

// give makes a span free, joined with its other half if that is free too.
func (s *spans) give(sp span) {
	k := bits.Len32(sp.Count) - 1
	first := sp.First
	for {
		i := slices.Index(s.free[k], first^1<<k)
		if i < 0 {
			break
		}
		s.free[k] = slices.Delete(s.free[k], i, i+1)
		first &^= 1 << k
		k++
	}
	s.free[k] = append(s.free[k], first)
}
