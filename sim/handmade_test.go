package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// handMade runs a small workload on nodes of so many processors, with all invariants verified.
func handMade(t *testing.T, w *trace.Workload, nodes int, cpus float64, change func(*Config)) *Result {
	t.Helper()
	c := DefaultConfig()
	c.Nodes, c.Node.CPUs, c.Check = nodes, cpus, true
	m := DefaultMeasurements()
	if err := m.Apply(&c, "ssd"); err != nil {
		t.Fatal(err)
	}
	change(&c)
	r, err := Run(t.Context(), w, c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// forPreempting runs test under each policy that has others leave, and under adaptive, which goes by the victim order alone,
// if asked for.
func forPreempting(t *testing.T, asPublished bool, test func(*testing.T, policy.Name)) {
	for _, name := range policy.Names() {
		if name != policy.Wait && (name != policy.Adaptive || asPublished) {
			t.Run(string(name), func(t *testing.T) {
				t.Parallel()
				test(t, name)
			})
		}
	}
}

// TestBigUrgentJob: 4,000 urgent tasks of a minute come when 4,000 processors are busy. With a decision every second the
// last of them ends at most a tenth later than with one at any time.
func TestBigUrgentJob(t *testing.T) {
	w := &trace.Workload{Jobs: []string{"low", "urgent"}}
	for i := range int32(8000) {
		task := trace.Task{Job: i / 4000, Index: i % 4000, Submit: time.Duration(i/4000) * time.Minute, Run: time.Hour, CPUs: 1, Memory: 1 << 30}
		if task.Job == 1 {
			task.Run, task.Priority = time.Minute, 10
		}
		w.Tasks = append(w.Tasks, task)
	}
	forPreempting(t, true, func(t *testing.T, name policy.Name) {
		response := func(interval time.Duration) float64 {
			r := handMade(t, w, 250, 16, func(c *Config) { c.Policy.Policy, c.Interval = name, interval })
			return r.Bands[2].Response.Mean // of the one job
		}
		at, any := response(time.Second), response(0)
		if at > 1.1*any {
			t.Errorf("the urgent job ends after %.1f s, with decisions at any time after %.1f", at, any)
		}
	})
}

// TestNotPinned: who had to leave for a service of a day goes on on the other node when that is idle.
func TestNotPinned(t *testing.T) {
	w := workload(
		job{run: 600, priority: 1, memory: 1 << 30, dirty: 10 << 20},
		job{run: 660, priority: 4, memory: 1 << 30, dirty: 10 << 20},
		job{submit: 300, run: 86400, priority: 9, memory: 1 << 30},
	)
	forPreempting(t, false, func(t *testing.T, name policy.Name) {
		r := handMade(t, w, 2, 1, func(c *Config) { c.Policy.Policy = name })
		for band, most := range []float64{1300, 700} { // the less urgent one begins anew at 660 s under kill
			if got := r.Bands[band].Response.Mean; got > most {
				t.Errorf("the task of band %d ends after %.0f s, want at most %.0f", band, got, most)
			}
		}
	})
}

// TestLessUrgentOnOtherNode: the less urgent of two leaves, whichever node it is on.
func TestLessUrgentOnOtherNode(t *testing.T) {
	for _, firstIsLow := range []bool{true, false} {
		priorities := []headrace.Priority{8, 1}
		if firstIsLow {
			priorities = []headrace.Priority{1, 8}
		}
		w := workload(job{run: 600, priority: priorities[0], memory: 1 << 30}, job{run: 600, priority: priorities[1], memory: 1 << 30},
			job{submit: 300, run: 60, priority: 9, memory: 1 << 30})
		forPreempting(t, false, func(t *testing.T, name policy.Name) {
			r := handMade(t, w, 2, 1, func(c *Config) { c.Policy.Policy = name })
			if got := r.Bands[1].Response.Mean; got > 605 {
				t.Errorf("the more urgent of the two ends after %.0f s, it runs 600", got)
			}
		})
	}
}

// TestAgeingStarvesNobody: with as much work as there is room for, the free task that is worst off ends no later
// with ageing than without.
func TestAgeingStarvesNobody(t *testing.T) {
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 12))
		var jobs []job
		for at := 0.; at < 6*3600; at += r.ExpFloat64() * 60 {
			j := job{submit: at, run: 30 + r.ExpFloat64()*200, memory: 1 << 30, dirty: 10 << 20}
			if j.priority = headrace.Priority(r.IntN(2)); r.IntN(5) == 0 {
				j.priority = 9
			}
			jobs = append(jobs, j)
		}
		w := workload(jobs...)
		forPreempting(t, true, func(t *testing.T, name policy.Name) {
			worst := func(ageing time.Duration) float64 {
				r := handMade(t, w, 1, 4, func(c *Config) { c.Policy.Policy, c.Policy.Ageing = name, ageing })
				return r.Bands[0].Response.Quantile(1)
			}
			if with, without := worst(0), worst(policy.None); with > without*1.01 {
				t.Errorf("seed %d: the worst free task takes %.0f s with ageing, %.0f without", seed, with, without)
			}
		})
	}
}
