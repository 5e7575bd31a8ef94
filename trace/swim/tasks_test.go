package swim

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

func tasksOf(t *testing.T, jobs []Job, o Options, part workload.Part) (*workload.Workload, error) {
	t.Helper()
	part.Tasks = 100_000
	w, err := workload.Gather(part, func(to workload.Sink) (workload.About, error) {
		return Tasks(input.NewMeter(t.Context(), nil), sequence(jobs), o, part, to)
	})
	if errors.Is(err, workload.ErrNoTasks) {
		return &workload.Workload{}, nil
	}
	return w, err
}

func TestSwimTasks(t *testing.T) {
	const mib = 1 << 20
	high := headrace.High
	o := Options{Block: 100, Reduce: 40, Rate: 10, Start: 2 * time.Second, CPUs: 0.5, Memory: mib, Small: &high, SmallBytes: 300,
		Assumed: workload.Assumed{Grow: 3 * time.Second, Dirty: 0.5}}
	got, err := tasksOf(t, []Job{
		{ID: "a", Submit: 5 * time.Second, Input: 250, Shuffle: 60, Output: 20, InputPath: "p"},
		{ID: "b", Submit: 6 * time.Second, Input: 90, Output: 30, InputPath: "p"},
		{ID: "c", Submit: 7 * time.Second, Output: 300},
	}, o, workload.Part{})
	if err != nil {
		t.Fatal(err)
	}
	base := workload.Task{CPUs: 0.5, Memory: mib, Grow: 3, Dirty: mib / 2}
	task := func(job, index, file int32, offset, input int64, seconds float64, p headrace.Priority) workload.Task {
		k := base
		k.Job, k.Index, k.File, k.Offset, k.Input, k.Priority = job, index, file, offset, input, p
		k.Submit, k.Run = time.Duration(5+job)*time.Second, time.Duration(math.Round(seconds*1000))*time.Millisecond
		return k
	}
	want := []workload.Task{
		task(0, 0, 1, 0, 100, 2+12, headrace.Normal), task(0, 1, 1, 100, 100, 2+12, headrace.Normal), task(0, 2, 1, 200, 50, 2+7, headrace.Normal),
		task(0, 3, 0, 0, 0, 2+4, headrace.Normal), task(0, 4, 0, 0, 0, 2+4, headrace.Normal),
		task(1, 0, 1, 0, 90, 2+12, headrace.High),
		task(2, 0, 0, 0, 0, 2+30, headrace.High),
	}
	if !slices.Equal(got.Tasks, want) || !slices.Equal(got.Files, []workload.File{{Name: "p", Bytes: 250}}) {
		t.Errorf("got  %+v %+v\nwant %+v", got.Tasks, got.Files, want)
	}
	if err := got.Check(); err != nil {
		t.Fatal(err)
	}
	part := workload.Part{From: 6 * time.Second, For: time.Second}
	if got, err = tasksOf(t, []Job{{ID: "a"}, {ID: "b", Submit: 6 * time.Second}, {ID: "c", Submit: 7 * time.Second}}, o, part); err != nil || len(got.Tasks) != 1 || got.Jobs[0] != "b" || got.Tasks[0].Submit != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestSwimTasksRefuse(t *testing.T) {
	high := headrace.MaxPriority + 1
	for _, c := range []struct {
		o    Options
		j    Job
		says string
	}{
		{Options{}, Job{ID: "a", Input: math.MaxInt64}, "a: 68719476736 maps and 0 reduces are too many: give larger blocks than 134217728 and 1073741824 bytes"},
		{Options{}, Job{ID: "a", Shuffle: math.MaxInt64}, "a: 1 maps and 8589934592 reduces are too many"},
		{Options{Block: 1}, Job{ID: "a", Input: 100_001}, "there are more than 100000 tasks"},
		{Options{Block: -1}, Job{}, "want positive numbers"},
		{Options{Rate: math.NaN()}, Job{}, "want positive numbers"},
		{Options{Priority: &high}, Job{}, "priorities of 0 to 11"},
		{Options{Assumed: workload.Assumed{Dirty: 2}}, Job{}, "at most 1"},
	} {
		if _, err := tasksOf(t, []Job{c.j}, c.o, workload.Part{}); err == nil || !strings.HasPrefix(err.Error(), "trace: ") || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %s", c.o, err, c.says)
		}
	}
}

// All that a job reads is read once, by tasks in order, and no task runs longer than
// its bytes take.
func TestSwimTasksRandom(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 11))
		var jobs []Job
		for range r.IntN(5) {
			jobs = append(jobs, Job{ID: "j", Input: r.Int64N(3) * r.Int64N(5000), Shuffle: r.Int64N(3) * r.Int64N(5000), Output: r.Int64N(1000), InputPath: []string{"", "p", "q"}[r.IntN(3)]})
			jobs[len(jobs)-1].ID += string(rune('0' + len(jobs)))
		}
		o := Options{Block: 1 + r.Int64N(500), Reduce: 1 + r.Int64N(500), Rate: 100}
		w, err := tasksOf(t, jobs, o, workload.Part{})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Check(); err != nil {
			t.Fatal(err)
		}
		read, work := make([]int64, len(jobs)), make([]float64, len(jobs))
		for _, k := range w.Tasks {
			if k.File > 0 && k.Offset != read[k.Job] {
				t.Fatalf("seed %d: %+v does not follow after %d bytes", seed, k, read[k.Job])
			}
			read[k.Job] += k.Input
			work[k.Job] += (k.Run - time.Second).Seconds() * o.Rate
		}
		for i, j := range jobs {
			want := float64(j.Input + 2*j.Shuffle + j.Output)
			if read[i] != j.Input || math.Abs(work[i]-want) > 0.1*float64(len(w.Tasks))+1e-6*want {
				t.Fatalf("seed %d: %+v: %d bytes read, %v worked, want %v", seed, j, read[i], work[i], want)
			}
		}
	}
}
