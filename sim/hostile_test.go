package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/policy"
	"headrace/sim/capacity"
	"headrace/trace"
)

// hostile is work that no policy was made for. Each changes the nodes as it needs them.
var hostile = map[string]func(r *rand.Rand, c *Config) *trace.Workload{
	"gangs only": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.CPUs = 4, 4
		w := &trace.Workload{}
		for gang := range int32(40) {
			x := some(w, time.Duration(r.IntN(2000))*time.Second, time.Duration(1+r.IntN(300))*time.Second, headrace.Priority(r.IntN(12)), 1)
			x.Gang = gang + 1
			repeat(w, x, 1<<r.IntN(5))
		}
		return w
	},
	"seconds by the thousand": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.CPUs = 4, 16
		w := &trace.Workload{}
		for burst := range 6 {
			repeat(w, some(w, time.Duration(burst)*20*time.Second, time.Second, headrace.Priority(burst*2), 1), 500)
		}
		return w
	},
	"priorities that rise": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.CPUs = 2, 2
		w := &trace.Workload{}
		for wave := range 12 {
			for p := range headrace.MaxPriority + 1 { // each needs a whole node, and the one before has hardly begun
				some(w, time.Duration(wave)*200*time.Second+time.Duration(p)*3*time.Second, time.Duration(20+r.IntN(20))*time.Second, p, 2).Memory = int64(300+r.IntN(600)) * mb
			}
		}
		return w
	},
	"devices on one node": func(r *rand.Rand, c *Config) *trace.Workload {
		plain := Kind{3, 2, 1500 * mb, 2000 * mb, nil}
		c.Kinds = []Kind{plain, {1, 2, 1500 * mb, 2000 * mb, map[string]float64{"gpu": 2}}}
		c.Nodes = 4
		w := &trace.Workload{Resources: []string{"gpu"}, Needs: [][]float32{{1}, {2}}}
		for range 200 {
			x := some(w, time.Duration(r.IntN(4000))*time.Second, time.Duration(1+r.IntN(200))*time.Second, headrace.Priority(r.IntN(12)), float32(1+r.IntN(2)))
			x.Need, x.Memory = int32(r.IntN(3)), int64(1+r.IntN(1400))*mb
		}
		return w
	},
	"each fills its node": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.Memory, c.Node.Swap, c.Node.Store = 3, 1000*mb, 500*mb, 1500*mb
		w := &trace.Workload{}
		for range 150 {
			x := some(w, time.Duration(r.IntN(4000))*time.Second, time.Duration(1+r.IntN(200))*time.Second, headrace.Priority(r.IntN(12)), 1)
			x.Memory, x.Dirty = int64(900+r.IntN(101))*mb, 1000*mb
		}
		return w
	},
	"a chain": func(r *rand.Rand, c *Config) *trace.Workload {
		w := &trace.Workload{}
		for i := range int32(150) {
			stage := trace.Stage{}
			if i > 0 {
				stage.After = []int32{i - 1}
			}
			w.Stages = append(w.Stages, stage)
			some(w, 0, time.Duration(r.IntN(20))*time.Second, headrace.Priority(i%12), 1).Stage = i + 1
		}
		return w
	},
	"all at once, all different": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.CPUs = 3, 4
		w := &trace.Workload{}
		for range 150 {
			x := some(w, 0, time.Duration(r.Int64N(int64(100*time.Second))), headrace.Priority(r.IntN(12)), float32(1+r.IntN(4000))/1000)
			x.Memory = int64(1 + r.IntN(1000*mb))
		}
		return w
	},
	"nothing": func(r *rand.Rand, c *Config) *trace.Workload {
		w := &trace.Workload{}
		for range 150 {
			x := some(w, time.Duration(r.IntN(50))*time.Second, time.Duration(r.IntN(2)*r.IntN(9))*time.Second, headrace.Priority(r.IntN(12)), float32(r.IntN(2)))
			x.Memory = int64(r.IntN(2)) * 900 * mb
		}
		return w
	},
	"one that needs all nodes": func(r *rand.Rand, c *Config) *trace.Workload {
		c.Nodes, c.Node.CPUs = 4, 2
		w := &trace.Workload{}
		for at := time.Duration(0); at < 2*time.Hour; at += 40 * time.Second {
			some(w, at, time.Duration(100+r.IntN(300))*time.Second, 4, 1)
			if at%(30*time.Minute) == 0 {
				x := some(w, at, time.Minute, 4, 2)
				x.Gang = x.Job + 1
				repeat(w, x, 4)
			}
		}
		return w
	},
}

// some adds a job of one task to w.
func some(w *trace.Workload, at, run time.Duration, p headrace.Priority, cpus float32) *trace.Task {
	w.Jobs = append(w.Jobs, fmt.Sprint("j", len(w.Jobs)))
	w.Tasks = append(w.Tasks, trace.Task{Job: int32(len(w.Jobs) - 1), Submit: at, Run: run, Priority: p, CPUs: cpus, Memory: 10 * mb})
	return &w.Tasks[len(w.Tasks)-1]
}

// repeat makes x, the last task of w, n tasks.
func repeat(w *trace.Workload, x *trace.Task, n int) {
	like := *x
	for like.Index++; int(like.Index) < n; like.Index++ {
		w.Tasks = append(w.Tasks, like)
	}
}

// TestHostile runs hostile work under each policy, with all invariants checked, until its end.
func TestHostile(t *testing.T) {
	for name, work := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range policy.Names() {
				for seed := range uint64(3) {
					c := easy(2, p)
					c.Policy.MinRun, c.Policy.Ageing = 0, time.Minute
					c.Interval, c.Node.Net = time.Duration(seed)*time.Second, float64(seed)*50*mb
					w := work(rand.New(rand.NewPCG(seed, 71)), &c)
					if err := w.Arrange(); err != nil {
						t.Fatal(err)
					}
					sum := 0
					for _, b := range run(t, w, c).Bands {
						sum += b.Tasks
					}
					if sum != len(w.Tasks) {
						t.Errorf("%s, seed %d: %d of %d tasks have ended", p, seed, sum, len(w.Tasks))
					}
				}
			}
		})
	}
}

// TestQueueOfNothing: a queue that is guaranteed nothing has what the one that is guaranteed all leaves, and gives it
// back when that one asks.
func TestQueueOfNothing(t *testing.T) {
	for _, p := range policy.Names() {
		w := &trace.Workload{}
		repeat(w, some(w, 0, 100*time.Second, 0, 1), 4)
		repeat(w, some(w, 50*time.Second, 100*time.Second, 9, 1), 4)
		c := yarned(2, p)
		c.Node.CPUs = 2
		var err error
		if c.Capacity.Queues, err = capacity.ParseQueues([]string{"low=0:0-8", "high=100:9-11:100:1"}); err != nil {
			t.Fatal(err)
		}
		leave, most := 4, 130.0
		if p == policy.Wait {
			leave, most = 0, 160
		}
		r := run(t, w, c)
		if left := r.Counts.Preemptions(); left != leave {
			t.Errorf("%s: %d leave, want %d", p, left, leave)
		}
		if got := r.Bands[2].Response.Mean; got > most {
			t.Errorf("%s: the urgent job ends after %.0f s, want at most %.0f", p, got, most)
		}
	}
}

// TestNobodyStarvesInStream: whoever has come to the top of its band has its turn, however much of its band, or of what is
// no more urgent, comes after it for ever.
func TestNobodyStarvesInStream(t *testing.T) {
	const came, lasts = 20 * time.Minute, 80 * time.Minute
	for name, x := range map[string]struct {
		nodes  []Kind
		victim func(w *trace.Workload)
		stream func(r *rand.Rand, w *trace.Workload, at time.Duration) // each 10 s, more than fits
	}{
		// The stream asks for 1.2 to 1.5 times what there is. A task of the least of seven priorities is at the top after an hour;
		// what came until then ends half an hour later.
		"a low one behind fresh ones of its band": {[]Kind{{2, 2, 1000 * mb, 1000 * mb, nil}},
			func(w *trace.Workload) { some(w, came, time.Minute, 2, 1) },
			func(r *rand.Rand, w *trace.Workload, at time.Duration) {
				some(w, at, time.Duration(40+r.IntN(20))*time.Second, headrace.Priority(2+r.IntN(7)), 1)
			}},
		"a large gang behind small ones": {[]Kind{{2, 2, 1000 * mb, 1000 * mb, nil}},
			func(w *trace.Workload) {
				x := some(w, came, time.Minute, 4, 1)
				x.Gang = 1
				repeat(w, x, 4)
			},
			func(r *rand.Rand, w *trace.Workload, at time.Duration) {
				x := some(w, at, time.Duration(20+r.IntN(10))*time.Second, 4, 1)
				x.Gang = int32(len(w.Jobs)) + 1
				repeat(w, x, 2)
			}},
		"one with a device behind those that need none": {[]Kind{{1, 2, 1000 * mb, 1000 * mb, nil}, {1, 2, 1000 * mb, 1000 * mb, map[string]float64{"gpu": 1}}},
			func(w *trace.Workload) {
				w.Resources, w.Needs = []string{"gpu"}, [][]float32{{1}}
				some(w, came, time.Minute, 4, 2).Need = 1
			},
			func(r *rand.Rand, w *trace.Workload, at time.Duration) {
				some(w, at, time.Duration(40+r.IntN(20))*time.Second, 4, 1)
			}},
		"a whole node behind tasks of seconds": {[]Kind{{1, 2, 1000 * mb, 1000 * mb, nil}},
			func(w *trace.Workload) { some(w, came, time.Minute, 4, 2) },
			func(r *rand.Rand, w *trace.Workload, at time.Duration) {
				repeat(w, some(w, at, 12*time.Second, 4, 1), 2)
			}},
		// The urgent ones take the place of others, whose memory is then written to a slow store.
		"one behind dumps": {[]Kind{{2, 2, 1000 * mb, 0, nil}},
			func(w *trace.Workload) { some(w, came, time.Minute, 2, 1).Memory = 500 * mb },
			func(r *rand.Rand, w *trace.Workload, at time.Duration) {
				x := some(w, at, time.Duration(20+r.IntN(50))*time.Second, headrace.Priority(2+r.IntN(7)), 1)
				x.Memory = int64(300+r.IntN(600)) * mb
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, p := range policy.Names() {
				r := rand.New(rand.NewPCG(1, 72))
				w := &trace.Workload{}
				x.victim(w)
				victim := headrace.JobID(w.Jobs[0])
				for at := time.Duration(0); at < came+lasts; at += 10 * time.Second {
					x.stream(r, w, at)
				}
				if err := w.Arrange(); err != nil {
					t.Fatal(err)
				}
				c := easy(0, p)
				c.Kinds, c.Interval, c.Policy.Ageing, c.Policy.MinRun = x.nodes, time.Second, 0, 0
				if strings.Contains(name, "dumps") {
					c.Medium.Write, c.Medium.Read, c.Node.Net = 20*mb, 20*mb, 20*mb
				}
				for _, k := range x.nodes {
					c.Nodes += k.Nodes
				}
				if p == policy.Kill {
					c.Policy.Ageing = 10 * time.Minute
				}
				c.Check = false // TestHostile has it, and it takes most of the time
				if ended := endOf(t, w, c, victim); ended > came+lasts {
					t.Errorf("%s: it ends %v after it came", p, ended-came)
				} else {
					t.Logf("%s: it ends %v after it came", p, (ended - came).Round(time.Second))
				}
			}
		})
	}
}
