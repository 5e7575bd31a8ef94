package yarn

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/lab/yarn"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

// modelYarn is results as a simple model has them: kill loses 28 % of the work,
// suspend nothing, a checkpoint a little.
func modelYarn() *Results {
	r := &Results{
		Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Command: "headrace-lab bench yarn", Started: labtest.ModelStart,
			Took: 300, Complete: true, Machine: rig.Machine{Processor: "Model", Processors: 2, Memory: 8e9, Kernel: "6.18", System: "Linux", Go: "go1.26", Headrace: "model"},
			Seed: 1, Repeats: 3},
		Pair: &PairPlan{Share: 0.5, Cases: []PairCase{{Name: caseLight, Tasks: 1, Bytes: 4 << 20, Low: 8, Urgent: 2}, {Name: caseMemory, Tasks: 2, Bytes: 1 << 30, Low: 8, Urgent: 2}}},
		Workload: &WorkloadPlan{Trace: "model", From: 500, Block: 1e6, Slots: 2, Bytes: 300 << 20, Low: 6, High: 1, Span: 75,
			Jobs: []PlannedJob{{"a", false, 2, 0}, {"b", true, 1, 10}, {"c", true, 1, 75}}},
		Stores: []rig.StoreFact{{Name: storeHDD, Nominal: hddSpeed, Write: 98e6, Read: 99e6}, {Name: rig.StoreDisk, Write: 1e9, Read: 1.5e9}},
	}
	costs := map[string]struct{ lost, overhead, low, high float64 }{
		"wait": {0, 0, 10, 5}, "kill": {28, 0, 40, 2.5}, "suspend": {0, 0, 15, 2}, "cost": {0, 0.1, 15, 2.1}, "checkpoint": {0, 4, 30, 4}, "adaptive": {1, 2, 25, 3},
	}
	counts := map[string]Counts{"kill": {Killed: 9}, "suspend": {Suspended: 9}, "cost": {Suspended: 9}, "checkpoint": {Checkpointed: 9}, "adaptive": {Killed: 1, Checkpointed: 8}}
	add := func(x Run, scale float64) {
		c := costs[x.Policy]
		x.TaskCPU, x.LostCPU, x.OverheadCPU = (72+c.lost)*scale, c.lost*scale, c.overhead*scale
		x.TotalCPU, x.Makespan, x.Counts = x.TaskCPU+x.OverheadCPU+5, (50+c.low)*scale, counts[x.Policy]
		x.HeldTime, x.LostTime, x.IdleTime = x.TaskCPU, x.LostCPU, 2*x.OverheadCPU
		x.Energy = energyOf(x.TotalCPU, x.Makespan, 2)
		x.Dumped, x.Restored = int64(x.OverheadCPU*1e9), int64(x.OverheadCPU*1e9)
		for i, high := range []bool{false, false, true} {
			response := c.low
			if high {
				response = c.high
			}
			x.Jobs = append(x.Jobs, Job{Name: fmt.Sprint("job", i), High: high, Tasks: 1, Submitted: float64(i), Started: float64(i) + 0.5, Response: response*scale + float64(i)/10})
		}
		r.Runs = append(r.Runs, x)
	}
	for repeat := range 3 {
		for _, kind := range []string{caseLight, caseMemory} {
			for order, policy := range []string{"wait", "kill", "suspend", "checkpoint", "cost"} {
				x := Run{Experiment: expPair, Case: kind, Repeat: repeat, Order: order, Policy: policy, Store: pairStore(policy), Arrived: 4}
				if policy == "suspend" {
					x.Stops = []float64{0.04, 0.05 + 0.01*float64(repeat)}
				}
				x.Lanes = []report.Lane{{Name: "urgent", Strong: true, Segments: []report.Segment{{Kind: report.Running, Start: 4, End: 6}}},
					{Name: "low", Segments: []report.Segment{{Kind: report.Running, Start: 0, End: 4}, {Kind: report.Suspended, Start: 4, End: 6}, {Kind: report.Running, Start: 6, End: 10}}}}
				add(x, 0.1+0.001*float64(repeat))
			}
		}
	}
	for _, policy := range []string{"kill", "suspend", "checkpoint", "adaptive", "cost"} {
		for _, store := range (&bench{o: &Options{}}).storesOf(policy) {
			add(Run{Experiment: expWorkload, Policy: policy, Store: store}, 1)
		}
	}
	r.Runs = append(r.Runs, Run{Experiment: expWorkload, Policy: "suspend", LostCPU: 99, Failure: "the model has a hole\nand more"})
	r.Failed("(w) repeat 1, suspend: the model has a hole\nand more")
	return r
}

func TestYarnReport(t *testing.T) { labtest.CheckReport(t, modelYarn(), "yarn") }

func TestYarnResultsSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "yarn.json")
	want := modelYarn()
	if err := trial.WriteResults(path, want); err != nil {
		t.Fatal(err)
	}
	got := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(path, got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("what was read is not what was written: %v", err)
	}
	o := Options{Options: trial.Options{From: path, HTML: path + ".html", Output: trial.Output{Stdout: io.Discard}}}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path + ".html"); err != nil {
		t.Error(err)
	}
}

// Aims count runs that have not failed, and the worst of them.
func TestYarnAims(t *testing.T) {
	verdicts := func(r *Results) map[string]string {
		out := map[string]string{}
		for _, a := range r.aims() {
			out[a.What], _ = a.Verdict()
		}
		return out
	}
	const lostWhat, stopWhat = "suspend: work lost to preemption, the most of all runs", "from the choice of a container to its stopped processes, the longest"
	r := modelYarn()
	got := verdicts(r)
	for what, want := range map[string]string{
		lostWhat: "met", stopWhat: "met",
		"suspend: waste, less than kill": "met", "checkpoint tmpfs: waste, less than kill": "missed",
		"suspend: mean response of low jobs, less than kill": "met", "checkpoint tmpfs: mean response of low jobs, less than kill": "missed",
		"cost disk: mean response of high jobs, more than kill": "met", "checkpoint tmpfs: mean response of high jobs, more than kill": "missed",
	} {
		if got[what] != want {
			t.Errorf("%s: %q, want %q", what, got[what], want)
		}
	}
	for i := range r.Runs {
		if x := &r.Runs[i]; x.Policy == "suspend" && x.Case == caseMemory && x.Repeat == 1 {
			x.LostCPU, x.Stops = 0.1, []float64{0.01, 0.4}
		}
	}
	if got := verdicts(r); got[lostWhat] != "missed" || got[stopWhat] != "missed" {
		t.Errorf("with work lost and a late stop in one of the runs: %v", got)
	}
	if got := verdicts(&Results{}); got[lostWhat] != "not measured" {
		t.Errorf("without runs: %v", got)
	}
}

// The workload is made from the trace: 40 jobs in its order, with its gaps, and not
// more tasks than there are to be.
func TestWorkloadPlan(t *testing.T) {
	o := Options{Scale: 1, Options: trial.Options{Seed: 3}}
	p, err := o.workloadPlan()
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.workloadPlan()
	if err != nil || !reflect.DeepEqual(p, again) {
		t.Errorf("made twice it is not the same: %v", err)
	}
	if len(p.Jobs) != 40 || p.highs() != 30 || p.tasks() > 46 || p.tasks() < 41 || p.most() != 3 {
		t.Errorf("%d jobs, %d of high priority, with %d tasks, %d at most", len(p.Jobs), p.highs(), p.tasks(), p.most())
	}
	if first, last := p.Jobs[0].At, p.Jobs[39].At; first != 0 || last != p.Span {
		t.Errorf("submitted from %g to %g, want from 0 to %g", first, last, p.Span)
	}
	for i := 1; i < len(p.Jobs); i++ {
		if p.Jobs[i].At < p.Jobs[i-1].At {
			t.Errorf("job %d is submitted before the one before it", i)
		}
	}
	if load := p.load(); load < 0.4 || load > 0.9 {
		t.Errorf("the work alone fills %.2f of the slots", load)
	}
	o.Seed = 4
	if other, err := o.workloadPlan(); err != nil || reflect.DeepEqual(p.Jobs, other.Jobs) {
		t.Errorf("another seed gives the same priorities: %v", err)
	}
}

// Runs of one cluster follow each other, and the order differs between repeats.
func TestShuffled(t *testing.T) {
	var entries []entry
	for i := range 12 {
		entries = append(entries, entry{setup: yarnSetup{mode: yarn.Mode(i % 3), nodes: 1}, policy: fmt.Sprint(i)})
	}
	order := func(repeat uint64) (out []entry) {
		for _, i := range shuffled(entries, rand.New(rand.NewPCG(1, repeat))) {
			out = append(out, entries[i])
		}
		return out
	}
	different := false
	for repeat := range uint64(5) {
		got := order(repeat)
		changes, seen := 0, map[string]bool{}
		for i, e := range got {
			if i > 0 && e.setup != got[i-1].setup {
				changes++
			}
			seen[e.policy] = true
			different = different || e.policy != order(0)[i].policy
		}
		if changes != 2 || len(seen) != len(entries) {
			t.Errorf("repeat %d: %d changes of the cluster, %d of %d entries", repeat, changes, len(seen), len(entries))
		}
	}
	if !different {
		t.Error("all repeats have the same order")
	}
}

func TestAttemptAddsUp(t *testing.T) {
	at := time.UnixMilli(100_000)
	history := []*wire.Event{{AtMs: 100_100, State: "running"}, {AtMs: 104_000, State: "suspending"}, {AtMs: 104_050, State: "suspended"},
		{AtMs: 106_000, State: "resuming"}, {AtMs: 106_010, State: "running"}, {AtMs: 108_000, State: "checkpointing"},
		{AtMs: 109_000, State: "checkpointed", Bytes: 5}, {AtMs: 111_000, State: "restoring"}, {AtMs: 111_500, State: "running", Bytes: 7}, {AtMs: 113_000, State: "done"}}
	a := &attempt{started: at, ended: at.Add(13 * time.Second), cpu: 6, overheadCPU: 0.3,
		history: convert.History(&wire.Task{History: history})}
	var r Run
	r.add(a)
	r.add(&attempt{started: at, ended: at.Add(2 * time.Second), cpu: 1.5, exit: yarn.Preempted})
	r.add(&attempt{started: at, ended: at.Add(time.Second), exit: yarn.Preempted})
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	near("all", r.TaskCPU, 7.5)
	near("lost", r.LostCPU, 1.5)
	near("wasted", r.wasted(), 1.8)
	near("held", r.HeldTime, 13-1.95-2+2+1)
	near("idle", r.IdleTime, 0.05+0.01+1+0.5)
	near("lost time", r.LostTime, 2+1)
	if want := (Counts{Killed: 1, Suspended: 1, Checkpointed: 1, Unstarted: 1}); r.Counts != want || r.Dumped != 5 || r.Restored != 7 {
		t.Errorf("%v, %d and %d bytes", r.Counts, r.Dumped, r.Restored)
	}
	if when, ok := a.firstSuspended(); !ok || when.UnixMilli() != 104_050 {
		t.Errorf("suspended at %v", when)
	}
}

// A run in which containers did not give way as its policy says has failed.
func TestYarnVerify(t *testing.T) {
	for _, c := range []struct {
		policy string
		counts Counts
		good   bool
	}{
		{"wait", Counts{}, true}, {"wait", Counts{Killed: 1}, false},
		{"kill", Counts{Killed: 1}, true}, {"kill", Counts{}, false},
		{"suspend", Counts{Suspended: 2, Unstarted: 1}, true}, {"suspend", Counts{Unstarted: 1}, false}, {"suspend", Counts{}, false}, {"suspend", Counts{Suspended: 2, Killed: 1}, false},
		{"checkpoint", Counts{Checkpointed: 1}, true}, {"checkpoint", Counts{Checkpointed: 1, Suspended: 1}, false},
		{"cost", Counts{Suspended: 1, Killed: 1}, true},
	} {
		// Without Headrace nobody is asked who has decided on a kill.
		w := &yarnWatch{b: &bench{setup: yarnSetup{mode: yarn.Kill}}}
		if err := w.verify(Run{Counts: c.counts}, c.policy); (err == nil) != c.good || err != nil && !errors.Is(err, rig.ErrWrong) {
			t.Errorf("%s: %v: %v", c.policy, c.counts, err)
		}
	}
}

func TestEnergyOfUtilisation(t *testing.T) {
	e := energyOf(10, 10, 2)
	if e.Utilisation != 0.5 || e.Joules != (100+75)*10 || e.Idle != 1000 {
		t.Errorf("half of two processors for 10 s: %+v", e)
	}
}

func TestTaskCommand(t *testing.T) {
	task := yarnTask{Job: rig.Job{Args: []string{"kmeans", "--bytes", "5"}}, accounts: "/a b", mark: "/m", share: 0.5}
	got := task.command("/it's/headrace")
	want := `GOGC=100 GOMAXPROCS=1 exec '/it'\''s/headrace' bench-task kmeans --account '/a b'/$HEADRACE_TASK.$CONTAINER_ID --mark 0.5:/m --bytes 5`
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if strings.Contains(yarnTask{Job: rig.Job{Args: []string{"kmeans"}}}.command("h"), "--mark") {
		t.Error("a mark that nobody asked for")
	}
}
