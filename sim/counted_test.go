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

// needing gives a third of the jobs of w a need of gpu, of fpga, or of both.
func needing(w *trace.Workload, seed uint64) *trace.Workload {
	r := rand.New(rand.NewPCG(seed, 41))
	w.Resources, w.Needs = []string{"gpu", "fpga"}, [][]float32{{1, 0}, {2, 0}, {0, 1}, {1, 0.5}}
	need := make([]int32, len(w.Jobs))
	for i := range need {
		if r.IntN(3) == 0 {
			need[i] = int32(1 + r.IntN(len(w.Needs)))
		}
	}
	for i := range w.Tasks {
		w.Tasks[i].Need = need[w.Tasks[i].Job]
	}
	return w
}

// TestCountedRandom runs random workloads of which some need devices on clusters of which
// some nodes have any, with all invariants checked after each decision, among them that no
// node gives more than it has; and the same with a queue that is not shown.
func TestCountedRandom(t *testing.T) {
	runs := 60
	if testing.Short() {
		runs = 6
	}
	kills, held := 0, false
	for seed := range uint64(runs) {
		r := rand.New(rand.NewPCG(seed, 42))
		w := needing(random(seed, 60+r.IntN(100)), seed)
		for _, p := range policy.Names() {
			c := easy(0, p)
			c.Kinds = []Kind{
				{1 + r.IntN(2), 2, 1500 * mb, 2000 * mb, nil},
				{1 + r.IntN(2), 2, 1500 * mb, 2000 * mb, map[string]float64{"gpu": 2, "fpga": 1}},
			}
			c.Nodes = c.Kinds[0].Nodes + c.Kinds[1].Nodes
			c.Interval = time.Duration(r.IntN(2)) * time.Second
			c.Policy.MinRun, c.Policy.Ageing = 0, time.Minute
			observe := func(_ time.Duration, v *headrace.View, orders []headrace.Order) {
				for _, o := range orders {
					for i := range v.Tasks {
						if u := &v.Tasks[i]; u.ID == o.Task && u.Need > 0 {
							if o.Mechanism == headrace.Checkpoint {
								t.Errorf("seed %d, %s: %s, which holds devices, is checkpointed", seed, p, u.ID)
							}
							if u.State == headrace.Suspended && o.Mechanism == headrace.Kill {
								kills++
							}
						}
					}
				}
				for i := range v.Tasks {
					held = held || v.Tasks[i].Need > 0 && v.Tasks[i].State == headrace.Suspended
				}
			}
			if r.IntN(2) == 0 {
				c.Observe = observe
			}
			if _, err := Run(t.Context(), w, c, nil); err != nil {
				t.Fatalf("seed %d, %s: %v", seed, p, err)
			}
		}
	}
	if !held || kills == 0 && !testing.Short() {
		t.Errorf("a task that is suspended holds devices: %v; %d such are killed", held, kills)
	}
}

// TestCounted: two tasks that need the one device run one after the other, though there are
// processors enough, where the node is said to have it; where it is not, they do not care.
func TestCounted(t *testing.T) {
	w := &trace.Workload{Jobs: []string{"a", "b"}, Resources: []string{"gpu"}, Needs: [][]float32{{1}}, Tasks: []trace.Task{
		{Job: 0, Run: time.Minute, CPUs: 1, Memory: mb, Need: 1}, {Job: 1, Run: time.Minute, CPUs: 1, Memory: mb, Need: 1},
	}}
	c := easy(1, policy.Wait)
	c.Node.CPUs, c.Node.Memory = 8, 8000*mb
	if got := run(t, w, c).Makespan; got > 65 {
		t.Errorf("without devices it takes %v s", got)
	}
	if said := strings.Join(Ignores(w, &c), "\n"); !strings.Contains(said, "what 2 tasks need of gpu is not counted") {
		t.Errorf("said: %s", said)
	}
	c.Node.Counted = map[string]float64{"gpu": 1}
	if got := run(t, w, c).Makespan; got < 120 || got > 130 {
		t.Errorf("with one device it takes %v s", got)
	}
	if said := Ignores(w, &c); said != nil {
		t.Errorf("said: %s", said)
	}
	w.Needs[0][0] = 2
	if _, err := Run(t.Context(), w, c, nil); err == nil || !strings.Contains(err.Error(), "2 of 2 tasks fit on no node") {
		t.Errorf("of a task that needs more than any node has: %v", err)
	}
	c.Node.Counted["fpga"] = 3
	if said := strings.Join(Ignores(w, &c), "\n"); said != "nodes have fpga, of which no task needs any" {
		t.Errorf("said: %s", said)
	}
}

// TestAnew: a task that holds a device and was suspended for a service begins again where there is
// room, once it has been suspended for as long as it then does again: it cannot be moved, and its
// own node has room when the service ends, after a month.
func TestAnew(t *testing.T) {
	w := &trace.Workload{Jobs: []string{"x", "v", "svc"}, Resources: []string{"gpu"}, Needs: [][]float32{{1}}, Tasks: []trace.Task{
		{Job: 0, Run: 10 * time.Minute, CPUs: 4, Memory: mb, Priority: 9},
		{Job: 1, Run: 2 * time.Hour, CPUs: 4, Memory: mb, Priority: 2, Need: 1},
		{Job: 2, Submit: 10 * time.Second, Run: 30 * 24 * time.Hour, CPUs: 4, Memory: mb, Priority: 10},
	}}
	ended := func(p policy.Name) (at time.Duration) {
		c := easy(2, p)
		c.Node.CPUs, c.Node.Counted = 4, map[string]float64{"gpu": 1}
		c.Observe = func(now time.Duration, v *headrace.View, _ []headrace.Order) {
			for i := range v.Tasks {
				if v.Tasks[i].Job == "v" && !v.Tasks[i].State.Final() {
					at = now
				}
			}
		}
		run(t, w, c)
		return at
	}
	if cost, kill := ended(policy.Cost), ended(policy.Kill); cost > kill+time.Minute {
		t.Errorf("it ends after %v, under kill after %v", cost, kill)
	}
}

// TestLessUrgentWhereDeviceIsAwaited: on the node with the device memory is kept for two that wait for it, so that the less
// urgent task there would have to be paged out for who needs none: the other leaves, and the check finds no fault.
func TestLessUrgentWhereDeviceIsAwaited(t *testing.T) {
	w := &trace.Workload{Resources: []string{"gpu"}, Needs: [][]float32{{1}}}
	add := func(at, run time.Duration, p headrace.Priority, cpus float32, memory int64, need int32) {
		x := some(w, at*time.Second, run*time.Second, p, cpus)
		x.Memory, x.Need = memory*mb, need
	}
	add(0, 5000, 4, 1, 10, 1)
	add(0, 5000, 4, 2, 10, 0)
	add(10, 5000, 0, 2, 300, 0)
	add(1000, 100, 9, 2, 300, 1)
	add(1001, 100, 9, 2, 300, 1)
	add(1100, 100, 9, 2, 300, 0)
	c := easy(2, policy.Cost)
	c.Kinds = []Kind{{1, 2, 1000 * mb, 1000 * mb, nil}, {1, 4, 1000 * mb, 1000 * mb, map[string]float64{"gpu": 1}}}
	c.Policy.Doubling = -1 // who waits for the device would kill for it else
	var left []headrace.TaskID
	c.Observe = func(_ time.Duration, v *headrace.View, orders []headrace.Order) {
		for _, o := range orders {
			if o.Verb == headrace.OrderPreempt {
				left = append(left, o.Task)
			}
		}
	}
	run(t, w, c)
	if len(left) != 1 || left[0] != "j1.2" {
		t.Errorf("%v leave, want j1.2", left)
	}
}
