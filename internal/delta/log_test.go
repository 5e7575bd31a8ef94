package delta

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// reader applies answers as whoever is told would.
type reader struct {
	seq  uint64
	seen map[int]int
}

func (r *reader) ask(l *Log[int], truth map[int]int, most int) (keys []int, full bool, next uint64) {
	next, keys, full = l.Since(r.seq, most, maps.Keys(truth))
	return slices.Clone(keys), full, next
}

func (r *reader) apply(truth map[int]int, keys []int, full bool, next uint64) {
	if full {
		clear(r.seen)
	}
	for _, k := range keys {
		if v, ok := truth[k]; ok {
			r.seen[k] = v
		} else {
			delete(r.seen, k)
		}
	}
	r.seq = next
}

// TestReaderCatchesUp: whatever is lost on the way, and whoever starts anew, the reader
// knows the truth in the end, and is told all of it only when one starts anew.
func TestReaderCatchesUp(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		first := uint64(1000)
		truth, l := map[int]int{}, New[int](first)
		to := &reader{seen: map[int]int{}}
		lossy := seed%2 == 0
		fulls, most := 0, 1
		for range 300 {
			switch r.IntN(8) {
			case 0, 1, 2, 3:
				k := r.IntN(20)
				truth[k] = r.Int()
				l.Touch(k)
			case 4:
				k := r.IntN(20)
				delete(truth, k)
				l.Touch(k)
			case 5, 6:
				before := l.Pending()
				keys, full, next := to.ask(l, truth, 1+r.IntN(10))
				if full {
					fulls++
				}
				if next == to.seq && (full || len(keys) > 0 || before > 0) {
					t.Fatalf("seed %d: %d keys with no new number, %d were pending", seed, len(keys), before)
				}
				if lossy && r.IntN(3) == 0 {
					seen["lost"]++
					if full {
						most++
					}
					continue
				}
				to.apply(truth, keys, full, next)
			case 7:
				if !lossy {
					continue
				}
				if r.IntN(4) == 0 {
					most++
					seen["reader starts anew"]++
					to = &reader{seen: map[int]int{}}
				} else if r.IntN(4) == 0 {
					seen["log starts anew"]++
					most++
					first += 1000
					l = New[int](first)
				}
			}
		}
		for range 30 {
			keys, full, next := to.ask(l, truth, 3)
			to.apply(truth, keys, full, next)
		}
		if !maps.Equal(to.seen, truth) {
			t.Fatalf("seed %d: the reader knows %v, true is %v", seed, to.seen, truth)
		}
		if fulls > most {
			t.Fatalf("seed %d: all was told %d times, and need be %d times", seed, fulls, most)
		}
		if n := l.Pending(); n > 0 {
			t.Fatalf("seed %d: %d are pending at the end", seed, n)
		}
	}
	for _, what := range []string{"lost", "reader starts anew", "log starts anew"} {
		if seen[what] < 100 {
			t.Errorf("only %d cases of %s", seen[what], what)
		}
	}
}

func TestReady(t *testing.T) {
	l := New[int](1)
	is := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	c := l.Ready()
	if is(c) {
		t.Error("ready with nothing to tell")
	}
	l.Touch(1)
	if !is(c) || !is(l.Ready()) {
		t.Error("not ready after a change")
	}
	none := func(func(int) bool) {}
	seq, _, full := l.Since(0, 10, none)
	if !full || is(l.Ready()) {
		t.Errorf("ready after all was told, full=%v", full)
	}
	if next, keys, full := l.Since(seq, 10, none); next != seq || len(keys) > 0 || full {
		t.Errorf("nothing has changed: %d instead of %d, %v, %v", next, seq, keys, full)
	}
}

// TestOldestFirst: what changed first is told first, also if it changes again meanwhile.
func TestOldestFirst(t *testing.T) {
	l := New[int](0)
	seq, _, _ := l.Since(0, 2, slices.Values([]int(nil)))
	for _, k := range []int{5, 3, 9, 5, 1, 3} {
		l.Touch(k)
	}
	for _, want := range [][]int{{5, 3}, {9, 1}} {
		next, keys, _ := l.Since(seq, 2, nil)
		if !slices.Equal(keys, want) {
			t.Errorf("it tells %v, want %v", keys, want)
		}
		seq = next
	}
}
