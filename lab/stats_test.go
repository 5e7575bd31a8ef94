package lab

import (
	"math"
	"testing"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Spread
	}{
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1, 3}, Spread{3, 1, 5}},
		{[]float64{4, 1, 3, 2}, Spread{2.5, 1, 4}},
	} {
		if got := SpreadOf(c.values); got != c.want {
			t.Errorf("%v: %v, want %v", c.values, got, c.want)
		}
	}
	if s := Unmeasured(); !math.IsNaN(s.Median) || !math.IsNaN(s.Min) || !math.IsNaN(s.Max) {
		t.Errorf("of nothing: %v", s)
	}
}

// A slow repeat must not count: ratios are formed within each.
func TestRatiosArePaired(t *testing.T) {
	rs := runs{
		{Policy: "suspend", Repeat: 0, Sojourn: 11}, {Policy: "kill", Repeat: 0, Sojourn: 10},
		{Policy: "suspend", Repeat: 1, Sojourn: 22}, {Policy: "kill", Repeat: 1, Sojourn: 20},
		{Policy: "suspend", Repeat: 2, Sojourn: 110}, {Policy: "kill", Repeat: 2, Sojourn: 100},
		{Policy: "suspend", Repeat: 3, Sojourn: 1}, // kill has failed
	}
	s := rs.against("suspend", "kill", sojourn)
	for _, v := range []float64{s.Median, s.Min, s.Max} {
		if math.Abs(v-1.1) > 1e-9 {
			t.Fatalf("ratios %v, want 1.1 in every repeat", s)
		}
	}
	if d := rs.beyond("suspend", "kill", sojourn); d.Min != 1 || d.Median != 2 || d.Max != 10 {
		t.Errorf("differences %v, want 1, 2, 10", d)
	}
}

func TestAmount(t *testing.T) {
	if got := amount(10, 1, 30, 2, 6); got != 110 {
		t.Errorf("%d, want 110", got)
	}
	if got := amount(10, 1, 30, 2, 0.1); got != 10 {
		t.Errorf("for less than the small amount takes: %d, want 10", got)
	}
	if got := amount(10, 2, 30, 1, 6); got != 30 {
		t.Errorf("from times that make no sense: %d, want 30", got)
	}
}

// modelResults are results of a made-up machine: one that behaves as the model
// below says, with a fixed wobble between the repeats.
func modelResults() *Results {
	m := modelRun{}
	r := &Results{Circumstances: Circumstances{Version: resultsVersion, Experiment: experimentPreempt, Command: "headrace-lab bench preempt", Complete: true, Took: 1234, Seed: 1, Repeats: 3,
		Started: modelStart, Machine: Machine{Processor: "Model", Processors: 2, Memory: 8 << 30, Kernel: "6.12.0", System: "Some Linux", Go: "go1.26", Headrace: "v0.1.0", CRIU: "4.2.1", Load: 0.25}}}
	disk := StoreFact{Name: storeDisk, Write: 900e6, Read: 1200e6}
	slow := StoreFact{Name: storeName(100e6), Nominal: 100e6, Write: 98e6, Read: 104e6}
	fast := StoreFact{Name: storeMemory, Write: 3e9, Read: 5e9}
	r.Setups = []Setup{
		{Experiment: expLight, Low: m.low(), Urgent: m.urgent(), Stores: []StoreFact{disk}},
		{Experiment: expDirty, Low: m.low(), Urgent: m.urgent(), LowBytes: 1 << 30, UrgentBytes: 1 << 30, Limit: 3 << 29, Enforced: true, Swap: 3 << 30, Stores: []StoreFact{disk}},
		{Experiment: expFootprint, Low: m.low(), Urgent: m.urgent(), LowBytes: 5 << 28, Limit: 2 << 30, Enforced: true, Swap: 3 << 30},
		{Experiment: expStorage, Low: m.low(), Urgent: m.urgent(), LowBytes: 1 << 28, UrgentBytes: 1 << 28, Limit: 3 << 27, Stores: []StoreFact{slow, fast}},
		{Experiment: expSecond, LowBytes: 1 << 29, Stores: []StoreFact{slow, fast}},
	}
	r.Skipped = []Skip{{"(c) storage of 30 MB/s", "the kernel has no throttle"}}
	for repeat := range r.Repeats {
		for _, share := range []float64{0.1, 0.5, 0.9} {
			for _, policy := range []string{"wait", "kill", "suspend", "checkpoint", "cost"} {
				r.Runs = append(r.Runs, m.run(expLight, policy, repeat, Point{Share: share}, 0, 900e6))
				r.Runs = append(r.Runs, m.run(expDirty, policy, repeat, Point{Share: share}, 0.1, 900e6))
			}
		}
		for _, bytes := range []int64{1 << 28, 1 << 30} {
			for _, policy := range []string{"wait", "kill", "suspend"} {
				r.Runs = append(r.Runs, m.run(expFootprint, policy, repeat, Point{Share: 0.5, UrgentBytes: bytes}, float64(bytes)/8e9, 900e6))
			}
		}
		for _, policy := range []string{"wait", "kill"} {
			r.Runs = append(r.Runs, m.run(expStorage, policy, repeat, Point{}, 0, 0))
		}
		for _, s := range []StoreFact{slow, fast} {
			for _, policy := range []string{"checkpoint", "adaptive", "cost"} {
				r.Runs = append(r.Runs, m.run(expStorage, policy, repeat, Point{Store: s.Name}, 0, s.Write))
			}
			for _, pattern := range []string{"spread", "contiguous"} {
				r.Dumps = append(r.Dumps, Dump{Repeat: repeat, Store: s.Name, Pattern: pattern, Changed: 0.1, Size: 1 << 29,
					FirstBytes: 540e6, SecondBytes: 54e6 + int64(repeat)*1e5, First: 540e6/s.Write + 0.2, Second: 54e6/s.Write + 0.2})
			}
		}
	}
	r.Runs = append(r.Runs, Run{Experiment: expLight, Repeat: 3, Policy: "kill", Point: Point{Share: 0.5}, Failure: "failed run: the machine was unplugged"})
	r.failed("(a) repeat 4, kill at 50 %% done: failed run: the machine was unplugged")
	return r
}
