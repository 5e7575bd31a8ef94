package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/trace/synthetic"
	"headrace/trace/workload"
)

// TestLargeLog: a log may have more processors in all its jobs than MaxTasks where a part of
// it is wanted, or only what there is to know of it.
func TestLargeLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.swf")
	var text strings.Builder
	for i := range 3 {
		fmt.Fprintf(&text, "%d %d 0 60 100 -1 -1 -1 -1 -1 1 1 1 1 1 1 -1 -1\n", i+1, 1000*i)
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	o := OpenOptions{MaxTasks: 150}
	if d, err := DescribeSource(t.Context(), "swf:"+name, o); err != nil || d.Tasks != 300 {
		t.Errorf("described: %d tasks, %v, want 300", d.Tasks, err)
	}
	if _, err := Open(t.Context(), "swf:"+name, o); err == nil || !strings.Contains(err.Error(), "there are more than 150 tasks: read a part of the trace") {
		t.Errorf("the whole: %v, want an error", err)
	}
	o.From, o.For = 1000*time.Second, time.Minute
	if w, err := Open(t.Context(), "swf:"+name, o); err != nil || len(w.Tasks) != 100 {
		t.Errorf("the second job: %v, want 100 tasks", err)
	}
	o.MaxTasks = 2
	if _, err := Open(t.Context(), "swf:"+name, o); err == nil || !strings.Contains(err.Error(), "there are more than 2 tasks, and all are held") {
		t.Errorf("three jobs, of which two may be held: %v, want an error", err)
	}
}

func TestSketch(t *testing.T) {
	if got := (&sketch{}).distribution(); got != (Distribution{}) {
		t.Errorf("of nothing: %+v", got)
	}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 13))
		var s sketch
		var all []float64
		sum := 0.0
		for range 1 + r.IntN(2000) {
			v := 0.0
			switch r.IntN(4) {
			case 0:
				v = float64(r.IntN(4))
			default:
				v = math.Exp(r.NormFloat64() * 8)
			}
			s.add(v)
			sum += v
			all = append(all, v)
		}
		slices.Sort(all)
		d := s.distribution()
		if d.N != int64(len(all)) || d.Max != all[len(all)-1] || math.Abs(d.Mean-sum/float64(len(all))) > 1e-9*d.Mean {
			t.Fatalf("seed %d: %+v", seed, d)
		}
		for q, got := range map[float64]float64{0.5: d.P50, 0.9: d.P90, 0.99: d.P99} {
			want := all[int(math.Ceil(q*float64(len(all))))-1]
			if math.Abs(got-want) > 0.02*want+sketchLeast {
				t.Fatalf("seed %d: %v of them are at most %v, want %v", seed, q, got, want)
			}
		}
	}
	var s sketch
	for _, v := range []float64{0, 1e-300, 3, 1e30, math.MaxFloat64} {
		s.add(v)
	}
	if d := s.distribution(); d.P50 != 3 || d.Max != math.MaxFloat64 {
		t.Errorf("%+v", d)
	}
}

func TestDemand(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 14))
		var d demand
		type use struct {
			from, to time.Duration
			cpus     float64
		}
		var uses []use
		scale := []time.Duration{time.Minute, time.Hour, 1000 * time.Hour}[r.IntN(3)]
		for range 1 + r.IntN(20) {
			from, run := time.Duration(r.Int64N(int64(10*scale))), time.Duration(r.Int64N(int64(scale)))*time.Duration(r.IntN(2))
			uses = append(uses, use{from, from + run, 1 + r.Float64()})
			d.add(from, run, uses[len(uses)-1].cpus)
		}
		most := 0.0
		for i, got := range d.sums() {
			a, b := time.Duration(i)*d.slot, time.Duration(i+1)*d.slot
			want := 0.0
			for _, u := range uses {
				want += max(0, (min(u.to, b)-max(u.from, a)).Seconds()) * u.cpus
			}
			if math.Abs(got-want) > 1e-6*(1+want) {
				t.Fatalf("seed %d: slot %d of %v: %v, want %v", seed, i, d.slot, got, want)
			}
			most = max(most, want/d.slot.Seconds())
		}
		if got := d.peak(); math.Abs(got-most) > 1e-6*(1+most) {
			t.Fatalf("seed %d: peak %v, want %v", seed, got, most)
		}
	}
	var d demand
	d.add(math.MaxInt64-1, 100, 1)
	d.add(0, math.MaxInt64, 1)
	if len(d.part) > demandSlots || d.peak() > 1.001 || d.peak() < 0.999 {
		t.Errorf("%d slots of %v, peak %v", len(d.part), d.slot, d.peak())
	}
}

func TestDescribe(t *testing.T) {
	w := &workload.Workload{Name: "n", Jobs: []string{"a", "b"}, Files: []workload.File{{Name: "f", Bytes: 10}}, Recorded: true, Cluster: workload.Cluster{Nodes: 3}, Notes: []string{"note"}, Tasks: []workload.Task{
		{Job: 0, Submit: 0, Run: time.Hour, Priority: 1, CPUs: 2, Memory: 100, File: 1, Input: 7, Preempted: 1, Lost: time.Hour},
		{Job: 0, Index: 1, Submit: time.Hour, Run: time.Hour, Priority: 2, Class: 3, CPUs: 1, Memory: 100, Preempted: 12},
		{Job: 1, Submit: 90 * time.Minute, Run: 2 * time.Hour, Priority: 11, CPUs: 4, Memory: 400},
	}}
	d := Describe(w)
	if d.Jobs != 2 || d.Tasks != 3 || d.Files != 1 || d.Bytes != 7 || d.Span != 5400 || !slices.Equal(d.Arrivals, []int{1, 2}) || d.Cluster.Nodes != 3 ||
		d.Requested != 7 || d.CoreHours != 11 || d.Peak != 5 || d.Lost != 2 || d.Name != "n" || d.Notes[0] != "note" {
		t.Errorf("%+v", d)
	}
	if d.ByBand[0] != (Group{"free", 1, 2, 2}) || d.ByBand[1] != (Group{"middle", 1, 1, 1}) || d.ByBand[2] != (Group{"production", 1, 4, 8}) ||
		d.ByPriority[11] != (Group{"11", 1, 4, 8}) || d.ByClass[3] != (Group{"3", 1, 1, 1}) || len(d.ByPriority) != 12 || len(d.ByClass) != 4 {
		t.Errorf("%+v %+v %+v", d.ByBand, d.ByPriority, d.ByClass)
	}
	if d.TasksPerJob != (Distribution{2, 1.5, 1, 2, 2, 2}) || d.Run != (Distribution{3, 4800, 3600, 7200, 7200, 7200}) || d.Input.N != 1 || d.Memory.Max != 400 {
		t.Errorf("%+v %+v %+v", d.TasksPerJob, d.Run, d.Input)
	}
	if d.Outcome.Times[0] != 1 || d.Outcome.Times[1] != 1 || d.Outcome.Times[12] != 1 || d.Bands[1] != (workload.Preempted{Tasks: 1, Preempted: 1, Preemptions: 12, Scheduled: 13}) || d.Outcome.ByClass[3].Preemptions != 12 {
		t.Errorf("%+v %+v", d.Outcome, d.Bands)
	}
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var back Description
	if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, d) {
		t.Errorf("%v: %s", err, b)
	}
	w.Recorded = false
	if d := Describe(w); d.Outcome != nil || d.Bands != nil || d.Lost != 0 {
		t.Errorf("%+v", d)
	}
	if d := Describe(&workload.Workload{}); d.Tasks != 0 || d.Peak != 0 {
		t.Errorf("%+v", d)
	}
}

// A trace that is described as it is read is described as one that is held.
func TestDescribeSource(t *testing.T) {
	file := filepath.Join(t.TempDir(), "w.csv")
	const lines = "job,task,submit_s,run_s,priority,class,cpus,memory_bytes,file,offset,input_bytes,preempted,lost_s\n" +
		"a,0,0,120.25,1,1,1,2147483648,/in/a,0,134217728,0,0\na,1,2.5,118,1,0,0.25,2147483648,/in/a,134217728,1000,2,95.5\n" +
		"b,3,3600,30,9,3,4,8589934592,,,,0,0\nc,0,7200.000000001,30,4,2,4,8589934592,/in/b,5,6,11,0.5\n"
	if err := os.WriteFile(file, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	day := filepath.Join(t.TempDir(), "day.json")
	if err := os.WriteFile(day, []byte(synthetic.GoogleDayFile()), 0o600); err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(t.TempDir(), "pods.jsonl")
	const pod = `{"metadata":{"name":"a","namespace":"n","creationTimestamp":"2026-01-02T03:00:00Z"},"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"2"}}}]},` +
		`"status":{"containerStatuses":[{"state":{"terminated":{"startedAt":"2026-01-02T03:00:10Z","finishedAt":"2026-01-02T03:01:10Z"}}}]}}`
	log := filepath.Join(t.TempDir(), "log.swf")
	const jobs = "1 0 0 10 2 -1 -1 2 -1 1024 1 7 1 1 1 1 -1 -1\n2 5 0 10 1 -1 -1 1 -1 1024 1 8 1 1 1 1 1 0\n3 9 0 10 1 -1 -1 1 -1 1024 1 8 1 1 1 1 2 0\n"
	for name, text := range map[string]string{pods: pod + "\n" + strings.Replace(pod, `"a"`, `"b"`, 1), log: jobs} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, source := range []string{"kubernetes:" + pods, "swf:" + log, "csv:" + file, "swim:" + plainSample, "swim:" + pathsSample, "yarn:yarn/testdata", "google2011:" + googleTraceDir(t), "synthetic:google-day", "synthetic:" + day} {
		for _, o := range []OpenOptions{{Seed: 3, Scale: 0.01}, {Scale: 0.01, From: time.Second, For: 3 * time.Hour}} {
			if strings.HasPrefix(source, "kubernetes") {
				o.From = 0
			}
			want := Describe(open(t, source, o))
			got, err := DescribeSource(t.Context(), source, o)
			if err != nil {
				t.Fatal(err)
			}
			// Sums of numbers in another order differ in the last bits.
			for _, v := range []reflect.Value{reflect.ValueOf(&got).Elem(), reflect.ValueOf(&want).Elem()} {
				roundAll(v)
			}
			// A file that only tasks outside of the window read is known when it is read.
			got.Files = cmp.Or(want.Files, got.Files)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s:\ngot  %+v\nwant %+v", source, got, want)
			}
		}
	}
}

// roundAll leaves nine digits of all numbers.
func roundAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); f != 0 {
			unit := math.Pow(10, math.Floor(math.Log10(math.Abs(f)))-9)
			v.SetFloat(math.Round(f/unit) * unit)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			roundAll(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			roundAll(v.Index(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			roundAll(v.Elem())
		}
	}
}
