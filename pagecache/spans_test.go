package pagecache

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Spans never overlap, rest before they are used again, and come back whole.
func TestSpansAtRandom(t *testing.T) {
	const all = 1 << 10
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := newSpans(all)
		now := time.Now()
		taken := map[span]bool{}
		var owner [all]bool
		var resting [all]time.Time
		for range 2000 {
			now = now.Add(time.Duration(rnd.IntN(200)) * time.Millisecond)
			if rnd.IntN(2) == 0 {
				for sp := range taken { // any
					delete(taken, sp)
					s.retire(sp, now)
					for i := sp.First; i < sp.First+sp.Count; i++ {
						owner[i], resting[i] = false, now
					}
					break
				}
				continue
			}
			want := uint32(1 + rnd.IntN(1<<rnd.IntN(11)))
			sp, ok := s.take(want, now)
			if !ok {
				continue
			}
			if sp.Count < want || sp.Count >= 2*want || sp.First+sp.Count > all {
				t.Fatalf("seed %d: %v for %d", seed, sp, want)
			}
			for i := sp.First; i < sp.First+sp.Count; i++ {
				if owner[i] || now.Sub(resting[i]) < retirement {
					t.Fatalf("seed %d: counter %d of %v is not free", seed, i, sp)
				}
				owner[i] = true
			}
			taken[sp] = true
		}
		for sp := range taken {
			s.retire(sp, now)
		}
		if sp, ok := s.take(all, now.Add(retirement)); !ok || sp != (span{0, all}) {
			t.Fatalf("seed %d: not all came back: %v, %v", seed, sp, ok)
		}
		if sp, ok := s.take(1, now.Add(retirement)); ok {
			t.Fatalf("seed %d: %v of none", seed, sp)
		}
	}
}
