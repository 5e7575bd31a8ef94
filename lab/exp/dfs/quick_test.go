package dfs

import (
	"slices"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/labtest"
	"headrace/lab/trial"
	"headrace/lab/yarn"
)

// TestQuick has the clients go through everything once on our file system; HDFS takes most of
// the time, and so is only there for one part, and with all long tests.
func TestQuick(t *testing.T) {
	labtest.NeedModelledDisk(t)
	jars, err := yarn.Find()
	if err != nil {
		t.Skip(err)
	}
	for _, c := range []struct {
		name    string
		parts   []string
		systems []string
	}{{"both", []string{partRead}, Systems}, {"ours", []string{partRead, partNames, partWrite, partLoss}, Systems[1:]}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "both" {
				testkit.Long(t)
			}
			o := Options{Options: labtest.QuickClusterRun(t, "dfs"), Only: c.parts, Systems: c.systems, Jars: jars}
			if err := Measure(t.Context(), o); err != nil {
				t.Error(err)
			}
			labtest.LeftNothing(t, o.Dir)
			res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
			if err := trial.ReadResults(o.JSON, res); err != nil {
				t.Fatal(err)
			}
			labtest.CheckRemarks(t, &res.Circumstances)
			want := 0
			for _, part := range c.parts {
				want += len(res.Plan.entries(part, c.systems))
			}
			if good := slices.DeleteFunc(res.Runs, func(x Run) bool { return !complete(t, x, res.Plan) }); len(good) != want {
				t.Errorf("%d good runs, want %d", len(good), want)
			}
		})
	}
}

// complete fails the test for a run that has not measured what it is there for.
func complete(t *testing.T, x Run, p Plan) bool {
	ok := x.Failure == "" && x.Took > 0
	switch x.Part {
	case partRead:
		ok = ok && x.Bytes == int64(p.Readers)*p.ReadBytes && x.Disk.Read >= x.Bytes && x.Disk.Seeks > 0 && x.Use.Memory > 0
	case partWrite:
		ok = ok && x.Bytes == p.WriteBytes && x.Disk.Written >= copies*x.Bytes && x.Durable >= x.Took
	case partNames:
		ok = ok && len(x.Names) == 7 && x.Names[0].Count == p.Threads*p.Names && x.Names[0].Took > 0
	case partLoss:
		// On a machine with much else to do waits are what they are.
		ok = ok && x.Bytes > 0 && len(x.Errors) == 0 && x.Took >= p.Loss
	}
	if !ok {
		t.Errorf("%+v", x)
	}
	return ok
}
