package yarn

import (
	"os"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/labtest"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// TestQuickYarn lets a pair of jobs meet on a real YARN, once with stock preemption and
// once suspended.
func TestQuickYarn(t *testing.T) {
	testkit.Long(t)
	labtest.NeedRoot(t)
	jars, err := yarn.Find()
	if err == nil {
		_, err = os.Stat(jars.Plugin)
	}
	if err != nil {
		t.Skip(err)
	}
	run := labtest.QuickClusterRun(t, "yarn")
	o := Options{Options: run, Only: []string{expPair}, Policies: []string{"kill", "suspend"}, Scale: 1, Jars: jars}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Failures {
		t.Error(f)
	}
	for _, name := range []string{caseLight, caseMemory} {
		here := res.good(expPair).in(name)
		if len(here) != 2 {
			t.Errorf("%s: %d runs", name, len(here))
			continue
		}
		if x := here.by("kill")[0]; x.LostCPU <= 0 || x.Counts.Killed == 0 {
			t.Errorf("%s, kill: %g s of work lost, %v", name, x.LostCPU, x.Counts)
		}
		if x := here.by("suspend")[0]; x.LostCPU != 0 || len(x.Stops) != x.Counts.Suspended || x.TotalCPU <= x.TaskCPU {
			t.Errorf("%s, suspend: %+v", name, x)
		}
	}
}
