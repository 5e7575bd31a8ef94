package hdfs

import (
	"math"
	"strconv"
	"testing"
	"time"

	"headrace/lab/slowdisk"
	"headrace/paper"
)

// TestSwimPlan compares with what the paper says of its workload.
func TestSwimPlan(t *testing.T) {
	of := paper.OfIgnem()
	plan, jobs, err := planSwim(of.Jobs, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	number, read := map[string]int{}, map[string]bool{}
	var input, largest int64
	last := time.Duration(0)
	for _, j := range jobs {
		number[j.class]++
		input += j.input
		largest = max(largest, j.input)
		if j.submit < last {
			t.Errorf("%s is submitted before the job before it", j.name)
		}
		last = j.submit
		if len(j.inputs) == 0 || int64(len(j.inputs))*block != j.input {
			t.Errorf("%s reads %d files and %d bytes", j.name, len(j.inputs), j.input)
		}
		for _, file := range j.inputs {
			if read[file] {
				t.Errorf("%s is read by two jobs", file)
			}
			read[file] = true
		}
		checkTasks(t, j)
		for _, ratio := range []string{"headrace.ratio.shuffle", "headrace.ratio.output"} {
			if v, err := strconv.ParseFloat(j.properties[ratio], 64); err != nil || v < 0 || v > 1 {
				t.Errorf("%s: %s is %q", j.name, ratio, j.properties[ratio])
			}
		}
	}
	if len(jobs) != of.Jobs || jobs[0].submit != 0 || last != time.Minute || plan.Input != input {
		t.Errorf("%d jobs from %v to %v, %d bytes planned and %d in all", len(jobs), jobs[0].submit, last, plan.Input, input)
	}
	// "85 % of jobs in our workload read 64MB or less and the largest jobs read up to 24GB".
	if share := float64(number[classSmall]) / float64(len(jobs)); math.Abs(share-0.85) > 0.03 {
		t.Errorf("%.0f %% of the jobs are small: %v", share*100, number)
	}
	whole := float64(of.Nodes) / servers * shrink
	if got := float64(largest) * whole; got < 22e9 || got > 28e9 {
		t.Errorf("the largest job reads %.1f GB", got/1e9)
	}
	// A job reads less than a block more here than it would there.
	if got := float64(input) * whole; got < of.Input || got > of.Input+float64(of.Jobs)*block*whole {
		t.Errorf("all jobs read %.0f GB", got/1e9)
	}
}

// checkTasks fails when the map tasks of a job do not come to its whole input, or when one of
// several tasks runs in its application master.
func checkTasks(t *testing.T, j plannedJob) {
	t.Helper()
	perMap, err := strconv.ParseInt(j.properties["mapreduce.input.fileinputformat.split.maxsize"], 10, 64)
	if err != nil || perMap*int64(j.maps) < j.input || j.maps > mostMaps || j.maps < 1 {
		t.Errorf("%s: %d tasks of %d bytes for %d, %v", j.name, j.maps, perMap, j.input, err)
	}
	if small := j.input <= uberBlocks*block; small != (j.maps == 1) {
		t.Errorf("%s: %d tasks for %d bytes", j.name, j.maps, j.input)
	}
}

func TestSizes(t *testing.T) {
	var last int64
	for _, j := range append(planWordcounts(false), planSort(false)) {
		checkTasks(t, j)
		if j.kind == kindWordcount && j.input <= last {
			t.Errorf("%s reads %d bytes after %d", j.name, j.input, last)
		}
		last = j.input
	}
	// What three of eight servers have of 12 GB.
	if got, want := float64(onServers(12)*block)*shrink, 12e9*3/8; math.Abs(got/want-1) > 0.02 {
		t.Errorf("the largest word count reads %.2f GB, want %.2f", got/1e9, want/1e9)
	}
}

// TestDisk compares with the disk that it is a model of: everything takes as long for
// 1/shrink of the data, so as many readers lose as much.
func TestDisk(t *testing.T) {
	hardDisk, here := slowdisk.HardDisk(), diskHere
	for _, seek := range []bool{false, true} {
		there := hardDisk.Service(paperBlock, seek)
		if got := here.Service(block, seek); math.Abs(float64(got)/float64(there)-1) > 0.001 {
			t.Errorf("a block takes %v here and %v there", got, there)
		}
	}
	if here.Slice*shrink != hardDisk.Slice || here.ReadAhead*shrink != hardDisk.ReadAhead {
		t.Errorf("%+v", here)
	}
}
