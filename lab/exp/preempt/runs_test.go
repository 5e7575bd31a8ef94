package preempt

import (
	"math"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
)

// A slow repeat must not count: ratios are formed within each.
func TestRatiosArePaired(t *testing.T) {
	rs := Runs{
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
	if d := rs.Beyond("suspend", "kill", sojourn); d.Min != 1 || d.Median != 2 || d.Max != 10 {
		t.Errorf("differences %v, want 1, 2, 10", d)
	}
}

// modelResults are results of a made-up machine: one that behaves as the model
// below says, with a fixed wobble between the repeats.
func modelResults() *Results {
	m := modelRun{}
	r := &Results{Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Command: "headrace-lab bench preempt", Complete: true, Took: 1234, Seed: 1, Repeats: 3,
		Started: labtest.ModelStart, Machine: rig.Machine{Processor: "Model", Processors: 2, Memory: 8 << 30, Kernel: "6.12.0", System: "Some Linux", Go: "go1.26", Headrace: "v0.1.0", CRIU: "4.2.1", Load: 0.25}}}
	disk := rig.StoreFact{Name: rig.StoreDisk, Write: 900e6, Read: 1200e6}
	slow := rig.StoreFact{Name: rig.StoreName(100e6), Nominal: 100e6, Write: 98e6, Read: 104e6}
	fast := rig.StoreFact{Name: rig.StoreMemory, Write: 3e9, Read: 5e9}
	r.Setups = []Setup{
		{Experiment: ExpLight, Low: m.low(), Urgent: m.urgent(), Stores: []rig.StoreFact{disk}},
		{Experiment: expDirty, Low: m.low(), Urgent: m.urgent(), LowBytes: 1 << 30, UrgentBytes: 1 << 30, Limit: 3 << 29, Enforced: true, Swap: 3 << 30, Stores: []rig.StoreFact{disk}},
		{Experiment: expFootprint, Low: m.low(), Urgent: m.urgent(), LowBytes: 5 << 28, Limit: 2 << 30, Enforced: true, Swap: 3 << 30},
		{Experiment: expStorage, Low: m.low(), Urgent: m.urgent(), LowBytes: 1 << 28, UrgentBytes: 1 << 28, Limit: 3 << 27, Stores: []rig.StoreFact{slow, fast}},
		{Experiment: expSecond, LowBytes: 1 << 29, Stores: []rig.StoreFact{slow, fast}},
	}
	r.Skipped = []trial.Skip{{What: "(c) storage of 30 MB/s", Why: "the kernel has no throttle"}}
	for repeat := range r.Repeats {
		for _, share := range []float64{0.1, 0.5, 0.9} {
			for _, policy := range []string{"wait", "kill", "suspend", "checkpoint", "cost"} {
				r.Runs = append(r.Runs, m.run(ExpLight, policy, repeat, Point{Share: share}, 0, 900e6))
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
		for _, s := range []rig.StoreFact{slow, fast} {
			for _, policy := range []string{"checkpoint", "adaptive", "cost"} {
				r.Runs = append(r.Runs, m.run(expStorage, policy, repeat, Point{Store: s.Name}, 0, s.Write))
			}
			for _, pattern := range []string{"spread", "contiguous"} {
				r.Dumps = append(r.Dumps, Dump{Repeat: repeat, Store: s.Name, Pattern: pattern, Changed: 0.1, Size: 1 << 29,
					FirstBytes: 540e6, SecondBytes: 54e6 + int64(repeat)*1e5, First: 540e6/s.Write + 0.2, Second: 54e6/s.Write + 0.2})
			}
		}
	}
	r.Runs = append(r.Runs, Run{Experiment: ExpLight, Repeat: 3, Policy: "kill", Point: Point{Share: 0.5}, Failure: "failed run: the machine was unplugged"})
	r.Failed("(a) repeat 4, kill at 50 %% done: failed run: the machine was unplugged")
	return r
}
