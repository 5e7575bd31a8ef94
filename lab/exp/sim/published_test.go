package sim

import (
	"testing"

	"headrace/paper"
)

// With ignem's workload there is as much to gain as its authors found, more lead and more
// room for warming make reading shorter, and no more is kept than there is room for.
func TestIgnemsWorkload(t *testing.T) {
	o := simTest(t, simIgnem)
	o.Quick = false
	if err := Measure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	res, lead := simResultsOf(t, o), paper.OfIgnem().Ahead
	at := func(p Point) *Run {
		x := res.at(expIgnem, p)
		if x == nil {
			t.Fatalf("nothing for %v", p)
		}
		return x
	}
	cold, warm := at(Point{}), at(Point{Buffer: ignemBuffer, Lead: lead})
	if less := 1 - (warm.meanResponse()+lead)/(cold.meanResponse()+lead); less < 0.08 || less > 0.18 {
		t.Errorf("jobs take %.1f s, warmed %.1f: %.1f %% less", cold.meanResponse()+lead, warm.meanResponse()+lead, 100*less)
	}
	if is, was := warm.Reading, cold.Reading; float64(is.FromMemory) < 0.5*float64(is.Bytes) || float64(is.FromMemory) > 0.9*float64(is.Bytes) || is.Time > 0.6*was.Time {
		t.Errorf("warmed: %+v; cold: %+v", *is, *was)
	}
	if less := 1 - (at(Point{InMemory: true}).meanResponse()+lead)/(cold.meanResponse()+lead); less < 0.12 || less > 0.25 {
		t.Errorf("all in memory: %.1f %% less", 100*less)
	}
	lead = 0
	before := cold
	for _, l := range []float64{0, 2, 5, 10, 20} {
		x := at(Point{Buffer: ignemBuffer, Lead: l})
		if x.Reading.Time >= before.Reading.Time {
			t.Errorf("with %g s a task reads for %.2f s, with less %.2f", l, x.Reading.Time, before.Reading.Time)
		}
		before = x
	}
	before = cold
	for _, b := range []int64{1 << 28, 1 << 29, 1 << 30, 1 << 31} {
		x := at(Point{Buffer: b, Lead: paper.OfIgnem().Ahead})
		if x.Reading.Time >= before.Reading.Time || x.Reading.PinnedMost > b {
			t.Errorf("with %d bytes a task reads for %.2f s, with less %.2f; %+v", b, x.Reading.Time, before.Reading.Time, *x.Reading)
		}
		before = x
	}
}

// Where the file does not fit into memory, the second job finds nothing of it in order of
// submission, and most of what can be there when what is in memory goes first. Where it
// fits, a task finds its block in memory if it comes to the one of three nodes that has
// read it.
func TestSecondOfTwoJobs(t *testing.T) {
	o := simTest(t, simQuartet)
	o.Quick = false
	if err := Measure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	res := simResultsOf(t, o)
	for _, tt := range []struct {
		blocks   int // 600 fit into memory
		by       bool
		min, max float64
	}{
		{400, false, 0.3, 0.5},
		{800, false, 0, 0.04},
		{1600, false, 0, 0.04},
		{400, true, 0.95, 1},
		{800, true, 0.7, 0.751},
		{1600, true, 0.34, 0.376},
	} {
		x := res.at(expQuartet, Point{Factor: float64(tt.blocks) / 600, ByResidency: tt.by})
		if x == nil {
			t.Fatalf("nothing for %+v", tt)
		}
		if got := secondHits(x); got < tt.min || got > tt.max {
			t.Errorf("%d blocks, what is in memory first: %v: %.3f hits, want %v to %v", tt.blocks, tt.by, got, tt.min, tt.max)
		}
	}
	for _, a := range res.quartetAims() {
		if verdict, _ := a.Verdict(); verdict != "met" {
			t.Errorf("%s, %s: %v", a.What, a.Where, a.Value)
		}
	}
}
