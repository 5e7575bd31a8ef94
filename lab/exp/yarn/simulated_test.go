package yarn

import (
	"math"
	"strings"
	"testing"

	"headrace/lab/rig"
)

// TestOverhead takes jobs that found room, and only those.
func TestOverhead(t *testing.T) {
	p := &WorkloadPlan{Slots: 2, Low: 6, High: 1, Jobs: []PlannedJob{{High: true, Tasks: 1}, {Tasks: 1}, {High: true, Tasks: 2}, {High: true, Tasks: 1}}}
	// Two urgent tasks of 1.4 s, two more that waited, and one of 0.3 s and 1.1 times 6 s;
	// 3 s of it were lost or idle.
	r := runs{{HeldTime: 4*1.4 + 0.3 + 6.6 + 3, LostTime: 2, IdleTime: 1, Jobs: []Job{
		{High: true, Tasks: 1, Submitted: 0, Started: 0.4, Response: 1.8},
		{High: false, Tasks: 1, Submitted: 10, Started: 10.4, Response: 20}, // it may have been put aside
		{High: true, Tasks: 2, Submitted: 11, Started: 13, Response: 4},     // the other has a slot
		{High: true, Tasks: 1, Submitted: 20, Started: 20.4, Response: 1.8},
	}}}
	o := r.overhead(p)
	for _, x := range [][2]float64{{o.admission, 0.4 - 0.15}, {o.launch, 0.3 - 0.1}, {o.tell, 0.15}, {o.stretch, 1.1}} {
		if math.Abs(x[0]-x[1]) > 1e-9 {
			t.Errorf("%+v", o)
			break
		}
	}
	if o := r[:0].overhead(p); o != (overhead{stretch: 1}) {
		t.Errorf("of nothing: %+v", o)
	}
}

// TestSimulate: the workload of bench yarn on a YARN that does not exist does, under each
// policy, what that is for, and what is wasted is what it costs.
func TestSimulate(t *testing.T) {
	o := Options{Scale: 1}
	o.Seed = 1
	plan, err := o.workloadPlan()
	if err != nil {
		t.Fatal(err)
	}
	r := &Results{Workload: plan}
	r.Machine.Memory = 16 << 30
	fixed := overhead{0.25, 0.2, 0.15, 1.1}
	all := map[string]simulated{}
	for _, name := range []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"} {
		s := r.simulate(Run{Policy: name, Store: rig.StoreDisk}, fixed)
		if s.err != nil {
			t.Fatalf("%s: %v", name, s.err)
		}
		if s.makespan < plan.Span || s.high < plan.High+0.6 || s.low < plan.Low+0.6 {
			t.Errorf("%s: %+v cannot be", name, s)
		}
		all[name] = s
	}
	if c := all["wait"].counts; c != (Counts{}) {
		t.Errorf("wait did %v", c)
	}
	if c := all["kill"].counts; c.Killed == 0 || c.Suspended+c.Checkpointed > 0 {
		t.Errorf("kill did %v", c)
	}
	if c := all["suspend"].counts; c.Suspended == 0 || c.Killed+c.Checkpointed > 0 || all["suspend"].waste > 1 {
		t.Errorf("suspend did %v and wasted %v s", c, all["suspend"].waste)
	}
	if c := all["checkpoint"].counts; c.Checkpointed == 0 || c.Killed+c.Suspended > 0 || all["checkpoint"].waste <= all["suspend"].waste {
		t.Errorf("checkpoint did %v and wasted %v s", c, all["checkpoint"].waste)
	}
	if k, s := all["kill"], all["suspend"]; k.waste < 5 || k.low <= s.low || s.high >= all["wait"].high {
		t.Errorf("kill %+v, suspend %+v, wait %+v", k, s, all["wait"])
	}
}

// TestLikenessTable: every policy of the workload is there beside what was measured, and
// one that cannot be simulated says why.
func TestLikenessTable(t *testing.T) {
	r := modelYarn()
	var b strings.Builder
	if err := r.likenessTable().WriteMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range append(r.good(expWorkload).names(), "high: response: live", "time wasted, simulated, off the live one", "Aim: ") {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	r.Machine.Memory = 1
	b.Reset()
	if err := r.likenessTable().WriteMarkdown(&b); err != nil || !strings.Contains(b.String(), "tasks fit on no node") {
		t.Errorf("%v:\n%s", err, &b)
	}
}
