package sim

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"
)

// plainDisk is the same by brute force: every reader's bytes are counted down at
// each change.
type plainDisk struct {
	alone, shared float64
	left          map[int]float64
	behind        int // who is behind, or -1
	behindLeft    float64
}

func (p *plainDisk) rate() float64 {
	if len(p.left) == 1 {
		return p.alone
	}
	return p.shared / float64(len(p.left))
}

// pass lets time pass. Nobody must end in it.
func (p *plainDisk) pass(took float64) {
	if len(p.left) == 0 {
		p.behindLeft = max(0, p.behindLeft-took*p.alone)
		return
	}
	rate := p.rate()
	for i := range p.left {
		p.left[i] -= took * rate
	}
}

// next is in how many seconds somebody ends.
func (p *plainDisk) next() float64 {
	if len(p.left) == 0 {
		if p.behind < 0 {
			return math.Inf(1)
		}
		return p.behindLeft / p.alone
	}
	least := math.Inf(1)
	for _, l := range p.left {
		least = min(least, l)
	}
	return least / p.rate()
}

// TestDiskAgainstPlain compares, over random arrivals, departures, promotions and
// demotions, when who ends.
func TestDiskAgainstPlain(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		b := &bandwidth{alone: 150e6, shared: 80e6}
		p := &plainDisk{alone: 150e6, shared: 80e6, left: map[int]float64{}, behind: -1}
		flows := map[int]*flow{}
		now, n, ends := time.Duration(0), 0, 0
		for range 400 {
			after := time.Duration(r.ExpFloat64() * float64(500*time.Millisecond))
			due, ok := b.next()
			want := p.next()
			if ok != !math.IsInf(want, 1) || ok && math.Abs(due.Seconds()-want) > 1e-7 {
				t.Fatalf("seed %d at %v: the next ends in %v, by brute force in %v s", seed, now, due, want)
			}
			if ok && due <= after {
				now += due
				b.advance(now)
				p.pass(due.Seconds())
				for _, f := range b.ended(nil) {
					i := -1
					for k, g := range flows {
						if g == f {
							i = k
						}
					}
					left, reads := p.left[i]
					if i == p.behind {
						left, p.behind = p.behindLeft, -1
					} else if !reads {
						t.Fatalf("seed %d: %d ends and does not read", seed, i)
					}
					if math.Abs(left) > 2 {
						t.Fatalf("seed %d: %d ends with %v bytes left", seed, i, left)
					}
					delete(p.left, i)
					delete(flows, i)
					ends++
				}
				continue
			}
			now += after
			b.advance(now)
			p.pass(after.Seconds())
			who := -1
			for k := range flows {
				if who < 0 || k < who {
					who = k // any, but the same each time
				}
			}
			switch k := r.IntN(8); {
			case k < 4 || who < 0:
				f := &flow{place: nowhere}
				bytes := 1 + r.Int64N(200e6)
				flows[n] = f
				if b.behind == nil && k == 0 {
					b.addBehind(f, bytes)
					p.behind, p.behindLeft = n, float64(bytes)
				} else {
					b.add(f, bytes)
					p.left[n] = float64(bytes)
				}
				n++
			case k == 4:
				if left := b.left(flows[who]); who == p.behind && math.Abs(left-p.behindLeft) > 2 || who != p.behind && math.Abs(left-p.left[who]) > 2 {
					t.Fatalf("seed %d: %d has %v bytes left, want %v or %v", seed, who, left, p.left[who], p.behindLeft)
				}
				b.remove(flows[who])
				delete(flows, who)
				delete(p.left, who)
				if who == p.behind {
					p.behind = -1
				}
			case k == 5 && p.behind >= 0:
				b.promote(flows[p.behind])
				p.left[p.behind] = p.behindLeft
				p.behind = -1
			case k == 6 && p.behind < 0:
				b.demote(flows[who])
				p.behind, p.behindLeft = who, p.left[who]
				delete(p.left, who)
			}
		}
		if ends < 20 {
			t.Fatalf("seed %d: only %d ended", seed, ends)
		}
	}
}

// TestDiskShares reckons the textbook case: the second reader makes both slow, and
// the first is alone again when it has gone.
func TestDiskShares(t *testing.T) {
	b := &bandwidth{alone: 100, shared: 60}
	first, second := &flow{}, &flow{}
	b.add(first, 1000)
	b.advance(2 * time.Second) // 800 left
	b.add(second, 300)
	if d, _ := b.next(); d != 10*time.Second {
		t.Fatalf("the second ends after %v, want 10 s", d)
	}
	b.advance(12 * time.Second)
	if e := b.ended(nil); len(e) != 1 || e[0] != second {
		t.Fatalf("ended: %v", e)
	}
	if d, _ := b.next(); d != 5*time.Second {
		t.Fatalf("the first ends %v later, want 5 s", d)
	}
	if b.busy != 12*time.Second {
		t.Errorf("busy for %v", b.busy)
	}
}

func BenchmarkDisk(b *testing.B) {
	for _, readers := range []int{1, 10, 100, 1000, 10000} {
		b.Run(strconv.Itoa(readers), func(b *testing.B) {
			d := &bandwidth{alone: 150e6, shared: 80e6}
			r := rand.New(rand.NewPCG(1, 2))
			var now time.Duration
			for range readers {
				d.add(&flow{}, 1+r.Int64N(200e6))
			}
			var buf []*flow
			for b.Loop() {
				after, _ := d.next()
				now += after
				d.advance(now)
				buf = d.ended(buf[:0])
				for _, f := range buf {
					d.add(f, 1+r.Int64N(200e6))
				}
			}
		})
	}
}
