package sim

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// ganged makes gangs of the tasks of half of the jobs of w.
func ganged(w *trace.Workload, seed uint64, most int) *trace.Workload {
	r := rand.New(rand.NewPCG(seed, 61))
	of, left := map[int32]int32{}, map[int32]int{}
	next := int32(0)
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if _, met := of[t.Job]; !met {
			of[t.Job], left[t.Job] = 0, most
			if r.IntN(2) == 0 {
				next++
				of[t.Job] = next
			}
		}
		if left[t.Job]--; left[t.Job] < 0 {
			continue // the rest of a job is alone
		}
		if t.Gang = of[t.Job]; t.Gang != 0 && r.IntN(4) == 0 {
			t.Run /= 2 // one of a gang ends before the others
		}
	}
	return w
}

// TestGangsRandom runs random workloads with gangs, devices and stages on random clusters
// with all invariants checked: all of a gang hold processors or none, and none gets on alone;
// no node gives what it has not; no work vanishes; and no gang waits while nodes are idle.
func TestGangsRandom(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 8
	}
	left, resumed := 0, 0
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 62))
		w := random(seed, 60+r.IntN(100))
		nodes := 2 + r.IntN(3)
		w = ganged(w, seed, 2*nodes)
		if seed%3 == 0 {
			w = needing(w, seed)
		}
		for _, p := range policy.Names() {
			c := easy(nodes, p)
			c.Node.CPUs, c.Node.Memory, c.Node.Swap = 2, 3000*mb, int64(r.IntN(2))*3000*mb
			c.Node.Net = float64(r.IntN(2)) * 100 * mb
			c.Node.Counted = map[string]float64{"gpu": 4, "fpga": 2}
			c.Interval = time.Duration(r.IntN(2)) * 5 * time.Second
			c.KnowShare = r.IntN(3) == 0
			c.Policy.MinRun, c.Policy.Ageing = 0, time.Minute
			if r.IntN(2) == 0 {
				c.Observe = func(_ time.Duration, v *headrace.View, orders []headrace.Order) {
					for _, o := range orders {
						for i := range v.Tasks {
							if u := &v.Tasks[i]; u.ID == o.Task && u.Gang != 0 {
								switch o.Verb {
								case headrace.OrderPreempt:
									left++
								case headrace.OrderResume:
									resumed++
								}
							}
						}
					}
				}
			}
			got, err := Run(t.Context(), w, c, nil)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, p, err)
			}
			sum := 0
			for _, b := range got.Bands {
				sum += b.Tasks
			}
			if sum != len(w.Tasks) {
				t.Errorf("seed %d, %s: %d of %d tasks have ended", seed, p, sum, len(w.Tasks))
			}
		}
	}
	t.Logf("tasks of gangs had to leave %d times, and came back %d times", left, resumed)
	if !testing.Short() && (left < 100 || resumed < 100) {
		t.Errorf("tasks of gangs had to leave %d times, and came back %d times", left, resumed)
	}
}

// gangOf is a workload of one gang that needs all four processors of two nodes, and a lone
// task before it.
func gangOf(priority headrace.Priority) *trace.Workload {
	w := &trace.Workload{Jobs: []string{"first", "gang", "late"}}
	w.Tasks = append(w.Tasks, trace.Task{Job: 0, Run: time.Minute, CPUs: 1, Memory: mb, Priority: 4})
	for i := range int32(4) {
		w.Tasks = append(w.Tasks, trace.Task{Job: 1, Index: i, Submit: 10 * time.Second, Run: 30 * time.Second, CPUs: 1, Memory: mb, Priority: priority, Gang: 7})
	}
	w.Tasks = append(w.Tasks, trace.Task{Job: 2, Submit: 20 * time.Second, Run: 100 * time.Second, CPUs: 1, Memory: mb, Priority: 4})
	return w
}

func TestGangByHand(t *testing.T) {
	for name, x := range map[string]struct {
		w         *trace.Workload
		p         policy.Name
		makespan  float64
		preempted int
	}{
		// The first runs from 1 to 61, the gang from 62 to 92: what is free is kept for it. The
		// late one from 93 to 193.
		"waits": {gangOf(4), policy.Wait, 193, 0},
		// The first is killed at 10, the gang runs from 13 to 43 with two seconds to kill and
		// one to start; then the others from 44, until 144.
		"kills": {gangOf(9), policy.Kill, 144, 1},
		// It is suspended from 10 on, goes on at 43 + 4.
		"suspends": {gangOf(9), policy.Suspend, 145, 1},
	} {
		c := easy(2, x.p)
		c.Node.CPUs = 2
		got := run(t, x.w, c)
		if got.Makespan < x.makespan-1 || got.Makespan > x.makespan+2 || got.Counts.Preemptions() != x.preempted {
			t.Errorf("%s: %v s, %d preempted; want %v s, %d", name, got.Makespan, got.Counts.Preemptions(), x.makespan, x.preempted)
		}
	}
	// The gang is taken as a whole: an urgent task that needs one processor has all four of it
	// leave, and they come back together.
	w := gangOf(2)
	w.Tasks = w.Tasks[1:]
	w.Tasks[4].Priority = 9
	c := easy(2, policy.Suspend)
	c.Node.CPUs = 2
	if got := run(t, w, c); got.Counts.Suspends != 4 || got.Counts.Resumes != 4 || got.Work.Useful != 4*30+100 {
		t.Errorf("the gang: %+v, %+v", got.Counts, got.Work)
	}
}

// TestGangComes: a gang comes into the queue when the last of it is submitted, one that is of
// one task is none, and one that is too large for all nodes is refused.
func TestGangComes(t *testing.T) {
	w := gangOf(4)
	w.Tasks = w.Tasks[1:5]
	w.Tasks[3].Submit = time.Minute
	c := easy(2, policy.Wait)
	c.Node.CPUs = 2
	if got := run(t, w, c); got.Makespan != 50+1+30 {
		t.Errorf("it takes %v s", got.Makespan)
	}
	c.Nodes = 1
	if _, err := Run(t.Context(), w, c, nil); err == nil || !strings.Contains(err.Error(), "of a gang (4) that does not fit on all 1 nodes together") {
		t.Errorf("on one node: %v", err)
	}
	w.Tasks[0].CPUs = 2 // 2, 1, 1 and 1
	c.Nodes = 2
	if _, err := Run(t.Context(), w, c, nil); err == nil {
		t.Error("5 of 4 CPUs")
	}
	if c.Nodes = 3; run(t, w, c).Makespan != 81 {
		t.Error("on three nodes it takes another time")
	}
	w.Tasks = w.Tasks[:1]
	if said := Ignores(w, &c); said != nil {
		t.Errorf("said: %v", said)
	}
	c = easy(1, policy.Checkpoint)
	c.Node.CPUs = 2
	w.Jobs = append(w.Jobs, "u")
	w.Tasks = append(w.Tasks, trace.Task{Job: 2, Submit: 20 * time.Second, Run: time.Second, CPUs: 2, Memory: mb, Priority: 9})
	if got := run(t, w, c); got.Counts.Checkpoints != 1 {
		t.Errorf("a gang of one: %+v", got.Counts)
	}
}

// TestGangIsNotStarved: behind a stream of small tasks that would fill the cluster for ever a
// gang of the same priority has its turn when those before it have ended.
func TestGangIsNotStarved(t *testing.T) {
	for _, p := range policy.Names() {
		w := &trace.Workload{Jobs: []string{"s", "gang"}}
		for i := range int32(1000) {
			at := time.Duration(i) * 8 * time.Second // four processors serve one each 7.75 s
			if i == 100 {
				for k := range int32(4) {
					w.Tasks = append(w.Tasks, trace.Task{Job: 1, Index: k, Submit: at, Run: time.Minute, CPUs: 1, Memory: mb, Priority: 4, Gang: 1})
				}
			}
			w.Tasks = append(w.Tasks, trace.Task{Index: i, Submit: at, Run: time.Duration(25+i%11) * time.Second, CPUs: 1, Memory: mb, Priority: 4})
		}
		c := easy(2, p)
		c.Node.CPUs, c.Interval = 2, time.Second
		began := time.Duration(0)
		c.Observe = func(at time.Duration, v *headrace.View, _ []headrace.Order) {
			for i := range v.Tasks {
				if v.Tasks[i].Gang != 0 && v.Tasks[i].State == headrace.Running && began == 0 {
					began = at
				}
			}
		}
		run(t, w, c)
		if waited := began - 800*time.Second; waited <= 0 || waited > 2*time.Minute {
			t.Errorf("%s: the gang waits for %v", p, waited)
		}
	}
}
