package sim

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// flood returns a workload of which much more is submitted at times than can run.
func flood(seed uint64) *trace.Workload {
	r := rand.New(rand.NewPCG(seed, 9))
	w := &trace.Workload{Name: "flood"}
	var at time.Duration
	for len(w.Tasks) < 1000 {
		job := int32(len(w.Jobs))
		w.Jobs = append(w.Jobs, "j")
		at += time.Duration(r.ExpFloat64() * float64(2*time.Second))
		if r.IntN(100) == 0 {
			at += 20 * time.Minute
		}
		one := trace.Task{
			Job: job, Submit: at, Run: time.Duration(r.ExpFloat64() * float64(30*time.Second)),
			Priority: []headrace.Priority{0, 1, 1, 1, 1, 3, 4, 9, 11}[r.IntN(9)],
			CPUs:     float32(1+r.IntN(8)) / 4, Memory: int64(1+r.IntN(400)) * mb, Dirty: float32(r.IntN(20)) * mb,
		}
		for i := range 1 + r.IntN(20) {
			one.Index = int32(i)
			w.Tasks = append(w.Tasks, one)
		}
	}
	return w
}

// TestBacklog: what is not shown to the policy changes nothing, to the last figure.
func TestBacklog(t *testing.T) {
	seeds := 4
	if testing.Short() {
		seeds = 1
	}
	most := 0
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 10))
		w := flood(seed)
		if seed%2 == 1 {
			w = staged(w, seed)
		}
		for _, p := range policy.Names() {
			c := easy(1+r.IntN(4), p)
			c.Node.CPUs, c.Node.Memory = float64(2+r.IntN(6)), int64(2000+r.IntN(3000))*mb
			c.Node.Swap, c.Node.Store, c.Node.Net = 3000*mb, 100000*mb, 500*float64(mb)
			c.Interval = time.Duration(r.IntN(2)) * time.Second
			c.KnowShare = r.IntN(3) == 0
			c.Policy.MinRun, c.Policy.Ageing = 0, time.Duration(r.IntN(3))*5*time.Minute
			got := make([][]byte, 2)
			for i := range got {
				run := c
				if i == 0 { // an observer sees all
					run.Observe = func(_ time.Duration, v *headrace.View, _ []headrace.Order) { most = max(most, len(v.Tasks)) }
				}
				res, err := Run(t.Context(), w, run, nil)
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, p, err)
				}
				if got[i], err = json.Marshal(res); err != nil {
					t.Fatal(err)
				}
			}
			if !bytes.Equal(got[0], got[1]) {
				t.Errorf("seed %d, %s, %+v: the result is another one", seed, p, c.Node)
			}
		}
	}
	if most < 3*enough {
		t.Errorf("at most %d tasks are here at a time: nothing is held back", most)
	}
}
