package warm

import (
	"math"
	"math/rand/v2"
	"testing"

	"headrace/lab/sample"
)

// TestAheadOfTimeAgainstSteps compares with a disk that reads step by step.
func TestAheadOfTimeAgainstSteps(t *testing.T) {
	const step = 1.0 / 64
	d := warmDisk{Bandwidth: 64, Seek: 2 * step}
	lateOnes := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		jobs := make([]ReplayedJob, r.IntN(7))
		left := make([]int, len(jobs)) // steps
		for i := range jobs {
			jobs[i] = ReplayedJob{Input: r.Int64N(40), Submitted: float64(r.IntN(100)) * step}
			if jobs[i].Input > 0 {
				left[i] = 2 + int(jobs[i].Input)
			}
		}
		lead := float64(r.IntN(20)) * step
		want := make([]float64, len(jobs))
		for n := range 1000 {
			best := -1
			for i, j := range jobs {
				if left[i] > 0 && j.Submitted <= float64(n)*step && (best < 0 || j.Input < jobs[best].Input ||
					j.Input == jobs[best].Input && j.Submitted < jobs[best].Submitted) {
					best = i
				}
			}
			if best < 0 {
				continue
			}
			if left[best]--; left[best] == 0 {
				want[best] = max(0, float64(n+1)*step-jobs[best].Submitted-lead)
			}
		}
		for i, got := range d.aheadOfTime(jobs, lead) {
			if math.Abs(got-want[i]) > 1e-9 {
				t.Fatalf("seed %d, %+v, lead %v: job %d is late by %v, want %v", seed, jobs, lead, i, got, want[i])
			}
			if got > 0 {
				lateOnes++
			}
		}
	}
	if lateOnes < 100 {
		t.Errorf("only %d jobs were late: the cases are too easy", lateOnes)
	}
}

func TestIdeal(t *testing.T) {
	r := modelWarm()
	r.Plan.Disk = warmDisk{}
	if got := r.ideal(); got != nil {
		t.Errorf("%d ideal replays on a disk that is not known", len(got))
	}
	r.Plan.Disk = warmDisk{Bandwidth: 100e6, Seek: 0.01}
	before := r.of(modeRAM, meanDuration(classLarge))
	ideal := r.ideal()
	if len(ideal) != 3 {
		t.Fatalf("%d ideal replays", len(ideal))
	}
	// It reads for 1 s and gives way to a job of 20 ms; it waits for half a second.
	for _, x := range ideal {
		was, _ := sample.Beside(x, r.in(modeRAM))
		if late := meanDuration(classLarge)(x) - meanDuration(classLarge)(was); math.Abs(late-(1.01+0.02-0.5)) > 1e-6 {
			t.Errorf("the large job is late by %v", late)
		}
		if late := meanDuration(classSmall)(x) - meanDuration(classSmall)(was); late != 0 {
			t.Errorf("the small jobs are late by %v", late)
		}
	}
	if after := r.of(modeRAM, meanDuration(classLarge)); after != before {
		t.Error("the measured replays were changed")
	}
}
