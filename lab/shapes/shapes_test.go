package shapes

import (
	"math"
	"reflect"
	"testing"

	"headrace/sim"
	"headrace/trace/workload"
)

func made(t *testing.T, s *Shape, seed uint64, tasks int, load float64) *workload.Workload {
	t.Helper()
	w, err := s.Make(seed, tasks, load)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func TestShapes(t *testing.T) {
	halves, names := map[Half]int{}, map[string]bool{}
	for _, s := range All() {
		t.Run(s.Name, func(t *testing.T) {
			if names[s.Name] || s.What == "" {
				t.Error("its name is another one's too, or nothing says what it is")
			}
			halves[s.Half]++
			names[s.Name] = true
			c, err := s.Config(sim.DefaultMeasurements())
			if err != nil {
				t.Fatal(err)
			}
			c.Policy.Policy = "cost"
			if err := c.Validate(); err != nil {
				t.Fatal(err)
			}
			first := made(t, &s, 1, 400, 0.9)
			if !reflect.DeepEqual(first, made(t, &s, 1, 400, 0.9)) {
				t.Error("a seed gives different work")
			}
			if reflect.DeepEqual(first.Tasks, made(t, &s, 2, 400, 0.9).Tasks) {
				t.Error("two seeds give the same work")
			}
			for seed := range uint64(20) {
				for _, load := range []float64{0.7, 1.2} {
					w := made(t, &s, seed, 400, load)
					if err := w.Check(); err != nil {
						t.Fatal(err)
					}
					if got := w.Load() / c.CPUs(); math.Abs(got/load-1) > 1e-3 {
						t.Errorf("seed %d: the load is %v, want %v", seed, got, load)
					}
					if n := len(w.Tasks); n < 400 || n > 450 {
						t.Errorf("seed %d: %d tasks, want 400 and the rest of a job", seed, n)
					}
					if words := sim.Ignores(w, &c); len(words) > 0 {
						t.Errorf("seed %d: %v", seed, words)
					}
					large := c.TooLarge(w)
					for i := range w.Tasks {
						if large(&w.Tasks[i]) {
							t.Fatalf("seed %d: no node takes %+v", seed, w.Tasks[i])
						}
					}
				}
			}
		})
	}
	if halves[Looked] < 10 || halves[Judged] < 10 || halves[Looked]+halves[Judged] != len(names) {
		t.Errorf("the halves have %v", halves)
	}
}

// The load changes when jobs come, and nothing else.
func TestLoadChangesTimesOnly(t *testing.T) {
	for _, s := range All() {
		a, b := made(t, &s, 3, 200, 0.7), made(t, &s, 3, 200, 1.05)
		a.Name = b.Name
		for i := range a.Tasks {
			a.Tasks[i].Submit = b.Tasks[i].Submit
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%s: the tasks differ", s.Name)
		}
	}
}

func TestNoLoad(t *testing.T) {
	for _, load := range []float64{0, -1, math.NaN()} {
		if _, err := All()[0].Make(1, 100, load); err == nil {
			t.Errorf("at %v: want an error", load)
		}
	}
}

// A load needs two jobs, however few tasks are asked for.
func TestFewTasks(t *testing.T) {
	for _, s := range All() {
		for seed := range uint64(20) {
			if w := made(t, &s, seed, 1, 1); len(w.Jobs) < 2 {
				t.Errorf("%s, seed %d: %d jobs", s.Name, seed, len(w.Jobs))
			}
		}
	}
}

// A draw moves each job by up to 5 s and changes nothing else; the same draw does the same.
func TestMove(t *testing.T) {
	for _, s := range All() {
		before, after, again := made(t, &s, 3, 200, 0.9), made(t, &s, 3, 200, 0.9), made(t, &s, 3, 200, 0.9)
		for _, w := range []*workload.Workload{after, again} {
			if err := Move(w, 7); err != nil {
				t.Fatal(err)
			}
			if err := w.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if !reflect.DeepEqual(after, again) {
			t.Errorf("%s: a draw moves differently", s.Name)
		}
		type key struct {
			job   string
			index int32
		}
		was, moved := map[key]workload.Task{}, 0
		for _, x := range before.Tasks {
			was[key{before.Jobs[x.Job], x.Index}] = x
		}
		for _, x := range after.Tasks {
			old := was[key{after.Jobs[x.Job], x.Index}]
			by := x.Submit - old.Submit
			if by != 0 {
				moved++
			}
			if by.Abs() > mostMoved || x.Run != old.Run || x.CPUs != old.CPUs || x.Priority != old.Priority {
				t.Errorf("%s: %+v was %+v", s.Name, x, old)
			}
		}
		if moved < len(before.Tasks)/2 {
			t.Errorf("%s: %d tasks are moved", s.Name, moved)
		}
	}
}
