package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// random returns a workload of n tasks that come faster than they can be run at times.
func random(seed uint64, n int) *trace.Workload {
	r := rand.New(rand.NewPCG(seed, 1))
	w := &trace.Workload{Name: fmt.Sprint("random ", seed)}
	var at time.Duration
	for len(w.Tasks) < n {
		job := int32(len(w.Jobs))
		w.Jobs = append(w.Jobs, fmt.Sprint("j", job))
		at += time.Duration(r.ExpFloat64() * float64(40*time.Second))
		one := trace.Task{
			Job: job, Submit: at, Run: time.Duration(r.ExpFloat64() * float64(30*time.Second)),
			Priority: headrace.Priority(r.IntN(12)), Class: uint8(r.IntN(4)),
			CPUs: float32(1+r.IntN(4)) / 4, Memory: int64(1+r.IntN(900)) * mb,
			Dirty: float32(r.IntN(20)) * mb,
		}
		if r.IntN(2) == 0 {
			one.Grow = float32(r.IntN(60))
		}
		for i := range 1 + r.IntN(8) {
			one.Index = int32(i)
			w.Tasks = append(w.Tasks, one)
		}
	}
	return w
}

// TestRandom runs random workloads on random small clusters with all invariants
// checked after each decision: memory, swap and stores are scarce, checkpoints move,
// priorities age.
func TestRandom(t *testing.T) {
	runs := 120
	if testing.Short() {
		runs = 10
	}
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 2))
		w := random(seed, 60+r.IntN(100))
		if seed%3 == 0 {
			w = staged(w, seed)
		}
		pick := func(values ...int64) int64 { return values[r.IntN(len(values))] }
		for _, p := range policy.Names() {
			c := easy(1+r.IntN(4), p)
			c.Node.CPUs = float64(1 + r.IntN(3))
			c.Node.Memory = pick(900, 1500, 4000) * mb
			c.Node.Swap = pick(0, 500, 5000) * mb
			c.Node.Store = pick(0, 800, 100000) * mb
			c.Node.Net = float64(pick(0, 50, 500) * mb)
			c.Interval = time.Duration(pick(0, 1, 10)) * time.Second
			c.KnowShare = r.IntN(3) == 0
			if r.IntN(3) == 0 { // more nodes, not all of them as large
				for _, more := range []int64{1, pick(1, 2, 3)} {
					c.Kinds = append(c.Kinds, Kind{c.Nodes, c.Node.CPUs * float64(more), c.Node.Memory * more, pick(0, 5000) * mb, nil})
				}
				c.Nodes *= 2
			}
			c.Costs.Kill = time.Duration(pick(0, 2)) * time.Second
			c.Policy.MinRun, c.Policy.Ageing = 0, time.Minute
			var orders int
			c.Observe = func(_ time.Duration, _ *headrace.View, o []headrace.Order) { orders += len(o) }
			got, err := Run(t.Context(), w, c, nil)
			if err != nil {
				t.Fatalf("seed %d, %s, %+v: %v", seed, p, c.Node, err)
			}
			if orders < len(w.Tasks) {
				t.Errorf("seed %d, %s: %d orders for %d tasks", seed, p, orders, len(w.Tasks))
			}
			sum := 0
			for _, b := range got.Bands {
				sum += b.Tasks
			}
			if sum != len(w.Tasks) || got.Counts.Starts < len(w.Tasks) {
				t.Errorf("seed %d, %s: %d of %d tasks have ended after %d starts", seed, p, sum, len(w.Tasks), got.Counts.Starts)
			}
			if p == policy.Wait && got.Counts.Preemptions() > 0 || p == policy.Kill && got.Counts.Preemptions() != got.Counts.Kills ||
				(p == policy.Suspend || p == policy.Checkpoint) && got.Counts.Kills > 0 {
				t.Errorf("seed %d: %s did %+v", seed, p, got.Counts)
			}
		}
	}
}

// TestSeesWhatDecideSees: what the engine's planner orders is what Decide orders on
// the view that it was shown.
func TestSeesWhatDecideSees(t *testing.T) {
	w := random(11, 200)
	for _, p := range policy.Names() {
		c := easy(2, p)
		c.Node.Net = 100 * mb
		decisions := 0
		c.Observe = func(at time.Duration, v *headrace.View, orders []headrace.Order) {
			decisions++
			if want := policy.Decide(*v, c.Policy); !slices.Equal(orders, want) {
				t.Fatalf("%s at %v: %v, want %v", p, at, orders, want)
			}
		}
		run(t, w, c)
		if decisions == 0 {
			t.Errorf("%s: no decision", p)
		}
	}
}

// TestEvents: events come in order of time, and equal ones in the order in which
// they were added.
func TestEvents(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q events
	var want []event
	for i := range 2000 {
		if len(want) > 0 && r.IntN(3) == 0 {
			first := slices.IndexFunc(want, func(e event) bool {
				return !slices.ContainsFunc(want, func(o event) bool { return o.at < e.at })
			})
			if got := q.take(); got.who != want[first].who {
				t.Fatalf("event %d at %v, want %d at %v", got.who, got.at, want[first].who, want[first].at)
			}
			want = slices.Delete(want, first, first+1)
			continue
		}
		e := event{at: time.Duration(r.IntN(100)), who: int32(i)}
		q.add(e)
		want = append(want, e)
	}
}

// TestQuantile: no less than the share asked for is below it.
func TestQuantile(t *testing.T) {
	values := make([]float32, 2000)
	for i := range values {
		values[i] = float32(i + 1)
	}
	s := spread(values)
	for q, want := range map[float64]float64{0: 1, 0.005: 10, 0.07: 140, 0.5: 1000, 0.502: 1010, 0.95: 1900, 0.99: 1980, 0.992: 1990, 0.997: 2000, 1: 2000} {
		if got := s.Quantile(q); got != want {
			t.Errorf("%v: %v, want %v", q, got, want)
		}
	}
}

// TestSeries: means over time, whatever the length of the steps.
func TestSeries(t *testing.T) {
	s := series{step: firstStep}
	r := rand.New(rand.NewPCG(3, 4))
	var at time.Duration
	var load, waiting float64
	for range 5000 {
		to := at + time.Duration(r.IntN(int(2*time.Minute)))
		held, n := r.Float64(), r.IntN(5)
		s.add(at, to, held, n)
		load += held * (to - at).Seconds()
		waiting += float64(n) * (to - at).Seconds()
		at = to
	}
	step, loads, waits := s.result(2)
	if len(loads) > mostSteps || len(loads) < mostSteps/2 || len(waits) != len(loads) {
		t.Fatalf("%d steps of %v s", len(loads), step)
	}
	for i := range loads {
		load -= loads[i] * step * 2
		waiting -= waits[i] * step
	}
	near(t, "load", load, 0)
	near(t, "waiting", waiting, 0)
}
