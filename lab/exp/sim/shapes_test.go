package sim

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/lab/labtest"
	"headrace/lab/shapes"
	"headrace/lab/trial"
	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// modelShapes is invented results of two shapes: cost does well on the first; on the second it
// wastes and is late at one of two loads, and the check finds something. What is not complete,
// and jobs that are not there, are not compared.
func modelShapes() *Results {
	r := modelSim()
	r = &Results{Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Command: "headrace-lab bench sim --only shapes",
		Started: r.Started, Took: 60, Complete: true, Machine: r.Machine, Seed: 7, Repeats: 1}}
	calm := Shape{Name: "calm", Half: shapes.Looked, What: "nothing happens", Cluster: "1 of 4 CPUs, 8 GiB"}
	wild := Shape{Name: "wild", Half: shapes.Judged, What: "much happens", Cluster: "2 of 8 CPUs, 16 GiB"}
	for _, load := range []float64{0.7, 1.2} {
		for _, p := range shapePolicies {
			x := ShapeRun{Seed: 7, Load: load, Policy: p, Tasks: 100, Wasted: 0.02, Urgent: 100, All: 500, Longest: 9000}
			switch p {
			case policy.Kill:
				x.Wasted, x.All = 0.3, 800
			case policy.Suspend:
				x.Wasted = 0.01
			case policy.Cost:
				x.Longest = 8000
			}
			calm.Runs = append(calm.Runs, x)
			if p == policy.Cost && load > 1 {
				x.Wasted, x.Urgent, x.All, x.Longest = 0.08, 110, 600, 9900
				x.Fault = "sim: invariant violated at 1h0m0s under cost: n1 has been idle for 3m0s, and job1.1, which is pending and fits there, has waited for 2m0s"
			}
			if load < 1 {
				x.Urgent = 0
			}
			wild.Runs = append(wild.Runs, x)
		}
	}
	wild.Runs = append(wild.Runs, ShapeRun{Seed: 8, Load: 0.7, Policy: policy.Kill, Tasks: 100, All: 1}, ShapeRun{Seed: 8, Load: 0.7, Policy: policy.Cost, Failure: "the model has a hole"})
	r.Failed("wild: the model has a hole")
	r.Shapes = []Shape{calm, wild}
	return r
}

func TestShapesReport(t *testing.T) {
	r := modelShapes()
	labtest.CheckReport(t, r, "shapes")
	if n := len(r.shapePoints()); n != 4 {
		t.Errorf("%d points, want 4", n)
	}
	var page strings.Builder
	if err := r.Page().WriteHTML(&page); err != nil || !strings.Contains(page.String(), "Where cost misses an aim") {
		t.Errorf("%v, or the page does not say what is missed", err)
	}
}

// What meets everything has no table of what is missed.
func TestShapesWithoutMisses(t *testing.T) {
	r := modelShapes()
	r.Shapes = r.Shapes[:1]
	for _, table := range r.shapeTables() {
		if strings.Contains(table.Title, "misses") {
			t.Errorf("%s: %v", table.Title, table.Rows)
		}
	}
	for _, a := range r.aims() {
		if verdict, _ := a.Verdict(); verdict != "met" {
			t.Errorf("%s: %s", a.What, verdict)
		}
	}
}

func TestQuickShapes(t *testing.T) {
	o := simTest(t, simShapes)
	o.Repeats, o.Shapes.Tasks = 1, 15
	run := func() *Results {
		if err := Measure(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return simResultsOf(t, o)
	}
	res := run()
	if want := len(shapes.All()); len(res.Shapes) != want || len(res.shapePoints()) != want*len(shapeLoads) || !res.Complete {
		t.Fatalf("%d shapes with %d points, want %d with %d at each", len(res.Shapes), len(res.shapePoints()), want, len(shapeLoads))
	}
	for _, x := range res.Shapes {
		for _, r := range x.Runs {
			if r.Tasks < 15 || !(r.All > 0) || !(r.Wasted >= 0) {
				t.Errorf("%s: %+v", x.Name, r)
			}
		}
	}
	if again := run(); !reflect.DeepEqual(again.Shapes, res.Shapes) {
		t.Error("the same seed gives other figures")
	}
}

func TestInterruptedShapes(t *testing.T) {
	o := simTest(t, simShapes)
	o.Shapes.Tasks = 15
	if res := interrupted(t, o, "heavy-tail, seed", 5); res.Complete || len(res.Shapes) != 1 || len(res.Shapes[0].Runs) == 0 {
		t.Errorf("complete: %v with %d shapes; want what was finished of the first", res.Complete, len(res.Shapes))
	}
}

// What the check finds is noted, and there are figures all the same.
func TestFault(t *testing.T) {
	w := &trace.Workload{Jobs: []string{"a"}, Tasks: []trace.Task{{Run: time.Minute, CPUs: 1, Memory: 1 << 20}}}
	c := sim.DefaultConfig()
	c.Policy.Policy, c.Check = policy.Kill, true
	broken := false
	c.Observe = func(_ time.Duration, v *headrace.View, _ []headrace.Order) {
		if !broken && len(v.Tasks) > 0 {
			broken, v.Tasks[0].PagingOut = true, -1
		}
	}
	r := simulated(t.Context(), w, simTask{config: c}, func(float64) {})
	if !strings.Contains(r.Fault, "on the way there") || r.Failure != "" || r.Tasks != 1 || r.Makespan < 60 {
		t.Errorf("%+v", r)
	}
	if r := simulated(t.Context(), w, simTask{config: c}, func(float64) {}); r.Fault != "" || r.Tasks != 1 {
		t.Errorf("%+v, want no fault", r)
	}
}

func TestShapeFigures(t *testing.T) {
	points := modelShapes().shapePoints()
	last := points[slices.IndexFunc(points, func(p shapePoint) bool { return p.shape.Name == "wild" && p.load > 1 })]
	for i, want := range []float64{0.07, 0.1, 0.2, 0.1} {
		if got := shapeFigures[i].of(last); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, want %v", shapeFigures[i].name, got, want)
		}
	}
}

// The picture has the means over loads of each policy, to kill's, and no others than the shapes
// that it is about.
func TestShapeTradeoff(t *testing.T) {
	r := modelShapes()
	to := filepath.Join(t.TempDir(), "out", "made.svg")
	write := func() error {
		from := filepath.Join(t.TempDir(), "r.json")
		if err := trial.WriteResults(from, r); err != nil {
			t.Fatal(err)
		}
		return Measure(t.Context(), Options{Tradeoff: to, Options: trial.Options{From: from, Output: trial.Output{Stdout: io.Discard, Stderr: io.Discard}}})
	}
	if err := write(); err == nil || !strings.Contains(err.Error(), "large-gangs") {
		t.Errorf("without such shapes: %v", err)
	}
	r.Shapes[1].Name = "large-gangs"
	panes := r.tradeoff()
	if len(panes.Panes) != 1 || len(panes.Panes[0].Series) != len(shapePolicies) {
		t.Fatalf("%+v", panes)
	}
	// Cost takes 500 and 600 of kill's 800; urgent jobs are only at the second load.
	last := panes.Panes[0].Series[len(shapePolicies)-1]
	if p := last.Points[0]; last.Name != "cost" || math.Abs(p.X-1.1) > 1e-9 || math.Abs(p.Y-0.6875) > 1e-9 {
		t.Errorf("%+v", last)
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(to); err != nil || !strings.Contains(string(text), "cost, 1.1") || strings.Contains(string(text), "calm") {
		t.Errorf("%v, or the picture has no cost, or too much:\n%s", err, text)
	}
}

// What is asked for is run, and no more: a shape at a load, moved twice, and with other priorities and weights.
func TestChosenShapes(t *testing.T) {
	run := func(change func(*ShapeOptions)) *Results {
		o := simTest(t, simShapes)
		o.Repeats, o.Shapes = 1, ShapeOptions{Names: []string{"gpus"}, Loads: []float64{120}, Tasks: 200}
		change(&o.Shapes)
		if err := Measure(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return simResultsOf(t, o)
	}
	plain := run(func(*ShapeOptions) {})
	if len(plain.Shapes) != 1 || len(plain.Shapes[0].Runs) != len(shapePolicies) || len(plain.shapePoints()) != 1 {
		t.Fatalf("%+v", plain.Shapes)
	}
	moved := run(func(o *ShapeOptions) { o.Moved = 2 })
	points := moved.shapePoints()
	if len(points) != 3 || points[2].String() != "gpus, seed 1, 120 %, moved by draw 2" {
		t.Fatalf("%v", points)
	}
	if !reflect.DeepEqual(moved.Shapes[0].Runs[:len(shapePolicies)], plain.Shapes[0].Runs) {
		t.Error("the first is not as without moves")
	}
	for _, p := range shapePolicies {
		if all := []float64{points[0].runs[p].All, points[1].runs[p].All, points[2].runs[p].All}; all[0] == all[1] || all[1] == all[2] || all[0] == all[2] {
			t.Errorf("%s: moving changes nothing: %v", p, all)
		}
	}
	for what, change := range map[string]func(*ShapeOptions){
		"weights":      func(o *ShapeOptions) { o.Doubling = -1 },
		"victim order": func(o *ShapeOptions) { o.Victims = "smallest-memory" },
		"priorities":   func(o *ShapeOptions) { o.Priorities = []int{1, 8, 9} },
	} {
		for i, r := range run(change).Shapes[0].Runs {
			was := plain.Shapes[0].Runs[i]
			if r.Tasks != was.Tasks || r.All == was.All && r.Policy == policy.Cost || r.All != was.All && r.Policy != policy.Cost && what != "priorities" {
				t.Errorf("%s: %+v, was %+v", what, r, was)
			}
		}
	}
}

func TestShapeOptionsAreChecked(t *testing.T) {
	for want, o := range map[string]ShapeOptions{
		`shape "gpu"`:            {Names: []string{"gpu"}},
		"load of 0 %":            {Loads: []float64{120, 0}},
		"load of NaN %":          {Loads: []float64{math.NaN()}},
		"moved -1 times":         {Moved: -1},
		"2 priorities":           {Priorities: []int{0, 9}},
		"priority 12":            {Priorities: []int{0, 4, 12}},
		`victim order "tallest"`: {Victims: "tallest"},
		"weights that double":    {Doubling: 0.1},
	} {
		if err := Measure(t.Context(), Options{Shapes: o}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestShapeTasksBounds(t *testing.T) {
	for _, n := range []int{-1, leastShapeTasks - 1, mostShapeTasks + 1} {
		if err := Measure(t.Context(), Options{Shapes: ShapeOptions{Tasks: n}}); err == nil || !strings.Contains(err.Error(), "tasks of a shape") {
			t.Errorf("%d: %v", n, err)
		}
	}
}
