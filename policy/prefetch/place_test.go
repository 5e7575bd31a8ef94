package prefetch

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"headrace"
)

func TestPlace(t *testing.T) {
	free := func(names string) (hosts []Host) {
		for name := range strings.FieldsSeq(names) {
			hosts = append(hosts, Host{Name: name, Room: 100 * mb, Speed: 100 * mb})
		}
		return hosts
	}
	with := func(hosts []Host, i int, change func(*Host)) []Host {
		change(&hosts[i])
		return hosts
	}
	block := func(copies ...Copy) Replicated { return Replicated{Bytes: 10 * mb, Copies: copies} }
	none := int64(-1)
	cases := []struct {
		name  string
		block Replicated
		hosts []Host
		limit int64
		want  Choice
	}{
		{"the shortest queue", block(Copy{Host: 0}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Queued = mb }), none, Choice{Migrate, 1, 0.1, "first"}},
		{"a fast disk with a longer queue", block(Copy{Host: 0}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Queued, h.Speed = 10*mb, 1000*mb }), none, Choice{Migrate, 0, 0.02, "first"}},
		{"a disk that others read", block(Copy{Host: 0}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Reads = 2 }), none, Choice{Migrate, 1, 0.1, "first"}},
		{"the less that is missing", block(Copy{Host: 0}, Copy{Host: 1, Resident: 4 * mb}), free("a b"), none, Choice{Migrate, 1, 0.06, "first"}},
		{"half of it is in memory", block(Copy{Host: 0}, Copy{Host: 1, Resident: 5 * mb}), free("a b"), none, Choice{Refer, 1, 0.05, "already"}},
		{"where most of it is", block(Copy{Host: 0, Resident: 6 * mb}, Copy{Host: 1, Resident: 9 * mb}), free("a b"), none, Choice{Refer, 1, 0.01, "already"}},
		{"a disk that the job reads", block(Copy{Host: 0}, Copy{Host: 1}), with(with(free("a b"), 0, func(h *Host) { h.Busy = true }), 1, func(h *Host) { h.Queued = 90 * mb }), none, Choice{Migrate, 1, 1, "first"}},
		{"all disks that have it", block(Copy{Host: 0}), with(free("a"), 0, func(h *Host) { h.Busy = true }), none, Choice{Wait, -1, 0, "left to those who read"}},
		{"one that somebody reads", Replicated{Bytes: 10 * mb, Busy: true, Copies: []Copy{{Host: 0}, {Host: 1, Resident: 9 * mb}}}, free("a b"), none, Choice{Wait, -1, 0, "left to those who read"}},
		{"one that somebody has read", Replicated{Bytes: 10 * mb, Busy: true, Copies: []Copy{{Host: 0}, {Host: 1, Resident: 10 * mb}}}, free("a b"), none, Choice{Refer, 1, 0, "already"}},
		{"in memory where the job reads", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Busy = true }), none, Choice{Refer, 0, 0, "already"}},
		{"kept where the job reads", block(Copy{Host: 0, Kept: true}), with(free("a"), 0, func(h *Host) { h.Busy = true }), none, Choice{Refer, 0, 0.1, "another job"}},
		{"a disk that the job reads, without room", block(Copy{Host: 0}), with(free("a"), 0, func(h *Host) { h.Busy, h.Room = true, 0 }), none, Choice{Skip, -1, 0, "room for"}},
		{"in memory, however long the queue", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Queued, h.Room = 900*mb, 0 }), none, Choice{Refer, 0, 0, "already"}},
		{"in memory and kept", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1, Resident: 10 * mb, Kept: true}), free("a b"), none, Choice{Refer, 1, 0, "another job"}},
		{"in memory before what will be", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1, Kept: true}), free("a b"), none, Choice{Refer, 0, 0, "already"}},
		{"what will be, without room for another", block(Copy{Host: 0}, Copy{Host: 1, Kept: true}), with(free("a b"), 1, func(h *Host) { h.Room = 0 }), none, Choice{Refer, 1, 0.1, "another job"}},
		{"away", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1}), with(free("a b"), 0, func(h *Host) { h.Away = true }), none, Choice{Migrate, 1, 0.1, "first"}},
		{"all away", block(Copy{Host: 0}), with(free("a"), 0, func(h *Host) { h.Away = true }), none, Choice{Skip, -1, 0, "all 1 nodes that have a replica are away"}},
		{"no replica", block(), free("a"), none, Choice{Skip, -1, 0, "no node that could keep it"}},
		{"no room", block(Copy{Host: 0}, Copy{Host: 1}), with(with(free("a b"), 0, func(h *Host) { h.Room = 9 * mb }), 1, func(h *Host) { h.Room = -mb }), none, Choice{Skip, -1, 0, "room for 10 MiB; the most that one has is 9 MiB"}},
		{"the job's limit", block(Copy{Host: 0}), free("a"), 9 * mb, Choice{Skip, -1, 0, "used up"}},
		{"the job's limit, in memory", block(Copy{Host: 0, Resident: 10 * mb}), free("a"), 0, Choice{Refer, 0, 0, "already"}},
		{"the job's limit, kept", block(Copy{Host: 0, Resident: 10 * mb, Kept: true}), free("a"), 0, Choice{Skip, -1, 0, "used up"}},
		{"nothing is known of the disk", block(Copy{Host: 0}), with(free("a"), 0, func(h *Host) { h.Speed = 0 }), none, Choice{Migrate, 0, 10 * mb / 100e6, "first"}},
		{"where it will be read", block(Copy{Host: 0}, Copy{Host: 1, Near: true}), with(free("a b"), 1, func(h *Host) { h.Queued = 90 * mb }), none, Choice{Migrate, 1, 1, "first"}},
		{"in memory elsewhere", block(Copy{Host: 0, Resident: 10 * mb}, Copy{Host: 1, Near: true}), free("a b"), none, Choice{Refer, 0, 0, "already"}},
		{"kept elsewhere", block(Copy{Host: 0, Kept: true}, Copy{Host: 1, Near: true}), free("a b"), none, Choice{Refer, 0, 0.1, "another job"}},
		{"no room where it will be read", block(Copy{Host: 0}, Copy{Host: 1, Near: true}), with(free("a b"), 1, func(h *Host) { h.Room = 9 * mb }), none, Choice{Skip, -1, 0, "on which it will be read has no room for 10 MiB; it has room for 9 MiB"}},
		{"where it will be read it cannot be kept", Replicated{Bytes: 10 * mb, Bound: true, Copies: []Copy{{Host: 0}}}, free("a b"), none, Choice{Skip, -1, 0, "on which it will be read cannot keep it"}},
		{"a disk that is read where it will be read", block(Copy{Host: 0}, Copy{Host: 1, Near: true}), with(free("a b"), 1, func(h *Host) { h.Busy = true }), none, Choice{Wait, -1, 0, "left to those who read"}},
		{"away where it would be read", block(Copy{Host: 0}, Copy{Host: 1, Near: true}), with(free("a b"), 1, func(h *Host) { h.Away = true }), none, Choice{Migrate, 0, 0.1, "first"}},
		{"an empty block", Replicated{Copies: []Copy{{Host: 0}}}, with(free("a"), 0, func(h *Host) { h.Room = 0 }), none, Choice{Refer, 0, 0, "already"}},
	}
	for _, c := range cases {
		got := Place([]Replicated{c.block}, c.hosts, Limits{c.limit, -1})[0]
		if got.Do != c.want.Do || got.Host != c.want.Host || math.Abs(got.Done-c.want.Done) > 1e-9 || !strings.Contains(got.Reason, c.want.Reason) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestPlaceLeavesWhatIsInMemory: what is read beside it would drive it out, also if the job has it in its order later.
func TestPlaceLeavesWhatIsInMemory(t *testing.T) {
	hosts := []Host{{Name: "a", Room: 35 * mb}}
	blocks := make([]Replicated, 5)
	for i := range blocks {
		blocks[i] = Replicated{Bytes: 10 * mb, Copies: []Copy{{Resident: map[bool]int64{true: 10 * mb}[i >= 3]}}}
	}
	var got []Do
	for _, c := range Place(blocks, hosts, Limits{-1, -1}) {
		got = append(got, c.Do)
	}
	if want := []Do{Migrate, Skip, Skip, Refer, Refer}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestPlaceSpreads: idle nodes that are alike get like numbers of blocks, with one block asked
// for at a time as well, and the same block goes to the same node.
func TestPlaceSpreads(t *testing.T) {
	var hosts []Host
	for i := range 10 {
		hosts = append(hosts, Host{Name: fmt.Sprintf("node%d", i), Room: math.MaxInt64 / 2, Speed: mb})
	}
	alone, counts := make([]int, 10), make([]int, 10)
	var blocks []Replicated
	for i := range 10_000 {
		b := Replicated{ID: headrace.BlockID{Number: int64(1073741825 + i)}, Bytes: mb}
		for h := range hosts {
			b.Copies = append(b.Copies, Copy{Host: h})
		}
		blocks = append(blocks, b)
		first := Place([]Replicated{b}, hosts, Limits{-1, -1})[0].Host
		slices.Reverse(b.Copies)
		if again := Place([]Replicated{b}, hosts, Limits{-1, -1})[0].Host; again != first {
			t.Fatalf("block %d goes to %d or %d, by the order of its replicas", i, first, again)
		}
		alone[first]++
	}
	for _, c := range Place(blocks, hosts, Limits{-1, -1}) {
		counts[c.Host]++
	}
	for h := range hosts {
		if alone[h] < 850 || alone[h] > 1150 {
			t.Errorf("node %d gets %d of 10000 blocks that are placed alone", h, alone[h])
		}
		if counts[h] != 1000 {
			t.Errorf("node %d gets %d of 10000 blocks that are placed together", h, counts[h])
		}
	}
}

// scenePlaced makes up nodes that differ and blocks with replicas on some.
func scenePlaced(r *rand.Rand, nodes, blocks int) ([]Replicated, []Host) {
	hosts := make([]Host, nodes)
	for i := range hosts {
		hosts[i] = Host{Name: fmt.Sprintf("node%d", i), Away: r.IntN(8) == 0, Busy: r.IntN(8) == 0, Queued: r.Int64N(20) * mb,
			Room: r.Int64N(60) * mb, Speed: float64(50+r.IntN(4)*50) * mb, Reads: r.IntN(3)}
	}
	all := make([]Replicated, blocks)
	for i := range all {
		all[i] = Replicated{ID: headrace.BlockID{Number: r.Int64()}, Bytes: r.Int64N(10) * mb, Busy: r.IntN(10) == 0}
		for _, h := range r.Perm(nodes)[:r.IntN(min(3, nodes)+1)] {
			c := Copy{Host: h, Kept: r.IntN(10) == 0, Near: r.IntN(8) == 0}
			c.Own = c.Kept && r.IntN(2) == 0
			switch r.IntN(6) {
			case 0:
				c.Resident = all[i].Bytes
			case 1:
				c.Resident = r.Int64N(all[i].Bytes + 1)
			}
			all[i].Copies = append(all[i].Copies, c)
		}
	}
	return all, hosts
}

// TestPlaceKeepsToRules looks at what must hold of each choice, whatever the others are.
func TestPlaceKeepsToRules(t *testing.T) {
	seen := map[Do]int{}
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 5))
		blocks, hosts := scenePlaced(r, 1+r.IntN(6), r.IntN(30))
		most := Limits{-1, -1}
		if r.IntN(2) == 0 {
			most.Job = r.Int64N(60) * mb
		}
		if r.IntN(2) == 0 {
			most.Owner = r.Int64N(60) * mb
		}
		before := slices.Clone(hosts)
		taken, stays, held, owns := make([]int64, len(hosts)), make([]int64, len(hosts)), int64(0), int64(0)
		choices := Place(blocks, hosts, most)
		for i, c := range choices {
			seen[c.Do]++
			b := blocks[i]
			is := func(k Copy) bool { return k.Resident >= b.Bytes || !b.Busy && InMemory(k.Resident, b.Bytes) }
			near := slices.ContainsFunc(b.Copies, func(k Copy) bool { return k.Near && !hosts[k.Host].Away })
			warm := slices.ContainsFunc(b.Copies, func(k Copy) bool { return !hosts[k.Host].Away && is(k) })
			at := slices.IndexFunc(b.Copies, func(k Copy) bool { return k.Host == c.Host })
			if c.Reason == "" {
				t.Fatalf("seed %d: no reason for %+v", seed, c)
			}
			if c.Do == Skip || c.Do == Wait {
				if warm && most == (Limits{-1, -1}) {
					t.Fatalf("seed %d: block %d is in memory, and is not referred to", seed, i)
				}
				continue
			}
			k := b.Copies[at]
			switch {
			case hosts[c.Host].Away:
				t.Fatalf("seed %d: block %d goes to a node that is away", seed, i)
			case c.Do == Migrate && warm, c.Do == Refer && warm && !is(k):
				t.Fatalf("seed %d: block %d is in memory, and is read at %d", seed, i, c.Host)
			case c.Do == Migrate && (b.Busy || hosts[c.Host].Busy):
				t.Fatalf("seed %d: block %d is read at %d beside those who read", seed, i, c.Host)
			case c.Do == Migrate && near && !k.Near:
				t.Fatalf("seed %d: block %d is read at %d, and its reader runs elsewhere", seed, i, c.Host)
			case c.Do == Refer && !k.Kept && !is(k):
				t.Fatalf("seed %d: block %d is neither in memory nor kept at %d", seed, i, c.Host)
			}
			switch {
			case c.Do == Migrate:
				taken[c.Host] += b.Bytes
			case !k.Kept:
				stays[c.Host] += b.Bytes
			}
			if c.Do == Migrate || k.Kept {
				held += b.Bytes
			}
			if (c.Do == Migrate || k.Kept) && !k.Own {
				owns += b.Bytes
			}
		}
		// What was taken only grew: what is skipped would not fit at the end either.
		rest := most
		rest.take(held, true)
		if rest.Owner >= 0 {
			rest.Owner -= owns
		}
		for i, c := range choices {
			near := slices.ContainsFunc(blocks[i].Copies, func(k Copy) bool { return k.Near && !hosts[k.Host].Away })
			fits := func(k Copy) bool {
				h := hosts[k.Host]
				return !h.Away && ((k.Near || !near) && h.Room-taken[k.Host]-stays[k.Host] >= blocks[i].Bytes && !h.Busy && !blocks[i].Busy || k.Kept) && rest.fit(blocks[i].Bytes, k.Own)
			}
			if (c.Do == Skip || c.Do == Wait) && slices.ContainsFunc(blocks[i].Copies, fits) {
				t.Fatalf("seed %d: block %d was skipped (%s), and there is room for it", seed, i, c.Reason)
			}
		}
		for i, n := range taken {
			if n > 0 && n+stays[i] > hosts[i].Room {
				t.Fatalf("seed %d: node %d has room for %d, has %d in memory, and gets %d", seed, i, hosts[i].Room, stays[i], n)
			}
		}
		if most.Job >= 0 && held > most.Job || most.Owner >= 0 && owns > most.Owner {
			t.Fatalf("seed %d: a job with limits of %v gets %d and %d", seed, most, held, owns)
		}
		if !slices.Equal(before, hosts) {
			t.Fatalf("seed %d: its arguments were changed", seed)
		}
	}
	for _, do := range []Do{Migrate, Refer, Skip, Wait} {
		if seen[do] < 500 {
			t.Errorf("only %d cases of %d", seen[do], do)
		}
	}
}

// finish returns when the last block is in memory and when one is in the mean, in seconds, if
// block i is read at its copy to[i].
func finish(blocks []Replicated, hosts []Host, to []int) (last, mean float64) {
	queue := make([]float64, len(hosts))
	for i := range hosts {
		queue[i] = float64(hosts[i].Queued)
	}
	for i, b := range blocks {
		h := b.Copies[to[i]].Host
		queue[h] += float64(b.Bytes)
		done := queue[h] / hosts[h].Speed * float64(1+hosts[h].Reads)
		last, mean = max(last, done), mean+done/float64(len(blocks))
	}
	return last, mean
}

// TestPlaceAgainstOracle compares with the best of all ways to place a few blocks.
func TestPlaceAgainstOracle(t *testing.T) {
	var worstLast, worstMean, sumLast, sumMean float64
	const cases = 400
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 6))
		hosts := make([]Host, 4)
		for i := range hosts {
			hosts[i] = Host{Name: fmt.Sprint(i), Room: math.MaxInt64 / 2, Queued: r.Int64N(200) * mb, Speed: float64(80+r.IntN(100)) * mb, Reads: r.IntN(2)}
		}
		blocks := make([]Replicated, 7)
		for i := range blocks {
			blocks[i] = Replicated{ID: headrace.BlockID{Number: r.Int64()}, Bytes: 128 * mb}
			if r.IntN(5) == 0 {
				blocks[i].Bytes = (1 + r.Int64N(128)) * mb // the end of a file
			}
			for _, h := range r.Perm(4)[:1+r.IntN(3)] {
				blocks[i].Copies = append(blocks[i].Copies, Copy{Host: h})
			}
		}
		greedy := make([]int, len(blocks))
		for i, c := range Place(blocks, hosts, Limits{-1, -1}) {
			greedy[i] = slices.IndexFunc(blocks[i].Copies, func(k Copy) bool { return k.Host == c.Host })
		}
		last, mean := finish(blocks, hosts, greedy)
		bestLast, bestMean := math.Inf(1), math.Inf(1)
		for to := make([]int, len(blocks)); to != nil; to = nextWay(to, blocks) {
			l, m := finish(blocks, hosts, to)
			bestLast, bestMean = min(bestLast, l), min(bestMean, m)
		}
		worstLast, worstMean = max(worstLast, last/bestLast), max(worstMean, mean/bestMean)
		sumLast, sumMean = sumLast+last/bestLast, sumMean+mean/bestMean
	}
	t.Logf("last block: %.3f of the best in the mean, %.3f at worst; mean of blocks: %.3f, %.3f", sumLast/cases, worstLast, sumMean/cases, worstMean)
	if sumLast/cases > 1.02 || worstLast > 1.65 || sumMean/cases > 1.015 || worstMean > 1.35 {
		t.Errorf("farther from the best than it was: the last block %.3f in the mean, %.3f at worst, a block %.3f, %.3f",
			sumLast/cases, worstLast, sumMean/cases, worstMean)
	}
}

// nextWay counts through all ways to choose a copy for each block; nil after the last.
func nextWay(to []int, blocks []Replicated) []int {
	for i := range to {
		if to[i]++; to[i] < len(blocks[i].Copies) {
			return to
		}
		to[i] = 0
	}
	return nil
}

// TestPlaceAgainstRandom: ignem chooses a replica at random (section III.A.2). Where some
// nodes have more replicas than others, slower disks or queues, that is much later.
func TestPlaceAgainstRandom(t *testing.T) {
	scenes := []struct {
		name   string
		skew   func(r *rand.Rand, n int) int // a node for a replica
		slow   bool
		better float64 // by which share the mean must be better at least
	}{
		{"even", func(r *rand.Rand, n int) int { return r.IntN(n) }, false, 0.05},
		{"half of the replicas on a fifth of the nodes", func(r *rand.Rand, n int) int {
			if r.IntN(2) == 0 {
				return r.IntN(n / 5)
			}
			return r.IntN(n)
		}, false, 0.25},
		{"the same, and a third of the disks at a third of the speed", func(r *rand.Rand, n int) int {
			if r.IntN(2) == 0 {
				return r.IntN(n / 5)
			}
			return r.IntN(n)
		}, true, 0.4},
	}
	for _, s := range scenes {
		var ours, random float64
		for seed := range uint64(50) {
			r := rand.New(rand.NewPCG(seed, 7))
			hosts := make([]Host, 20)
			for i := range hosts {
				hosts[i] = Host{Name: fmt.Sprint(i), Room: math.MaxInt64 / 2, Speed: 100 * mb}
				if s.slow && i%3 == 0 {
					hosts[i].Speed /= 3
				}
			}
			blocks := make([]Replicated, 200)
			for i := range blocks {
				blocks[i] = Replicated{ID: headrace.BlockID{Number: r.Int64()}, Bytes: 64 * mb}
				for len(blocks[i].Copies) < 3 {
					h := s.skew(r, len(hosts))
					if !slices.ContainsFunc(blocks[i].Copies, func(c Copy) bool { return c.Host == h }) {
						blocks[i].Copies = append(blocks[i].Copies, Copy{Host: h})
					}
				}
			}
			to, at := make([]int, len(blocks)), make([]int, len(blocks))
			for i, c := range Place(blocks, hosts, Limits{-1, -1}) {
				to[i] = slices.IndexFunc(blocks[i].Copies, func(k Copy) bool { return k.Host == c.Host })
				at[i] = r.IntN(3)
			}
			_, mean := finish(blocks, hosts, to)
			ours += mean
			_, mean = finish(blocks, hosts, at)
			random += mean
		}
		t.Logf("%s: a block is in memory after %.2f s in the mean, at random %.2f s (%.0f %% later)", s.name, ours/50, random/50, 100*(random/ours-1))
		if ours > random*(1-s.better) {
			t.Errorf("%s: %.2f s, at random %.2f s: less than %.0f %% better", s.name, ours/50, random/50, 100*s.better)
		}
	}
}

func BenchmarkPlace(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 8))
	hosts := make([]Host, 1000)
	for i := range hosts {
		hosts[i] = Host{Name: fmt.Sprintf("node%d", i), Room: math.MaxInt64 / 2, Speed: 100 * mb}
	}
	blocks := make([]Replicated, 2000)
	for i := range blocks {
		blocks[i] = Replicated{ID: headrace.BlockID{Number: r.Int64()}, Bytes: 128 * mb, Copies: []Copy{{Host: r.IntN(1000)}, {Host: r.IntN(1000)}, {Host: r.IntN(1000)}}}
	}
	b.ReportAllocs()
	for b.Loop() {
		Place(blocks, hosts, Limits{-1, -1})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(blocks)), "ns/block")
}
