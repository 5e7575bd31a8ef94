package hdfs

import (
	"os"
	"testing"
	"time"

	"headrace/internal/testkit"
	"headrace/lab/labtest"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// TestQuickHDFS runs a few jobs on a real HDFS, cold, warmed and in memory, and compares
// their answers.
func TestQuickHDFS(t *testing.T) {
	testkit.Long(t)
	labtest.NeedModelledDisk(t)
	jars, err := yarn.Find()
	if err == nil {
		_, err = os.Stat(jars.Module("mapreduce"))
	}
	if err != nil {
		t.Skip(err)
	}
	run := labtest.QuickClusterRun(t, "hdfs")
	o := Options{Options: run, Only: []string{partSwim}, Modes: []string{modeStock, modeWarmed, modeRAM}, Jobs: 3, Span: 2 * time.Second, Jars: jars}
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
	for _, mode := range o.Modes {
		runs := res.of(partSwim, mode)
		if len(runs) != 1 {
			t.Errorf("%s: %d runs", mode, len(runs))
			continue
		}
		x := runs[0]
		var input int64
		for _, j := range x.Jobs {
			if input += j.Input; j.Duration <= 0 || len(j.Reads) == 0 {
				t.Errorf("%s: %+v", mode, j)
			}
		}
		// What jobs have written, and what they are made of, stays in memory.
		if cold := mode != modeRAM; (x.Disk.Read >= input) != cold {
			t.Errorf("%s: %d bytes were read from the disks, inputs have %d", mode, x.Disk.Read, input)
		}
		if mode == modeWarmed && !(x.kept().Max > 0) {
			t.Error("nothing was kept in memory for the jobs")
		}
	}
}
