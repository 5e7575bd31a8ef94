package swim

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func randomJobs(r *rand.Rand) []Job {
	var jobs []Job
	at := time.Duration(0)
	for i := range r.IntN(12) {
		at += time.Duration(r.IntN(4)) * time.Second
		j := Job{ID: "j" + strconv.Itoa(i), Submit: at, Input: r.Int64N(5), Shuffle: r.Int64N(1000), Output: r.Int64N(1e12)}
		if r.IntN(3) == 0 {
			j.InputPath = "p" + strconv.Itoa(r.IntN(3))
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// sequence returns the sequence of the given jobs.
func sequence(jobs []Job) Jobs {
	return func(yield func(Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}
}

var errBroken = errors.New("broken")

// breaking ends a sequence with an error.
func breaking(jobs []Job) Jobs {
	return func(yield func(Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
		yield(Job{}, errBroken)
	}
}

func TestFirst(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		jobs := randomJobs(r)
		n := r.IntN(15) - 1
		want := jobs[:max(0, min(n, len(jobs)))]
		got, err := Collect(First(sequence(jobs), n))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("first %d of %v: %v, %v", n, jobs, got, err)
		}
		got, err = Collect(First(breaking(jobs), n))
		if !slices.Equal(got, want) || errors.Is(err, errBroken) != (n > len(jobs)) {
			t.Fatalf("first %d of %d jobs and an error: %d, %v", n, len(jobs), len(got), err)
		}
	}
}

func TestScaled(t *testing.T) {
	jobs := []Job{
		{ID: "a", Submit: 10 * time.Second, Input: 1000, Shuffle: 0, Output: 3, InputPath: "p"},
		{ID: "b", Submit: 11 * time.Second, Input: 1, Shuffle: 15, Output: 14},
	}
	for _, c := range []struct {
		by   Scale
		want []Job
	}{
		{Scale{}, jobs},
		{Scale{Bytes: 1, Time: 1}, jobs},
		{Scale{Bytes: 0.1}, []Job{
			{ID: "a", Submit: 10 * time.Second, Input: 100, Output: 1, InputPath: "p"},
			{ID: "b", Submit: 11 * time.Second, Input: 1, Shuffle: 2, Output: 1},
		}},
		{Scale{Bytes: 3, Time: 0.25}, []Job{
			{ID: "a", Submit: 2500 * time.Millisecond, Input: 3000, Output: 9, InputPath: "p"},
			{ID: "b", Submit: 2750 * time.Millisecond, Input: 3, Shuffle: 45, Output: 42},
		}},
	} {
		if got, err := Collect(Scaled(sequence(jobs), c.by)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %+v, %v", c.by, got, err)
		}
	}
	for _, c := range []struct {
		by   Scale
		says string
	}{
		{Scale{Bytes: -1}, "scale of -1 for bytes, 1 for times: want positive numbers"},
		{Scale{Time: math.NaN()}, "NaN for times"},
		{Scale{Bytes: math.Inf(1)}, "a: 1000 bytes are too many once multiplied by +Inf"},
		{Scale{Bytes: 1e16}, "a: 1000 bytes are too many once multiplied by 1e+16"},
		{Scale{Time: 1e10}, "a: its time of submission, 10s, is too large once multiplied by 1e+10"},
	} {
		got, err := Collect(Scaled(sequence(jobs), c.by))
		if err == nil || len(got) > 0 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %+v, %v; want %q", c.by, got, err, c.says)
		}
	}
	if got, err := Collect(Scaled(breaking(jobs), Scale{})); len(got) != 2 || err != errBroken {
		t.Errorf("%d jobs, %v", len(got), err)
	}
	for range Scaled(sequence(jobs), Scale{}) {
		break
	}
}

func TestWithPaths(t *testing.T) {
	day, err := Collect(First(FacebookDay(), 1000))
	if err != nil {
		t.Fatal(err)
	}
	day[3].InputPath = "given"
	got, err := Collect(WithPaths(sequence(day)))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for i, j := range got {
		switch {
		case (j.InputPath == "") != (j.Input == 0):
			t.Fatalf("%+v: a path for those that read, and for no others", j)
		case i == 3 && j.InputPath != "given":
			t.Errorf("%+v: its path has been replaced", j)
		case j.InputPath != "" && seen[j.InputPath]:
			t.Fatalf("%+v: another job has this path", j)
		}
		seen[j.InputPath] = true
		j.InputPath = day[i].InputPath
		if j != day[i] {
			t.Fatalf("%+v became %+v", day[i], got[i])
		}
	}
	for range WithPaths(sequence(day)) {
		break
	}
	if got, err := Collect(WithPaths(breaking(day[:2]))); len(got) != 2 || err != errBroken {
		t.Errorf("%d jobs, %v", len(got), err)
	}
}
