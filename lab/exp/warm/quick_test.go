package warm

import (
	"math"
	"testing"
	"time"

	"headrace/lab/labtest"
	"headrace/lab/trial"
)

func TestQuickWarm(t *testing.T) {
	labtest.NeedModelledDisk(t)
	o := Options{Options: labtest.QuickRun(t, "warm"), Jobs: 12, Span: time.Second}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	labtest.CheckRemarks(t, &res.Circumstances)
	for _, mode := range []string{modeCold, modeWarmed, modeFIFO, modeRAM} {
		in := res.in(mode)
		if len(in) != 1 || len(in[0].Jobs) != 12 {
			t.Errorf("%s: %d replays of 12 jobs, want one", mode, len(in))
			continue
		}
		x := in[0]
		if memory := mode == modeRAM; (x.Disk.Read == 0) != memory {
			t.Errorf("%s: %d bytes were read from the disk", mode, x.Disk.Read)
		}
		if mode == modeWarmed && x.kept().Max == 0 {
			t.Error("nothing was kept in memory for the jobs")
		}
		for _, j := range x.Jobs {
			if j.Duration < res.Plan.Lead || j.Input > 0 && len(j.Reads) == 0 {
				t.Errorf("%s: %+v", mode, j)
			}
		}
	}
	for _, mode := range []string{modeCold, modeWarmed, modeDelayed, modeRAM} {
		for _, input := range res.inputsOf(kindWordcount) {
			if d, _ := res.singleSpread(kindWordcount, mode, input); math.IsNaN(d.Median) || mode == modeDelayed && d.Min < 2*res.Plan.Lead {
				t.Errorf("a word count of %d bytes, %s: %v", input, mode, d)
			}
		}
	}
}
