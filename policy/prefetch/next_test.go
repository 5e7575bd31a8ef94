package prefetch

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestNext(t *testing.T) {
	const block = 16 * mb
	room := Room{Budget: 100 * mb}
	cold, pinned := Block{block, Cold}, Block{block, Pinned}
	small := Job{Name: "job small", Input: 20 * mb, Seq: 7, Next: []Block{cold}}
	large := Job{Name: "job large", Input: 900 * mb, Seq: 3, Next: []Block{cold}}
	with := func(j Job, next ...Block) Job { j.Next = next; return j }
	limited := func(j Job, limit, held int64) Job { j.Limit, j.Held, j.Implicit = limit, held, true; return j }
	keeps := func(j Job) Job { j.Implicit = false; return j }
	cases := []struct {
		name string
		v    View
		c    Config
		want Step
	}{
		{"nobody wants anything", View{Room: room}, Config{},
			Step{Nothing, -1, -1, "nothing that is wanted can be read now"}},
		{"smallest first", View{Room: room, Jobs: []Job{large, small}}, Config{},
			Step{Migrate, 1, 0, "job small has the smallest input of 2 that wait, 20 MiB"}},
		{"first submitted", View{Room: room, Jobs: []Job{small, large}}, Config{Order: FIFO},
			Step{Migrate, 1, 0, "job large was submitted first of 2 that wait"}},
		{"one alone", View{Room: room, Jobs: []Job{large}}, Config{},
			Step{Migrate, 0, 0, "job large is the only one that waits"}},
		{"busy", View{Busy: true, Room: room, Jobs: []Job{large, small}}, Config{},
			Step{Nothing, 1, 0, "a block is being read on this disk, one at a time; it is not interrupted"}},
		{"a reference costs nothing", View{Busy: true, Room: Room{Budget: block, Pinned: block, Blocks: 1}, Jobs: []Job{small, with(large, cold, pinned)}}, Config{},
			Step{Refer, 1, 1, "it is kept in memory for another job already"}},
		{"in memory", View{Room: room, Jobs: []Job{with(small, Block{block, Resident}, cold)}}, Config{},
			Step{Refer, 0, 0, "it is in memory already"}},
		{"an empty file needs no room", View{Jobs: []Job{with(large, Block{}, cold)}}, Config{},
			Step{Refer, 0, 0, "it is empty"}},
		{"an empty file needs no turn", View{Busy: true, Room: room, Jobs: []Job{with(small, cold), with(large, Block{})}}, Config{},
			Step{Refer, 1, 0, "it is empty"}},
		{"no room", View{Room: Room{Budget: 100 * mb, Pinned: 90 * mb}, Jobs: []Job{large, small}}, Config{},
			Step{Wait, 1, 0, "waits for room: 90 MiB of the budget of 100 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit"}},
		{"smaller blocks do not overtake", View{Room: Room{Budget: 100 * mb, Pinned: 90 * mb}, Jobs: []Job{with(large, Block{mb, Cold}), small}}, Config{},
			Step{Wait, 1, 0, "waits for room: 90 MiB of the budget of 100 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit"}},
		{"no more mappings", View{Room: Room{Budget: 100 * mb, Pinned: mb, MaxBlocks: 5, Blocks: 5}, Jobs: []Job{small}}, Config{},
			Step{Wait, 0, 0, "waits for room: 5 blocks and small files are kept, more than that the kernel does not let one process map"}},
		{"never fits", View{Room: Room{Budget: 10 * mb}, Jobs: []Job{small, large}}, Config{},
			Step{Skip, 0, 0, "a block of 16 MiB is larger than the whole budget of 10 MiB"}},
		{"never fits its own limit", View{Room: room, Jobs: []Job{limited(small, mb, 0)}}, Config{},
			Step{Skip, 0, 0, "a block of 16 MiB is larger than its own limit of 1 MiB"}},
		{"a job at its own limit is passed by", View{Room: room, Jobs: []Job{limited(small, 20*mb, 16*mb), large}}, Config{},
			Step{Migrate, 1, 0, "job large is the only one that waits"}},
		{"what is beyond a limit never fits a job that gives nothing back", View{Room: room, Jobs: []Job{keeps(limited(small, 20*mb, 16*mb))}}, Config{},
			Step{Skip, 0, 0, "its own limit of 20 MiB is used up"}},
		{"a limit holds for references too", View{Room: room, Jobs: []Job{limited(with(small, pinned), 20*mb, 16*mb)}}, Config{},
			Step{Nothing, -1, -1, "nothing that is wanted can be read now"}},
		{"in its own order", View{Room: room, Jobs: []Job{limited(with(small, cold, Block{mb, Cold}), 20*mb, 16*mb)}}, Config{},
			Step{Nothing, -1, -1, "nothing that is wanted can be read now"}},
		{"what moves is left alone", View{Room: room, Jobs: []Job{with(small, Block{block, Moving}, cold)}}, Config{},
			Step{Migrate, 0, 1, "job small is the only one that waits"}},
	}
	for _, c := range cases {
		if got := Next(c.v, c.c); got != c.want {
			t.Errorf("%s:\n got %+v\nwant %+v", c.name, got, c.want)
		}
	}
}

func TestExplain(t *testing.T) {
	cold := Block{16 * mb, Cold}
	v := View{Room: Room{Budget: 20 * mb, Pinned: 10 * mb}, Jobs: []Job{
		{Name: "job a", Input: 5, Next: []Block{{mb, Moving}}},
		{Name: "job b", Input: 9, Next: []Block{cold}},
		{Name: "job c", Input: 7, Next: []Block{cold}},
		{Name: "job d", Input: 1, Limit: 19 * mb, Held: 10 * mb, Implicit: true, Next: []Block{cold}},
	}}
	want := []string{
		"nothing that it wants can be read now",
		"waits behind job c",
		"waits for room: 10 MiB of the budget of 20 MiB are kept for jobs that have not read them yet, and 16 MiB more do not fit",
		"its own limit of 19 MiB is used up until it has read some of it",
	}
	if got := Explain(v, Config{}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
	v.Jobs[0].Next[0].State = Resident
	want[0], want[1], want[2] = "it is in memory already", "waits behind job a", "waits behind job a"
	if got := Explain(v, Config{}); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// dumb is Next written down a second time: all jobs sorted, then one rule
// after the other tried on each of their blocks.
func dumb(v View, c Config) (do Do, job, block int) {
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
		case x.Seq < y.Seq:
			return -1
		case x.Seq > y.Seq:
			return 1
		}
		return 0
	})
	over := func(j Job, b Block) bool { return j.Limit > 0 && j.Held+b.Bytes > j.Limit }
	never := func(j Job, b Block) bool {
		return b.State == Cold && b.Bytes > v.Room.Budget || j.Limit > 0 && b.Bytes > j.Limit || over(j, b) && !j.Implicit
	}
	// stopped: a block before this one waits for the job's own limit.
	stopped := func(j Job, k int) bool {
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
				return Refer, i, k
			case b.State != Moving && never(j, b):
				return Skip, i, k
			case b.State == Pinned && !over(j, b) && !stopped(j, k):
				return Refer, i, k
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
				return Nothing, i, k
			}
			if full {
				return Wait, i, k
			}
			return Migrate, i, k
		}
	}
	return Nothing, -1, -1
}

func randomView(r *rand.Rand) View {
	v := View{Busy: r.IntN(6) == 0}
	v.Room.Budget = int64(r.IntN(12)) * 8 * mb
	v.Room.Pinned = int64(float64(v.Room.Budget) * r.Float64())
	if r.IntN(4) == 0 {
		v.Room.MaxBlocks = 1 + r.IntN(10)
		v.Room.Blocks = r.IntN(v.Room.MaxBlocks + 1)
	}
	states := []State{Cold, Cold, Cold, Moving}
	if r.IntN(2) == 0 {
		states = append(states, Pinned, Resident)
	}
	for i := range r.IntN(7) {
		j := Job{Name: fmt.Sprintf("job %d", i), Input: int64(r.IntN(4)) * mb, Seq: uint64(r.IntN(5))}
		if r.IntN(3) == 0 {
			j.Limit = int64(1+r.IntN(6)) * 8 * mb
			j.Held = int64(float64(j.Limit) * r.Float64())
			j.Implicit = r.IntN(2) == 0
		}
		for range r.IntN(4) {
			j.Next = append(j.Next, Block{pick(r, 0, 4096, 8*int64(mb), 16*int64(mb), 32*int64(mb)), pick(r, states...)})
		}
		v.Jobs = append(v.Jobs, j)
	}
	return v
}

func TestNextAgainstOracle(t *testing.T) {
	seen := map[Do]int{}
	for seed := range uint64(10000) {
		r := rand.New(rand.NewPCG(seed, 2))
		v, c := randomView(r), Config{Order: pick(r, SmallestFirst, "", FIFO)}
		before := clone(v)
		got := Next(v, c)
		if do, job, block := dumb(v, c); got.Do != do || got.Job != job || got.Block != block {
			t.Fatalf("seed %d, %+v: got %+v, want %v of job %d, block %d", seed, v, got, do, job, block)
		}
		if got.Reason == "" {
			t.Fatalf("seed %d: no reason for %+v", seed, got)
		}
		notes := Explain(v, c)
		if len(notes) != len(v.Jobs) || slices.Contains(notes, "") {
			t.Fatalf("seed %d: notes %q", seed, notes)
		}
		if !reflect.DeepEqual(v, before) {
			t.Fatalf("seed %d: the view was changed", seed)
		}
		if err := checkStep(v, got); err != nil {
			t.Fatalf("seed %d, %+v, %+v: %v", seed, v, got, err)
		}
		seen[got.Do]++
	}
	for _, do := range []Do{Nothing, Wait, Migrate, Refer, Skip} {
		if seen[do] < 300 {
			t.Errorf("only %d steps of kind %d", seen[do], do)
		}
	}
}

// checkStep checks what must hold whatever the order.
func checkStep(v View, s Step) error {
	if s.Do == Migrate {
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
	if s.Do == Wait {
		if b := v.Jobs[s.Job].Next[s.Block]; v.Room.Pinned+b.Bytes <= v.Room.Budget && (v.Room.MaxBlocks == 0 || v.Room.Blocks < v.Room.MaxBlocks) {
			return fmt.Errorf("idle while the first block fits")
		}
	}
	return nil
}

func clone(v View) View {
	v.Jobs = slices.Clone(v.Jobs)
	for i := range v.Jobs {
		v.Jobs[i].Next = slices.Clone(v.Jobs[i].Next)
	}
	return v
}

func TestDropRef(t *testing.T) {
	for i := range 8 {
		r := Ref{Ended: i&1 != 0, Implicit: i&2 != 0, Read: i&4 != 0}
		why, drop := DropRef(r)
		if want := r.Ended || r.Implicit && r.Read; drop != want || drop != (why != "") {
			t.Errorf("%+v: %v, %q", r, drop, why)
		}
	}
}

func TestCleanUp(t *testing.T) {
	holders := []Holder{{Job: "here", Alive: true, Pinned: 5}, {Job: "gone", Pinned: 7 * mb}, {Keep: true, Pinned: 9}, {Job: "gone too"}}
	all := []Drop{
		{1, "job gone has ended without saying so; it held 7 MiB"},
		{3, "job gone too has ended without saying so; it held 0 MiB"},
	}
	cases := []struct {
		name string
		r    Room
		want []Drop
	}{
		{"below", Room{Budget: 100, Pinned: 79, Blocks: 1}, nil},
		{"at 80 %", Room{Budget: 100, Pinned: 80, Blocks: 1}, all},
		{"many blocks", Room{Budget: 100, Pinned: 1, MaxBlocks: 10, Blocks: 8}, all},
		{"a large block waits", Room{Budget: 100, Pinned: 60, Blocks: 1, Waiting: true}, all},
		{"nothing is held", Room{}, nil},
	}
	for _, c := range cases {
		if got := CleanUp(c.r, holders); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}

// TestWarmingToTheEnd lets random jobs come, read and end while Next decides
// for two devices, and checks the rules at each step.
func TestWarmingToTheEnd(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(100) {
		m := newModel(rand.New(rand.NewPCG(seed, 3)))
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
			v := View{Room: Room{Budget: 1 << 40}}
			r := rand.New(rand.NewPCG(1, 1))
			for i := range jobs {
				v.Jobs = append(v.Jobs, Job{Name: "job x", Input: r.Int64N(1 << 40), Seq: uint64(i), Next: []Block{{16 * mb, Cold}}})
			}
			b.ReportAllocs()
			for b.Loop() {
				if s := Next(v, Config{}); s.Do != Migrate || !strings.HasPrefix(s.Reason, "job x") {
					b.Fatal(s)
				}
			}
		})
	}
}

const mb = 1 << 20

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }
