package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/trace/google"
	"headrace/trace/workload"
)

const jobLines = `0,2,7,0,userhash=,3,jobhash1=,program+1=
600000000,,7,1,userhash=,3,jobhash1=,program+1=
700000000,,8,0,userhash=,,jobhash2=,
`

// googleTraceDir writes a trace as published, with a preemption.
func googleTraceDir(t *testing.T) string {
	dir := t.TempDir()
	tasks := []string{
		"0,2,7,0,1,0,u,3,9,0.5,0.5,0.1,0\n0,2,7,0,1,1,u,3,9,0.5,0.5,0.1,0\n",
		"610000000,,8,3,,0,u,0,0,0.25,0.125,0.1,0\n620000000,,8,3,1,1,u,0,0,0.25,0.125,0.1,0\n640000000,,8,3,1,2,u,0,0,0.25,0.125,0.1,0\n" +
			"641000000,,9,0,,0,u,1,11,1,1,0.1,0\n641000000,,9,0,1,1,u,1,11,1,1,0.1,0\n650000000,,9,0,1,4,u,1,11,1,1,0.1,0\n",
	}
	write := func(name string, b []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for i, text := range tasks {
		write(fmt.Sprintf("task_events/part-%05d-of-00500.csv.gz", i), gzipped(text))
	}
	write("machine_events/part-00000-of-00001.csv.gz", gzipped("0,1,0,p,1,1\n0,2,0,p,0.5,0.25\n0,3,0,p,0.5,0.25\n0,4,0,p,,\n600000000,3,1,p,,\n600000000,2,2,p,0.5,0.5\n601000000,9,0,p,1,1\n"))
	write("job_events/part-00000-of-00500.csv.gz", gzipped(jobLines))
	return dir
}

func TestOpenGoogle(t *testing.T) {
	dir := googleTraceDir(t)
	w := open(t, "google2011:"+dir, OpenOptions{Google: google.Options{CPUs: 16, Memory: 64 << 30, Assumed: workload.Assumed{Dirty: -1}}})
	want := []workload.Task{
		{Submit: 0, Run: 50 * time.Second, Priority: 9, Class: 3, CPUs: 8, Memory: 32 << 30},
		{Job: 1, Index: 3, Submit: 10 * time.Second, Run: 20 * time.Second, CPUs: 4, Memory: 8 << 30, Preempted: 1, Lost: 20 * time.Second},
		{Job: 2, Submit: 41 * time.Second, Run: 9 * time.Second, Priority: 11, Class: 1, CPUs: 16, Memory: 64 << 30},
	}
	if !slices.Equal(w.Tasks, want) || !slices.Equal(w.Jobs, []string{"7:program+1=", "8", "9"}) || !w.Recorded {
		t.Errorf("%q\ngot  %+v\nwant %+v", w.Jobs, w.Tasks, want)
	}
	if err := w.Check(); err != nil {
		t.Fatal(err)
	}
	if w.Cluster != (workload.Cluster{Nodes: 3, CPUs: 12, Memory: 48 << 30}) {
		t.Errorf("%+v", w.Cluster)
	}
	if h := w.Outcome.Hourly; len(h) != 1 || h[0] != (workload.Hour{Scheduled: 3, Preemptions: 1}) {
		t.Errorf("%+v", h)
	}
	d := Describe(w)
	if d.Bands[0] != (workload.Preempted{Tasks: 1, Preempted: 1, Preemptions: 1, Scheduled: 1}) || d.Bands[2] != (workload.Preempted{Tasks: 2, Scheduled: 2}) || len(d.Outcome.Hourly) != 1 {
		t.Errorf("%+v", d.Bands)
	}
	w = open(t, "google2011:"+dir, OpenOptions{From: 10 * time.Second, For: 31 * time.Second})
	if len(w.Tasks) != 1 || w.Tasks[0].Submit != 0 || w.Jobs[0] != "8" || w.Tasks[0].CPUs != 8 {
		t.Errorf("%q %+v", w.Jobs, w.Tasks)
	}
	if err := os.WriteFile(filepath.Join(dir, "job_events/part-00001-of-00500.csv"), []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), "google2011:"+dir, OpenOptions{}); err == nil || !strings.Contains(err.Error(), "job_events/part-00001-of-00500.csv: trace: line 1: 1 fields, want 8, separated by commas") {
		t.Error(err)
	}
	for source, says := range map[string]string{
		t.TempDir():     "there are no files task_events/part-*.csv.gz",
		"open.go":       "is a file: want the directory that has task_events in it",
		dir + "/absent": "no such file",
	} {
		if _, err := Open(t.Context(), "google2011:"+source, OpenOptions{}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// TestRulesByName: of Google's traces, in which the names are in another table than the tasks.
func TestRulesByName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"instance_events.json": `{"time":"0","type":"0","collection_id":"7","priority":"200","instance_index":"0"}
{"time":"0","type":"3","collection_id":"7","priority":"200","instance_index":"0","machine_id":"1"}
{"time":"1","type":"0","collection_id":"8","priority":"200","instance_index":"0"}
{"time":"1","type":"3","collection_id":"8","priority":"200","instance_index":"0","machine_id":"1"}
`,
		"collection_events.json": `{"time":"0","type":"0","collection_id":"7","collection_logical_name":"program+1="}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	rules := workload.Rules{{Pattern: "*:program*", Priority: 5}, {Pattern: "*", Priority: 2}}
	for _, source := range []string{"google2011:" + googleTraceDir(t), "google2019:" + dir} {
		w := open(t, source, OpenOptions{Rules: rules})
		for _, k := range w.Tasks {
			if want := map[bool]headrace.Priority{true: 5, false: 2}[w.Jobs[k.Job] == "7:program+1="]; k.Priority != want {
				t.Errorf("%s: a task of %s has priority %d, want %d", source, w.Jobs[k.Job], k.Priority, want)
			}
		}
		d, err := DescribeSource(t.Context(), source, OpenOptions{Rules: rules})
		if err != nil || d.ByPriority[5].Tasks != 1 || d.ByPriority[2].Tasks != len(w.Tasks)-1 {
			t.Errorf("%s: %+v, %v", source, d.ByPriority, err)
		}
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}
