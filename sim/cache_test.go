package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// plainCache is the same with a list: the first was used last.
type plainCache struct {
	size int64
	list []plainEntry
}

type plainEntry struct {
	piece int32
	bytes int64
	pins  int
	used  int
}

func (p *plainCache) sums() (bytes, pinned int64) {
	for _, e := range p.list {
		bytes += e.bytes
		if e.pins > 0 {
			pinned += e.bytes
		}
	}
	return bytes, pinned
}

func (p *plainCache) put(piece int32, bytes int64, now int) (gone []int32, ok bool) {
	if _, pinned := p.sums(); pinned+bytes > p.size {
		return nil, false
	}
	for {
		all, _ := p.sums()
		if all+bytes <= p.size {
			break
		}
		oldest := -1
		for i, e := range p.list {
			if e.pins == 0 && (oldest < 0 || e.used < p.list[oldest].used) {
				oldest = i
			}
		}
		gone = append(gone, p.list[oldest].piece)
		p.list = slices.Delete(p.list, oldest, oldest+1)
	}
	p.list = append(p.list, plainEntry{piece, bytes, 0, now})
	return gone, true
}

func TestCacheAgainstPlain(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := &plainCache{size: 1000}
		var gone []int32
		c := newCache(1000, func(piece int32, _ int64) { gone = append(gone, piece) })
		evictions := 0
		for now := range 600 {
			piece := r.Int32N(30)
			i := slices.IndexFunc(p.list, func(e plainEntry) bool { return e.piece == piece })
			x := c.get(piece)
			if (x != nil) != (i >= 0) {
				t.Fatalf("seed %d: piece %d is there: %v, want %v", seed, piece, x != nil, i >= 0)
			}
			gone = gone[:0]
			switch k := r.IntN(4); {
			case x == nil:
				bytes := 1 + r.Int64N(300)
				want, ok := p.put(piece, bytes, now)
				if got := c.put(piece, bytes); got != ok || !slices.Equal(gone, want) {
					t.Fatalf("seed %d: put %d: %v, gone %v; want %v, %v", seed, piece, got, gone, ok, want)
				}
				evictions += len(want)
			case k == 0:
				c.pin(x)
				p.list[i].pins++
			case k == 1 && x.pins > 0:
				c.unpin(x)
				p.list[i].pins--
				p.list[i].used = now
			default:
				c.use(x)
				p.list[i].used = now
			}
			if bytes, pinned := p.sums(); bytes != c.bytes || pinned != c.pinned || len(c.entries) != len(p.list) {
				t.Fatalf("seed %d: %d bytes, %d pinned; want %d, %d", seed, c.bytes, c.pinned, bytes, pinned)
			}
		}
		if evictions == 0 {
			t.Errorf("seed %d: nothing was evicted", seed)
		}
	}
}
