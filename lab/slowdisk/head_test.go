package slowdisk

import (
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// An ending is one served request.
type ending struct {
	file   uint64
	offset int64
	at     time.Duration
}

// drive serves requests, given in the order of their arrival, in virtual time.
func drive(m Model, requests []request) ([]ending, Stats) {
	h := &head{model: m}
	var out []ending
	next := 0
	pushUntil := func(moment time.Duration) {
		for next < len(requests) && requests[next].arrived <= moment {
			h.push(&requests[next])
			next++
		}
	}
	for next < len(requests) || len(h.queue) > 0 {
		pushUntil(h.free)
		if len(h.queue) == 0 {
			pushUntil(requests[next].arrived)
		}
		pushUntil(h.patience())
		r := h.serve()
		out = append(out, ending{r.file, r.offset, h.free})
	}
	return out, h.stats
}

const (
	ms  = time.Millisecond
	mib = 1 << 20
)

// round returns a model with which times can be computed in the head: 1 MiB in 10 ms.
func round() Model {
	return Model{Seek: 8 * ms, Rotation: 4 * ms, Bandwidth: 100 * mib, MaxRequest: mib, Slice: 3 * mib, Window: 2 * mib, Lookahead: ms}
}

func TestHead(t *testing.T) {
	at := func(when time.Duration, file uint64, offset int64) request {
		return request{file: file, offset: offset * mib, length: mib, arrived: when}
	}
	done := func(when time.Duration, file uint64, offset int64) ending { return ending{file, offset * mib, when} }
	for name, c := range map[string]struct {
		requests []request
		want     []ending
		seeks    int64
	}{
		"one": {[]request{at(5*ms, 1, 0)}, []ending{done(27*ms, 1, 0)}, 1},
		"in a row": {
			[]request{at(0, 1, 0), at(0, 1, 1), at(0, 1, 2)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1), done(42*ms, 1, 2)}, 1},
		"a little late, but in time for what the drive reads on": {
			[]request{at(0, 1, 0), at(23*ms, 1, 1)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1)}, 1},
		"later than that": {
			[]request{at(0, 1, 0), at(24*ms, 1, 1)},
			[]ending{done(22*ms, 1, 0), done(34*ms, 1, 1)}, 1},
		"a little late elsewhere": {
			[]request{at(0, 1, 0), at(22*ms+1, 2, 1)},
			[]ending{done(22*ms, 1, 0), done(44*ms+1, 2, 1)}, 2},
		"the same offset of another file is elsewhere": {
			[]request{at(0, 1, 0), at(0, 2, 1)},
			[]ending{done(22*ms, 1, 0), done(44*ms, 2, 1)}, 2},
		"the same again is elsewhere": {
			[]request{at(0, 1, 0), at(0, 1, 0)},
			[]ending{done(22*ms, 1, 0), done(44*ms, 1, 0)}, 2},
		"what goes on goes first": {
			[]request{at(0, 1, 0), at(ms, 2, 0), at(2*ms, 1, 1)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1), done(54*ms, 2, 0)}, 2},
		"but not after a slice": {
			[]request{at(0, 1, 0), at(0, 2, 0), at(0, 1, 1), at(0, 1, 2), at(0, 1, 3)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1), done(42*ms, 1, 2), done(64*ms, 2, 0), done(86*ms, 1, 3)}, 3},
		"a slice alone is no reason to seek": {
			[]request{at(0, 1, 0), at(0, 1, 1), at(0, 1, 2), at(0, 1, 3), at(0, 1, 4)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1), done(42*ms, 1, 2), done(52*ms, 1, 3), done(62*ms, 1, 4)}, 1},
		"neighbours in disorder": {
			[]request{at(0, 9, 0), at(1, 1, 2), at(2, 1, 1), at(3, 1, 0)},
			[]ending{done(22*ms, 9, 0), done(44*ms, 1, 0), done(54*ms, 1, 1), done(64*ms, 1, 2)}, 2},
		"neighbours in disorder before a head that is idle": {
			[]request{at(ms, 1, 1), at(4*ms, 1, 0)},
			[]ending{done(26*ms, 1, 0), done(36*ms, 1, 1)}, 1},
		"too late for that": {
			[]request{at(ms, 1, 1), at(4*ms+1, 1, 0)},
			[]ending{done(23*ms, 1, 1), done(45*ms, 1, 0)}, 2},
		"what was left out comes in time": {
			[]request{at(0, 1, 0), at(ms, 1, 2), at(23*ms, 1, 1)},
			[]ending{done(22*ms, 1, 0), done(32*ms, 1, 1), done(42*ms, 1, 2)}, 1},
		"nobody waits for other files": {
			[]request{at(0, 1, 0), at(ms, 2, 2), at(22*ms+1, 1, 1)},
			[]ending{done(22*ms, 1, 0), done(44*ms, 2, 2), done(66*ms, 1, 1)}, 3},
		"those beyond the window are no neighbours": {
			[]request{at(0, 9, 0), at(1, 1, 5), at(2, 1, 2)},
			[]ending{done(22*ms, 9, 0), done(44*ms, 1, 5), done(66*ms, 1, 2)}, 3},
		"those behind are not either": {
			[]request{at(0, 9, 0), at(1, 1, 5), at(2, 1, 7)},
			[]ending{done(22*ms, 9, 0), done(44*ms, 1, 5), done(66*ms, 1, 7)}, 3},
	} {
		got, stats := drive(round(), c.requests)
		if !slices.Equal(got, c.want) || stats.Seeks != c.seeks {
			t.Errorf("%s: %v with %d seeks, want %v with %d", name, got, stats.Seeks, c.want, c.seeks)
		}
	}
}

func TestHeadCounts(t *testing.T) {
	_, got := drive(round(), []request{
		{file: 1, length: mib}, {file: 1, offset: mib, length: mib, write: true}, {file: 3, length: 2 * mib, write: true},
	})
	if want := (Stats{Requests: 3, Seeks: 2, Read: mib, Written: 3 * mib, Busy: 64 * ms}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// serveNaively returns the model as its documentation says it, without regard to
// anything else.
func serveNaively(m Model, requests []request) []ending {
	type pending struct {
		request
		number int
	}
	var left []pending
	for i, r := range requests {
		left = append(left, pending{r, i})
	}
	var out []ending
	var now time.Duration  // the head is free
	var seen time.Duration // what has come by then is known
	var file uint64
	end, row := int64(-1), int64(0)
	goesOn := func(p pending) bool { return end >= 0 && p.file == file && p.offset == end }
	for len(left) > 0 {
		// Who is there when the head chooses?
		pick := func(moment time.Duration) pending {
			var here []pending
			for _, p := range left {
				if p.arrived <= moment {
					here = append(here, p)
				}
			}
			if row < m.Slice {
				if i := slices.IndexFunc(here, goesOn); i >= 0 {
					return here[i]
				}
			}
			best := here[0]
			for _, p := range here {
				if p.file == here[0].file && p.offset < best.offset && p.offset >= here[0].offset-m.Window {
					best = p
				}
			}
			return best
		}
		chosen := pick(max(now, seen, left[0].arrived))
		alone := left[0].arrived > now
		leavesOut := end >= 0 && chosen.file == file && chosen.offset > end && chosen.offset <= end+m.Window
		if !goesOn(chosen) && (alone || leavesOut) {
			seen = max(seen, max(now, chosen.arrived)+(m.Seek+m.Rotation)/4)
			chosen = pick(seen)
		}
		// How long does it take?
		bytes := new(big.Rat).SetFrac64(chosen.length*int64(time.Second), m.Bandwidth)
		whole := new(big.Int).Div(bytes.Num(), bytes.Denom())
		took := time.Duration(whole.Int64())
		if !bytes.IsInt() {
			took++
		}
		switch {
		case !goesOn(chosen):
			now = max(now, chosen.arrived) + m.Seek + m.Rotation + took
			row = 0
		case chosen.arrived > now+m.Lookahead:
			now = chosen.arrived + took
		default:
			now += took
		}
		row += chosen.length
		file, end = chosen.file, chosen.offset+chosen.length
		out = append(out, ending{chosen.file, chosen.offset, now})
		left = slices.DeleteFunc(left, func(p pending) bool { return p.number == chosen.number })
	}
	return out
}

func TestHeadAgainstOracle(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := Model{
			Seek: time.Duration(rnd.IntN(10)) * ms, Rotation: time.Duration(rnd.IntN(5)) * ms,
			Bandwidth: 1 + rnd.Int64N(1<<30), Slice: rnd.Int64N(20 << 10), Window: rnd.Int64N(20 << 10),
			Lookahead: time.Duration(rnd.IntN(3)) * ms,
		}
		m.Bandwidth = max(m.Bandwidth, 1<<20)
		var requests []request
		var when time.Duration
		for range 1 + rnd.IntN(40) {
			if rnd.IntN(3) > 0 {
				when += time.Duration(rnd.Int64N(int64(10 * ms)))
			}
			requests = append(requests, request{
				file: uint64(rnd.IntN(3)), offset: int64(rnd.IntN(8)) << 12, length: int64(1+rnd.IntN(2)) << 12, arrived: when})
		}
		want := serveNaively(m, requests)
		if got, _ := drive(m, requests); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v\nserves %v\n  want %v", seed, m, got, want)
		}
	}
}

// Whatever comes, nothing is lost, no slice starves the others, and the head is
// never busy with two requests.
func TestHeadIsFair(t *testing.T) {
	m := round()
	var requests []request
	for i := range int64(100) {
		requests = append(requests, request{file: 1, offset: i * mib, length: mib})
	}
	requests = slices.Insert(requests, 1, request{file: 2, length: mib})
	got, _ := drive(m, requests)
	place := slices.IndexFunc(got, func(e ending) bool { return e.file == 2 })
	if len(got) != len(requests) || place != 3 {
		t.Errorf("%d of %d served, the other file in place %d, want it after a slice of 3", len(got), len(requests), place)
	}
	for i := 1; i < len(got); i++ {
		if took := got[i].at - got[i-1].at; took < m.Service(mib, false) {
			t.Errorf("request %d took %v", i, took)
		}
	}
}
