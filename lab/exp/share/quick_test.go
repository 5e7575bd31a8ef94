package share

import (
	"os"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/labtest"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// TestQuickShare runs a pair of jobs of Spark on a real HDFS and YARN, which go by what is in
// memory, or by HDFS's own cache, and compares their answers. The stock order takes as long again, and tries nothing of ours.
func TestQuickShare(t *testing.T) {
	testkit.Long(t)
	labtest.NeedModelledDisk(t)
	jars, err := yarn.Find()
	if err == nil {
		_, err = os.Stat(jars.Module("spark"))
	}
	if err == nil {
		err = jars.FindSpark()
	}
	if err != nil {
		t.Skip(err)
	}
	run := labtest.QuickClusterRun(t, "share")
	o := Options{Options: run, Only: []string{partRow}, Modes: []string{modeCached, modeOrdered}, Jars: jars}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	labtest.CheckRemarks(t, &res.Circumstances)
	for _, mode := range o.Modes {
		runs := res.at(place{partRow, factors[0], 0}, mode)
		if len(runs) != 1 {
			t.Errorf("%s: %d runs", mode, len(runs))
			continue
		}
		x := runs[0]
		t.Logf("%s: %+v", mode, x)
		// Nothing of it was in memory before, and some is when the first job has ended.
		if x.FirstRead < x.Bytes || x.Resident <= 0 || x.First.Duration <= 0 || x.Second.Duration <= 0 {
			t.Errorf("%s: %+v", mode, x)
		}
		if mode == modeOrdered && (x.Use.Traffic <= 0 || x.Second.Metrics["locality.stages"] == 0 || x.Second.Metrics["locality.followed"] == 0 || doubts(x) > 0) {
			t.Errorf("%s: the plug-in has not worked: %+v", mode, x)
		}
	}
}
