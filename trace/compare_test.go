package trace

import (
	"math"
	"testing"

	"headrace/trace/synthetic"
	"headrace/trace/workload"
)

// TestGoogleDayIsAsPublished compares the static numbers of days from several seeds.
func TestGoogleDayIsAsPublished(t *testing.T) {
	d := synthetic.GoogleDay()
	for seed := uint64(1); seed <= 3; seed++ {
		w, err := d.Generate(seed, 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range CompareWorkload(w, 1) {
			tolerance := 0.01 * c.Published
			switch c.Unit {
			case "cores":
				tolerance = 0.03 * c.Published
			case "core-hours":
				tolerance = 0.05 * c.Published
			case "%":
				tolerance = 0.1 // percentage points
			}
			if math.Abs(c.Ours-c.Published) > tolerance {
				t.Errorf("seed %d: %s: %v, published %v", seed, c.What, c.Ours, c.Published)
			}
		}
	}
}

func TestCompareOutcome(t *testing.T) {
	o := &workload.Outcome{ByPriority: make([]workload.Preempted, 12), ByClass: make([]workload.Preempted, 4), Times: make([]int, workload.OftenTimes+1)}
	o.ByPriority[0] = workload.Preempted{Tasks: 50, Preempted: 6, Preemptions: 20, Scheduled: 80} // ten were restarted for other reasons
	o.ByPriority[1] = workload.Preempted{Tasks: 20, Preempted: 2, Preemptions: 5, Scheduled: 20}
	o.ByPriority[9] = workload.Preempted{Tasks: 30}
	o.ByClass[3] = workload.Preempted{Tasks: 100, Preempted: 8, Preemptions: 25}
	o.Times[0], o.Times[1], o.Times[2], o.Times[workload.OftenTimes] = 92, 4, 2, 2
	want := map[string]float64{
		"wasted by killing":                               30,
		"share wasted by killing":                         25,
		"schedulings preempted, free":                     25,
		"schedulings preempted, middle":                   0,
		"schedulings preempted, production":               0,
		"schedulings preempted, latency class 0":          0,
		"schedulings preempted, latency class 3":          20,
		"preemptions that are of the free band, at least": 100,
		"preempted tasks preempted more than once":        50,
		"preempted tasks preempted ten times or more":     25,
	}
	for _, c := range CompareOutcome(o, 120, 30, 1) {
		w, ok := want[c.What]
		if ok && math.Abs(c.Ours-w) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.What, c.Ours, w)
		}
		delete(want, c.What)
	}
	if len(want) > 0 {
		t.Errorf("not compared: %v", want)
	}
	for _, c := range CompareOutcome(&workload.Outcome{}, 0, 0, 1) {
		if c.Ours != 0 {
			t.Errorf("of nothing: %s is %v", c.What, c.Ours)
		}
	}
}
