package workload

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomTasks gives a sink tasks with everything; stages wait for stages in any order, but
// not in circles. What waits[s] has comes before s.
func randomTasks(r *rand.Rand, to Sink) (waits map[int32][]int32) {
	waits = map[int32][]int32{}
	stages := []int32{0}
	for range r.IntN(6) {
		stages = append(stages, to.Stage())
	}
	rank := r.Perm(len(stages)) // the order that keeps circles away
	for range r.IntN(12) {
		a, b := 1+r.IntN(max(1, len(stages)-1)), 1+r.IntN(max(1, len(stages)-1))
		if len(stages) > 1 && rank[a] < rank[b] {
			to.After(stages[b], stages[a])
			waits[stages[b]] = append(waits[stages[b]], stages[a])
		}
	}
	gangs := []int32{0, to.Gang(), to.Gang()}
	jobs := []int32{to.Job("a"), to.Job("b"), to.Job("none")}
	for i := range r.IntN(12) {
		need := []float32{0, 0}
		need[to.Resource([]string{"gpu", "licence"}[r.IntN(2)])] = float32(r.IntN(3))
		to.Task(Task{Job: jobs[r.IntN(2)], Index: int32(i), Submit: time.Duration(r.IntN(4)), User: to.User([]string{"", "u", "v"}[r.IntN(3)]),
			Need: to.Need(need), Stage: stages[r.IntN(len(stages))], Gang: gangs[r.IntN(3)], CPUs: float32(i)})
	}
	return waits
}

// Whatever the order, what a task is part of stays the same, and Check finds nothing.
func TestArrangeRandom(t *testing.T) {
	for seed := range uint64(2000) {
		c := &Collector{Most: 100}
		waits := randomTasks(rand.New(rand.NewPCG(seed, 3)), c)
		given := map[int32]Task{}
		has := map[int32]bool{}
		for _, chunk := range c.chunks {
			for _, k := range chunk {
				given[k.Index] = k
				has[k.Stage] = true
			}
		}
		users, needs := slices.Clone(c.Users), slices.Clone(c.Needs)
		resources := slices.Clone(c.Resources)
		w, err := c.Workload(About{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(); err != nil {
			t.Fatalf("seed %d: %v\n%+v", seed, err, w)
		}
		gangs := map[int32]int32{}
		stages := map[int32]int32{}
		for _, k := range w.Tasks {
			g := given[k.Index]
			if (k.User == 0) != (g.User == 0) || k.User > 0 && w.Users[k.User-1] != users[g.User-1] {
				t.Fatalf("seed %d: user %d of %q, was %d of %q", seed, k.User, w.Users, g.User, users)
			}
			if (k.Need == 0) != (g.Need == 0) {
				t.Fatalf("seed %d: need %d, was %d", seed, k.Need, g.Need)
			}
			if k.Need > 0 {
				for r, n := range needs[g.Need-1] {
					if at := slices.Index(w.Resources, resources[r]); n > 0 && w.Needs[k.Need-1][at] != n {
						t.Fatalf("seed %d: %v of %q, was %v of %q", seed, w.Needs[k.Need-1], w.Resources, needs[g.Need-1], resources)
					}
				}
			}
			for _, v := range []struct {
				known    map[int32]int32
				now, was int32
			}{{gangs, k.Gang, g.Gang}, {stages, k.Stage, g.Stage}} {
				if n, ok := v.known[v.was]; ok && n != v.now || (v.now == 0) != (v.was == 0) {
					t.Fatalf("seed %d: %d, was %d", seed, v.now, v.was)
				}
				v.known[v.was] = v.now
			}
		}
		for s, list := range waits {
			for _, b := range list {
				if has[s] && has[b] && !slices.Contains(w.Stages[stages[s]-1].After, stages[b]-1) {
					t.Fatalf("seed %d: %+v: %d does not wait for %d", seed, w.Stages, stages[s], stages[b])
				}
			}
		}
		again := *w
		again.Tasks = slices.Clone(w.Tasks)
		if err := again.Arrange(); err != nil || !reflect.DeepEqual(&again, w) {
			t.Fatalf("seed %d: arranged again: %v\n%+v\n%+v", seed, err, again, w)
		}
	}
}

func TestCircle(t *testing.T) {
	c := &Collector{Most: 10}
	a, b, other := c.Stage(), c.Stage(), c.Stage()
	c.After(a, b)
	c.After(b, a)
	job := c.Job("etl")
	for i, s := range []int32{other, a, b} {
		if err := c.Task(Task{Job: job, Index: int32(i), Stage: s}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Workload(About{}); err == nil || !strings.Contains(err.Error(), `stages wait for each other in a circle: task 1 of job "etl" can never begin`) {
		t.Error(err)
	}
}

func TestCheckRelations(t *testing.T) {
	good := func() *Workload {
		return &Workload{Jobs: []string{"a"}, Users: []string{"u"}, Resources: []string{"gpu"}, Needs: [][]float32{{1}}, Stages: []Stage{{}, {After: []int32{0}}},
			Tasks: []Task{{Stage: 1, User: 1}, {Index: 1, Stage: 2, Need: 1, Gang: 1}}}
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(w *Workload){
		"user":         func(w *Workload) { w.Tasks[0].User = 2 },
		"unused user":  func(w *Workload) { w.Users = append(w.Users, "v") },
		"need":         func(w *Workload) { w.Tasks[0].Need = -1 },
		"length":       func(w *Workload) { w.Resources = nil },
		"negative":     func(w *Workload) { w.Needs[0][0] = -1 },
		"stage":        func(w *Workload) { w.Tasks[0].Stage = 3 },
		"empty stage":  func(w *Workload) { w.Tasks[0].Stage = 0 },
		"itself":       func(w *Workload) { w.Stages[1].After[0] = 1 },
		"twice":        func(w *Workload) { w.Stages[1].After = []int32{0, 0} },
		"gang numbers": func(w *Workload) { w.Tasks[1].Gang = 2 },
	} {
		w := good()
		if spoil(w); w.Check() == nil {
			t.Errorf("%s: nothing wrong was found", name)
		}
	}
}

func TestUnique(t *testing.T) {
	u := Unique{}
	for _, c := range [][2]string{{"a", "a"}, {"a", "a#2"}, {"a#2", "a#2#2"}, {"a", "a#3"}, {"b", "b"}, {"", ""}, {"", "#2"}} {
		if got := u.Name(c[0]); got != c[1] {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
}
