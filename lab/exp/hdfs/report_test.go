package hdfs

import (
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/sample"
	"headrace/lab/trial"
)

// modelHDFS is results as a simple model has them: stock reads everything for a while, Headrace
// a quarter of it, RAM nothing.
func modelHDFS() *Results {
	r := &Results{Circumstances: labtest.ModelCircumstances(experimentName),
		Plan: Plan{Servers: servers, Block: block, Shrink: shrink, Trace: "model", Jobs: 3, Span: 4, Input: 12 << 20, Delay: 10, Scale: 0.05}}
	reading := map[string]float64{modeStock: 1, modeWarmed: 0.25, modeDelayed: 0.3, modeRAM: 0}
	for repeat := range 3 {
		wobble := 1 + 0.01*float64(repeat)
		add := func(part, name, mode string, input int64, jobs ...Job) {
			x := Run{Part: part, Name: name, Mode: mode, Input: input, Repeat: repeat, Jobs: jobs,
				Disk: DiskCount{Read: int64(float64(input) * reading[mode]), Written: 1e6, Seeks: 90, Busy: 2 * reading[mode]}}
			if mode == modeWarmed && part == partSwim {
				x.Memory = []Memory{{1, []int64{1 << 20, 0, 0}}, {2, []int64{0, 0, 0}}, {3, []int64{1 << 20, 3 << 20, 1 << 20}}}
			}
			r.Runs = append(r.Runs, x)
		}
		for _, mode := range Modes {
			job := func(i int, class string, blocks int) Job {
				j := Job{Name: fmt.Sprint("job", i), Class: class, Input: int64(blocks) * block, On: []int64{int64(blocks) * block, 0, 0}, Submitted: float64(i), Duration: (5 + float64(blocks)*reading[mode]) * wobble, Uber: blocks == 1}
				for b := range blocks {
					read := 0.01
					if float64(b) < float64(blocks)*reading[mode] {
						read = 0.8
					}
					j.Reads = append(j.Reads, read)
				}
				return j
			}
			if mode != modeDelayed {
				add(partSwim, partSwim, mode, 12<<20, job(0, classSmall, 1), job(1, classSmall, 1), job(2, classLarge, 10))
				add(partSort, "sort", mode, 100<<20, Job{Name: "sort", Input: 100 << 20, Duration: (20 + 10*reading[mode]) * wobble})
			}
			for _, mb := range []int64{6, 72} {
				name := fmt.Sprint("wordcount", mb)
				add(partWordcount, name, mode, mb<<20, Job{Name: name, Input: mb << 20, Duration: (6 + float64(mb)/10*reading[mode]) * wobble})
			}
			if mode == modeStock || mode == modeWarmed || mode == modeRAM {
				add(partQueries, "q6", mode, 38<<20, Job{Name: "q6", Input: 38 << 20, Duration: (6 + 4*reading[mode]) * wobble})
				add(partQueries, "q13", mode, 10<<20, Job{Name: "q13", Input: 10 << 20, Duration: (6 + 2*reading[mode]) * wobble})
			}
		}
	}
	r.Runs = append(r.Runs, Run{Part: partSort, Name: "sort", Mode: modeWarmed, Repeat: 3, Failure: "the model has a hole\nand more"})
	r.Failed("sort: repeat 4, warmed: the model has a hole")
	return r
}

func TestReport(t *testing.T) { labtest.CheckReport(t, modelHDFS(), "hdfs") }

func TestResultsSurviveTheFile(t *testing.T) {
	path, want := filepath.Join(t.TempDir(), "hdfs.json.gz"), modelHDFS()
	if err := trial.WriteResults(path, want); err != nil {
		t.Fatal(err)
	}
	got := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(path, got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("what was read is not what was written: %v", err)
	}
}

// The figures of the model, computed by hand.
func TestFigures(t *testing.T) {
	r := modelHDFS()
	near := func(what string, got sample.Spread, want float64) {
		t.Helper()
		if math.Abs(got.Median-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("the gain", r.reached(partSwim, modeWarmed, "", meanDuration("")), 0.75)
	near("with large jobs", r.less(partSwim, modeWarmed, "", meanDuration(classLarge)), 1-7.5/15)
	// Of 12 blocks 12 are read from the disk stock, 5 when warmed: each job's first, and two more of the large one.
	near("reading", r.less(partSwim, modeWarmed, "", meanRead), 1-(5*0.8+7*0.01)/(12*0.8))
	near("from memory", sample.Of(r.of(partSwim, modeWarmed), fromMemory), 7.0/12)
	near("of the others", sample.Of(r.of(partSwim, modeWarmed), meanColdRead), 0.8)
	near("queries", r.lessOnAverage(partQueries, modeWarmed), ((1-7.0/10)+(1-6.5/8))/2)
	if v, job := r.slowest(partSwim, modeWarmed); job != "job0" && job != "job1" || math.Abs(v.Median-5.25/6) > 1e-9 {
		t.Errorf("the slowest is %s, %v", job, v)
	}
	if got := r.of(partSwim, modeWarmed)[0].kept(); got != (held{6.0 / 4 * (1 << 20), 3 << 20}) {
		t.Errorf("kept: %+v", got)
	}
	// 1, 2, 12 and, from 5 on, 10 blocks and less: the first two end at 5 and 6, the last at 7.
	want := (1*1 + 2*1 + 12*3 + 11*1 + 10*1) / 7.0 * block
	if got := r.of(partSwim, modeRAM)[0].instantaneous(); math.Abs(got.Mean-want) > 1 || got.Max != 12*block {
		t.Errorf("instantaneous: %+v, want %v", got, want)
	}
	for _, a := range r.aims() {
		if !a.Measured() {
			t.Errorf("%s is not measured", a.What)
		}
	}
}
