package sim

import (
	"math/rand/v2"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/trace"
)

// victimsOf runs w and returns who had to leave first, and from which node.
func victimsOf(t *testing.T, w *trace.Workload, c Config) (*Result, headrace.Order) {
	t.Helper()
	var first headrace.Order
	c.Observe = func(_ time.Duration, _ *headrace.View, orders []headrace.Order) {
		for _, o := range orders {
			if o.Verb == headrace.OrderPreempt && first.Task == "" {
				first = o
			}
		}
	}
	return run(t, w, c), first
}

// TestKillIsPricedWithInput: a task that has read for ten seconds and run for 19 loses less by a
// kill than one that has run for 24, if what it has read is in memory.
func TestKillIsPricedWithInput(t *testing.T) {
	w := readers(reader{file: 1, input: 1000, run: 100}, reader{submit: 5, run: 100}, reader{submit: 30, run: 10, priority: 10})
	for _, tt := range []struct {
		cache int64
		want  headrace.TaskID
	}{{2000 * mb, "r0.1"}, {0, "r1.2"}} {
		c := easyDisks(1, policy.Kill)
		c.Node.CPUs = 2
		c.Reading.Cache, c.Reading.ByResidency = tt.cache, true
		if _, first := victimsOf(t, w, c); first.Task != tt.want {
			t.Errorf("with a cache of %d bytes %s leaves, want %s", tt.cache, first.Task, tt.want)
		}
	}
}

// TestSlotIsPricedWithInput: of two victims that are alike that one leaves whose node has the
// input of the urgent task in memory.
func TestSlotIsPricedWithInput(t *testing.T) {
	w := readers(reader{file: 1, input: 500, run: 1}, reader{submit: 20, run: 1000}, reader{submit: 20, run: 1000},
		reader{submit: 40, run: 10, file: 1, input: 500, priority: 10})
	nodes := map[headrace.NodeID]int{}
	for seed := range uint64(40) {
		c := easyDisks(2, policy.Cost)
		c.Reading.Cache, c.Reading.ByResidency, c.Seed = 2000*mb, true, seed
		c.Reading.Block = 500 * mb // one block, on one node
		r, first := victimsOf(t, w, c)
		nodes[first.Node]++
		if r.Reading.FromMemory != 500*mb || r.Reading.Remote != 0 {
			t.Errorf("seed %d: of two readings of 500 MB %d bytes come from memory, %d from the disk of another node", seed, r.Reading.FromMemory, r.Reading.Remote)
		}
	}
	if len(nodes) != 2 {
		t.Errorf("the input is always on the same node: %v", nodes)
	}
}

// TestRandomReadingOfYARN: tasks of YARN that are killed read again what they need, also when
// they had saved some of it.
func TestRandomReadingOfYARN(t *testing.T) {
	var lost int64
	var checkpoints int
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 11))
		w := random(seed, 80)
		randomInputs(w, r)
		for _, p := range policy.Names() {
			c := yarned(1+r.IntN(3), p)
			c.Node.CPUs, c.Node.Memory, c.Node.Net = 2, 1500*mb, 50*mb
			c.Reading = easyDisks(1, p).Reading
			c.Reading.Cache, c.Reading.ByResidency, c.Seed = 1000*mb, r.IntN(2) == 0, seed
			got, err := Run(t.Context(), w, c, nil)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", seed, p, err)
			}
			lost += got.Reading.Lost
			checkpoints += got.Counts.Checkpoints
		}
	}
	if lost == 0 || checkpoints == 0 {
		t.Errorf("%d bytes read in vain, %d checkpoints: the test tests nothing", lost, checkpoints)
	}
}
