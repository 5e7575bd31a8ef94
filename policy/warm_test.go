package policy

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNextWarm(t *testing.T) {
	const block = 16 * mb
	room := WarmRoom{Budget: 100 * mb}
	cold, pinned := WarmBlock{block, Cold}, WarmBlock{block, Pinned}
	small := WarmJob{Name: "job small", Input: 20 * mb, Order: 7, Next: []WarmBlock{cold}}
	large := WarmJob{Name: "job large", Input: 900 * mb, Order: 3, Next: []WarmBlock{cold}}
	with := func(j WarmJob, next ...WarmBlock) WarmJob { j.Next = next; return j }
	limited := func(j WarmJob, limit, held int64) WarmJob { j.Limit, j.Held, j.Implicit = limit, held, true; return j }
	keeps := func(j WarmJob) WarmJob { j.Implicit = false; return j }
	cases := []struct {
		name string
		v    WarmView
		c    WarmConfig
		want WarmStep
	}{
		{"nobody wants anything", WarmView{Room: room}, WarmConfig{},
			WarmStep{WarmNothing, -1, -1, "nothing that is wanted can be read now"}},
		{"smallest first", WarmView{Room: room, Jobs: []WarmJob{large, small}}, WarmConfig{},
			WarmStep{WarmMigrate, 1, 0, "job small has the smallest input of 2 that wait, 20 MiB"}},
		{"first submitted", WarmView{Room: room, Jobs: []WarmJob{small, large}}, WarmConfig{Order: FIFO},
			WarmStep{WarmMigrate, 1, 0, "job large was submitted first of 2 that wait"}},
		{"one alone", WarmView{Room: room, Jobs: []WarmJob{large}}, WarmConfig{},
			WarmStep{WarmMigrate, 0, 0, "job large is the only one that waits"}},
		{"busy", WarmView{Busy: true, Room: room, Jobs: []WarmJob{large, small}}, WarmConfig{},
			WarmStep{WarmNothing, 1, 0, "a block is being read on this disk, one at a time; it is not interrupted"}},
		{"a reference costs nothing", WarmView{Busy: true, Room: WarmRoom{Budget: block, Pinned: block, Blocks: 1}, Jobs: []WarmJob{small, with(large, cold, pinned)}}, WarmConfig{},
			WarmStep{WarmRefer, 1, 1, "it is kept in memory for another job already"}},
		{"in memory", WarmView{Room: room, Jobs: []WarmJob{with(small, WarmBlock{block, Resident}, cold)}}, WarmConfig{},
			WarmStep{WarmRefer, 0, 0, "it is in memory already"}},
		{"an empty file needs no room", WarmView{Jobs: []WarmJob{with(large, WarmBlock{}, cold)}}, WarmConfig{},
			WarmStep{WarmRefer, 0, 0, "it is empty"}},
		{"an empty file needs no turn", WarmView{Busy: true, Room: room, Jobs: []WarmJob{with(small, cold), with(large, WarmBlock{})}}, WarmConfig{},
			WarmStep{WarmRefer, 1, 0, "it is empty"}},
		{"no room", WarmView{Room: WarmRoom{Budget: 100 * mb, Pinned: 90 * mb}, Jobs: []WarmJob{large, small}}, WarmConfig{},
			WarmStep{WarmWait, 1, 0, "waits for room: 90 MiB of the budget of 100 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit"}},
		{"smaller blocks do not overtake", WarmView{Room: WarmRoom{Budget: 100 * mb, Pinned: 90 * mb}, Jobs: []WarmJob{with(large, WarmBlock{mb, Cold}), small}}, WarmConfig{},
			WarmStep{WarmWait, 1, 0, "waits for room: 90 MiB of the budget of 100 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit"}},
		{"no more mappings", WarmView{Room: WarmRoom{Budget: 100 * mb, Pinned: mb, MaxBlocks: 5, Blocks: 5}, Jobs: []WarmJob{small}}, WarmConfig{},
			WarmStep{WarmWait, 0, 0, "waits for room: 5 blocks and small files are kept, more than that the kernel does not let one process map"}},
		{"never fits", WarmView{Room: WarmRoom{Budget: 10 * mb}, Jobs: []WarmJob{small, large}}, WarmConfig{},
			WarmStep{WarmSkip, 0, 0, "a block of 16 MiB is larger than the whole budget of 10 MiB"}},
		{"never fits its own limit", WarmView{Room: room, Jobs: []WarmJob{limited(small, mb, 0)}}, WarmConfig{},
			WarmStep{WarmSkip, 0, 0, "a block of 16 MiB is larger than its own limit of 1 MiB"}},
		{"a job at its own limit is passed by", WarmView{Room: room, Jobs: []WarmJob{limited(small, 20*mb, 16*mb), large}}, WarmConfig{},
			WarmStep{WarmMigrate, 1, 0, "job large is the only one that waits"}},
		{"what is beyond a limit never fits a job that gives nothing back", WarmView{Room: room, Jobs: []WarmJob{keeps(limited(small, 20*mb, 16*mb))}}, WarmConfig{},
			WarmStep{WarmSkip, 0, 0, "its own limit of 20 MiB is used up"}},
		{"a limit holds for references too", WarmView{Room: room, Jobs: []WarmJob{limited(with(small, pinned), 20*mb, 16*mb)}}, WarmConfig{},
			WarmStep{WarmNothing, -1, -1, "nothing that is wanted can be read now"}},
		{"in its own order", WarmView{Room: room, Jobs: []WarmJob{limited(with(small, cold, WarmBlock{mb, Cold}), 20*mb, 16*mb)}}, WarmConfig{},
			WarmStep{WarmNothing, -1, -1, "nothing that is wanted can be read now"}},
		{"what moves is left alone", WarmView{Room: room, Jobs: []WarmJob{with(small, WarmBlock{block, Moving}, cold)}}, WarmConfig{},
			WarmStep{WarmMigrate, 0, 1, "job small is the only one that waits"}},
	}
	for _, c := range cases {
		if got := NextWarm(c.v, c.c); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestExplainWarm(t *testing.T) {
	cold := WarmBlock{16 * mb, Cold}
	v := WarmView{Room: WarmRoom{Budget: 20 * mb, Pinned: 10 * mb}, Jobs: []WarmJob{
		{Name: "job a", Input: 5, Next: []WarmBlock{{mb, Moving}}},
		{Name: "job b", Input: 9, Next: []WarmBlock{cold}},
		{Name: "job c", Input: 7, Next: []WarmBlock{cold}},
		{Name: "job d", Input: 1, Limit: 19 * mb, Held: 10 * mb, Implicit: true, Next: []WarmBlock{cold}},
	}}
	want := []string{
		"nothing that it wants can be read now",
		"waits behind job c",
		"waits for room: 10 MiB of the budget of 20 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit",
		"its own limit of 19 MiB is used up until it has read some of it",
	}
	if got := ExplainWarm(v, WarmConfig{}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	v.Jobs[0].Next[0].State = Resident
	want[0], want[1], want[2] = "it is in memory already", "waits behind job a", "waits behind job a"
	if got := ExplainWarm(v, WarmConfig{}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// dumbWarm is NextWarm written down a second time: all jobs sorted, then one rule
// after the other tried on each of their blocks.
func dumbWarm(v WarmView, c WarmConfig) (do WarmDo, job, block int) {
	order := make([]int, len(v.Jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := v.Jobs[a], v.Jobs[b]
		if c.Order != FIFO && x.Input != y.Input {
			if x.Input < y.Input {
				return -1
			}
			return 1
		}
		switch {
		case x.Order < y.Order:
			return -1
		case x.Order > y.Order:
			return 1
		}
		return 0
	})
	over := func(j WarmJob, b WarmBlock) bool { return j.Limit > 0 && j.Held+b.Bytes > j.Limit }
	never := func(j WarmJob, b WarmBlock) bool {
		return b.State == Cold && b.Bytes > v.Room.Budget || j.Limit > 0 && b.Bytes > j.Limit || over(j, b) && !j.Implicit
	}
	// stopped: a block before this one waits for the job's own limit.
	stopped := func(j WarmJob, k int) bool {
		for _, b := range j.Next[:k] {
			if (b.State == Cold || b.State == Pinned) && over(j, b) && !never(j, b) {
				return true
			}
		}
		return false
	}
	for _, i := range order {
		for k, b := range v.Jobs[i].Next {
			j := v.Jobs[i]
			switch {
			case b.State == Resident, b.State != Moving && b.Bytes == 0:
				return WarmRefer, i, k
			case b.State != Moving && never(j, b):
				return WarmSkip, i, k
			case b.State == Pinned && !over(j, b) && !stopped(j, k):
				return WarmRefer, i, k
			}
		}
	}
	for _, i := range order {
		for k, b := range v.Jobs[i].Next {
			j := v.Jobs[i]
			if b.State != Cold || over(j, b) || stopped(j, k) {
				continue
			}
			full := v.Room.Pinned+b.Bytes > v.Room.Budget || v.Room.MaxBlocks > 0 && v.Room.Blocks >= v.Room.MaxBlocks
			if v.Busy {
				return WarmNothing, i, k
			}
			if full {
				return WarmWait, i, k
			}
			return WarmMigrate, i, k
		}
	}
	return WarmNothing, -1, -1
}

func randomWarmView(r *rand.Rand) WarmView {
	v := WarmView{Busy: r.IntN(6) == 0}
	v.Room.Budget = int64(r.IntN(12)) * 8 * mb
	v.Room.Pinned = int64(float64(v.Room.Budget) * r.Float64())
	if r.IntN(4) == 0 {
		v.Room.MaxBlocks = 1 + r.IntN(10)
		v.Room.Blocks = r.IntN(v.Room.MaxBlocks + 1)
	}
	states := []WarmState{Cold, Cold, Cold, Moving}
	if r.IntN(2) == 0 {
		states = append(states, Pinned, Resident)
	}
	for i := range r.IntN(7) {
		j := WarmJob{Name: fmt.Sprintf("job %d", i), Input: int64(r.IntN(4)) * mb, Order: uint64(r.IntN(5))}
		if r.IntN(3) == 0 {
			j.Limit = int64(1+r.IntN(6)) * 8 * mb
			j.Held = int64(float64(j.Limit) * r.Float64())
			j.Implicit = r.IntN(2) == 0
		}
		for range r.IntN(4) {
			j.Next = append(j.Next, WarmBlock{pick(r, 0, 4096, 8*int64(mb), 16*int64(mb), 32*int64(mb)), pick(r, states...)})
		}
		v.Jobs = append(v.Jobs, j)
	}
	return v
}

func TestNextWarmAgainstOracle(t *testing.T) {
	seen := map[WarmDo]int{}
	for seed := range uint64(10000) {
		r := rand.New(rand.NewPCG(seed, 2))
		v, c := randomWarmView(r), WarmConfig{Order: pick(r, SmallestFirst, "", FIFO)}
		before := cloneWarm(v)
		got := NextWarm(v, c)
		if do, job, block := dumbWarm(v, c); got.Do != do || got.Job != job || got.Block != block {
			t.Fatalf("seed %d, %+v: got %+v, want %v of job %d, block %d", seed, v, got, do, job, block)
		}
		if got.Reason == "" {
			t.Fatalf("seed %d: no reason for %+v", seed, got)
		}
		notes := ExplainWarm(v, c)
		if len(notes) != len(v.Jobs) || slices.Contains(notes, "") {
			t.Fatalf("seed %d: notes %q", seed, notes)
		}
		if !reflect.DeepEqual(v, before) {
			t.Fatalf("seed %d: the view was changed", seed)
		}
		if err := checkWarmStep(v, got); err != nil {
			t.Fatalf("seed %d, %+v, %+v: %v", seed, v, got, err)
		}
		seen[got.Do]++
	}
	for _, do := range []WarmDo{WarmNothing, WarmWait, WarmMigrate, WarmRefer, WarmSkip} {
		if seen[do] < 300 {
			t.Errorf("only %d steps of kind %d", seen[do], do)
		}
	}
}

// checkWarmStep checks what must hold whatever the order.
func checkWarmStep(v WarmView, s WarmStep) error {
	if s.Do == WarmMigrate {
		j := v.Jobs[s.Job]
		b := j.Next[s.Block]
		switch {
		case v.Busy:
			return fmt.Errorf("a second block at the same time")
		case b.State != Cold:
			return fmt.Errorf("reads what need not be read")
		case v.Room.Pinned+b.Bytes > v.Room.Budget:
			return fmt.Errorf("past the budget")
		case j.Limit > 0 && j.Held+b.Bytes > j.Limit:
			return fmt.Errorf("past the job's own limit")
		}
	}
	if s.Do == WarmWait {
		if b := v.Jobs[s.Job].Next[s.Block]; v.Room.Pinned+b.Bytes <= v.Room.Budget && (v.Room.MaxBlocks == 0 || v.Room.Blocks < v.Room.MaxBlocks) {
			return fmt.Errorf("idle while the first block fits")
		}
	}
	return nil
}

func cloneWarm(v WarmView) WarmView {
	v.Jobs = slices.Clone(v.Jobs)
	for i := range v.Jobs {
		v.Jobs[i].Next = slices.Clone(v.Jobs[i].Next)
	}
	return v
}

func TestDropRef(t *testing.T) {
	for i := range 8 {
		r := WarmRef{Ended: i&1 != 0, Implicit: i&2 != 0, Read: i&4 != 0}
		why, drop := DropRef(r)
		if want := r.Ended || r.Implicit && r.Read; drop != want || drop != (why != "") {
			t.Errorf("%+v: %v, %q", r, drop, why)
		}
	}
}

func TestCleanUp(t *testing.T) {
	holders := []WarmHolder{{Job: "here", Alive: true, Pinned: 5}, {Job: "gone", Pinned: 7 * mb}, {Keep: true, Pinned: 9}, {Job: "gone too"}}
	all := []WarmDrop{
		{1, "job gone has ended without saying so; it held 7 MiB"},
		{3, "job gone too has ended without saying so; it held 0 MiB"},
	}
	cases := []struct {
		name string
		r    WarmRoom
		want []WarmDrop
	}{
		{"below", WarmRoom{Budget: 100, Pinned: 79, Blocks: 1}, nil},
		{"at 80 %", WarmRoom{Budget: 100, Pinned: 80, Blocks: 1}, all},
		{"many blocks", WarmRoom{Budget: 100, Pinned: 1, MaxBlocks: 10, Blocks: 8}, all},
		{"a large block waits", WarmRoom{Budget: 100, Pinned: 60, Blocks: 1, Waiting: true}, all},
		{"nothing is held", WarmRoom{}, nil},
	}
	for _, c := range cases {
		if got := CleanUp(c.r, holders); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestWarmingToTheEnd lets random jobs come, read and end while NextWarm decides
// for two devices, and checks the rules at each step.
func TestWarmingToTheEnd(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(100) {
		m := newWarmModel(rand.New(rand.NewPCG(seed, 3)))
		for step := range 400 {
			if err := m.step(); err != nil {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
		}
		if err := m.finish(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for k, n := range m.seen {
			total[k] += n
		}
	}
	for _, what := range []string{"migrate", "refer", "skip", "full", "read", "end", "vanish", "clean-up", "lost"} {
		if total[what] < 100 {
			t.Errorf("only %d cases of %s in %v", total[what], what, total)
		}
	}
}

func BenchmarkNextWarm(b *testing.B) {
	for _, jobs := range []int{10, 1000, 10000} {
		b.Run(fmt.Sprintf("jobs=%d", jobs), func(b *testing.B) {
			v := WarmView{Room: WarmRoom{Budget: 1 << 40}}
			r := rand.New(rand.NewPCG(1, 1))
			for i := range jobs {
				v.Jobs = append(v.Jobs, WarmJob{Name: "job x", Input: r.Int64N(1 << 40), Order: uint64(i), Next: []WarmBlock{{16 * mb, Cold}}})
			}
			b.ReportAllocs()
			for b.Loop() {
				if s := NextWarm(v, WarmConfig{}); s.Do != WarmMigrate || !strings.HasPrefix(s.Reason, "job x") {
					b.Fatal(s)
				}
			}
		})
	}
}
