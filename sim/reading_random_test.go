package sim

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// randomInputs gives the tasks of w parts of a few files.
func randomInputs(w *trace.Workload, r *rand.Rand) {
	for range 4 {
		w.Files = append(w.Files, trace.File{})
	}
	offset := map[int32]int64{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if t.Job%4 == 0 {
			continue
		}
		t.File = 1 + t.Job%4
		switch t.Job % 3 {
		case 0:
			t.Offset, t.Input = offset[t.Job], 100*mb
			offset[t.Job] += 100 * mb
		case 1:
			t.Offset, t.Input = r.Int64N(500*mb), 1+r.Int64N(400*mb)
		default:
			t.Offset, t.Input = 25*mb*r.Int64N(20), 25*mb*(1+r.Int64N(10))
		}
	}
}

// TestRandomReading runs random workloads with inputs under all policies with the
// invariants checked, each twice.
func TestRandomReading(t *testing.T) {
	runs := 32
	if testing.Short() {
		runs = 6
	}
	var lost, warmed, remote, cached int64
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 3))
		w := random(seed, 60+r.IntN(80))
		randomInputs(w, r)
		pick := func(values ...int64) int64 { return values[r.IntN(len(values))] }
		for _, p := range policy.Names() {
			c := easyDisks(1+r.IntN(4), p)
			c.Seed = seed
			c.Node.CPUs = float64(1 + r.IntN(4))
			c.Node.Memory = pick(900, 1500, 4000) * mb
			c.Node.Net = float64(pick(20, 500) * mb)
			c.Interval = time.Duration(pick(0, 1, 10)) * time.Second
			c.Reading.Replicas = 1 + r.IntN(4)
			c.Reading.Cache = pick(0, 90, 300, 1000, 5000) * mb
			c.Reading.Buffer = c.Reading.Cache / pick(1, 2, 5)
			c.Reading.Lead = time.Duration(pick(-1, 0, 5, 60)) * time.Second
			c.Reading.ByResidency = r.IntN(2) == 0
			c.Policy.MinRun, c.Policy.Ageing = 0, time.Minute
			var out [2]bytes.Buffer
			for i := range out {
				got, err := Run(t.Context(), w, c, nil)
				if err != nil {
					t.Fatalf("seed %d, %s, %+v: %v", seed, p, c.Reading, err)
				}
				if err := json.NewEncoder(&out[i]).Encode(got); err != nil {
					t.Fatal(err)
				}
				lost += got.Reading.Lost
				warmed += got.Reading.Warmed
				remote += got.Reading.Remote
				cached += got.Reading.FromMemory - got.Reading.Warmed
				if c.Reading.Cache == 0 && got.Reading.Warmed > 0 || got.Reading.PinnedMost > c.Reading.Buffer || got.Reading.Ahead > got.Reading.Disks {
					t.Errorf("seed %d, %s: %+v of %+v", seed, p, *got.Reading, c.Reading)
				}
			}
			if !bytes.Equal(out[0].Bytes(), out[1].Bytes()) {
				t.Errorf("seed %d, %s: two runs differ", seed, p)
			}
		}
	}
	if lost == 0 || warmed == 0 || remote == 0 || cached == 0 {
		t.Errorf("%d bytes lost, %d warmed, %d remote, %d from the cache: the test tests nothing", lost, warmed, remote, cached)
	}
}

// TestPolicySeesInputs: what the engine's planner orders is what Decide orders on the
// view that it was shown, inputs and all.
func TestPolicySeesInputs(t *testing.T) {
	w := random(12, 200)
	randomInputs(w, rand.New(rand.NewPCG(12, 5)))
	for _, by := range []bool{false, true} {
		c := easyDisks(4, policy.Cost)
		c.Reading.Replicas, c.Reading.ByResidency = 2, by
		c.Reading.Cache, c.Reading.Buffer, c.Reading.Lead = 500*mb, 200*mb, 10*time.Second
		inputs, inMemory := 0, 0
		c.Observe = func(at time.Duration, v *headrace.View, orders []headrace.Order) {
			how := c.Policy
			how.NoResidencyOrder = !by
			if want := policy.Decide(*v, how); !slices.Equal(orders, want) {
				t.Fatalf("at %v: %v, want %v", at, orders, want)
			}
			for _, x := range v.Tasks {
				for _, in := range x.Input.At {
					inputs++
					if in.Resident > 0 {
						inMemory++
					}
				}
			}
		}
		run(t, w, c)
		if inputs == 0 || (inMemory > 0) != by {
			t.Errorf("by residency %v: %d inputs seen, %d in memory", by, inputs, inMemory)
		}
	}
}

// TestResidencyLeavesScheduler: where tasks do not go by what is in memory, YARN still schedules
// if it is to, and the policy kill has no ageing.
func TestResidencyLeavesScheduler(t *testing.T) {
	w := random(5, 120)
	randomInputs(w, rand.New(rand.NewPCG(5, 6)))
	same := func(what string, a, b Config) {
		x, y := run(t, w, a), run(t, w, b)
		x.Config = y.Config
		text, _ := json.Marshal(x)
		want, _ := json.Marshal(y)
		if !bytes.Equal(text, want) || x.Counts.Kills == 0 {
			t.Errorf("%s: %+v in %v s, want %+v in %v s", what, x.Counts, x.Makespan, y.Counts, y.Makespan)
		}
	}
	disks := func(c Config) Config {
		c.Node.CPUs, c.Node.Memory, c.Reading = 2, 1500*mb, easyDisks(1, policy.Kill).Reading
		return c
	}
	kill := disks(easy(1, policy.Kill))
	byDefault := kill
	byDefault.Policy.MinRun, byDefault.Policy.Ageing = 0, 0
	same("kill", byDefault, kill)
	yarn := disks(yarned(1, policy.Kill)) // of which no node keeps anything in memory
	byResidency := yarn
	byResidency.Reading.ByResidency = true
	same("YARN", yarn, byResidency)
}

// TestNoReading: without a disk inputs change nothing.
func TestNoReading(t *testing.T) {
	for seed := range uint64(5) {
		plain, inputs := random(seed, 100), random(seed, 100)
		randomInputs(inputs, rand.New(rand.NewPCG(seed, 4)))
		c := easy(3, policy.Cost)
		c.Node.Net = 100 * mb
		a, b := run(t, plain, c), run(t, inputs, c)
		c.Reading = defaultReading()
		d := run(t, plain, c)
		d.Config = a.Config
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		z, _ := json.Marshal(d)
		if !bytes.Equal(x, y) || !bytes.Equal(x, z) {
			t.Errorf("seed %d: results differ", seed)
		}
	}
}
