package warm

import (
	"math"
	"testing"
	"time"
)

// TestWarmPlan compares with what the paper says of its workload.
func TestWarmPlan(t *testing.T) {
	plan, jobs, err := planWarm(paperJobs, 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	number := map[string]int{}
	var input int64
	var rest time.Duration
	last := time.Duration(0)
	for _, j := range jobs {
		number[j.class]++
		input += j.input
		rest += j.rest
		if j.submit < last {
			t.Errorf("%s is submitted before the job before it", j.name)
		}
		last = j.submit
		if (j.path == "") != (j.input == 0) {
			t.Errorf("%s reads %d bytes of %q", j.name, j.input, j.path)
		}
	}
	if len(jobs) != paperJobs || jobs[0].submit != 0 || last != 20*time.Second {
		t.Errorf("%d jobs from %v to %v", len(jobs), jobs[0].submit, last)
	}
	// "85 % of jobs in our workload read 64MB or less".
	if share := float64(number[classSmall]) / paperJobs; math.Abs(share-0.85) > 0.03 {
		t.Errorf("%.0f %% of the jobs are small: %v", share*100, number)
	}
	// "the largest jobs read up to 24GB", here an eighth and a sixteenth of that.
	if got := float64(plan.Largest) * paperServers * shrink; got < 22e9 || got > 28e9 {
		t.Errorf("the largest job reads %.1f GB", got/1e9)
	}
	if plan.Input != input || math.Abs(float64(input)*paperServers*shrink/paperInput-1) > 0.1 {
		t.Errorf("%d bytes planned, %d in all: %.1f GB of the paper's 170", plan.Input, input, float64(input)*paperServers*shrink/1e9)
	}
	if mean := (rest / paperJobs * shrink).Seconds(); mean < 0.9 || mean > 1.4 {
		t.Errorf("jobs go on for %.2f s on average, in the paper's time", mean)
	}
}

func TestShareOfAServer(t *testing.T) {
	const block = paperBlock
	for _, c := range []struct{ input, share int64 }{
		{0, 0}, {1, 1}, {block - 1, block - 1}, {block, block}, {block + 1, block}, {8 * block, block},
		{8*block + 1, 2 * block}, {16 * block, 2 * block}, {800 * block, 100 * block},
	} {
		if got := share(c.input); got != c.share {
			t.Errorf("of %d bytes a server reads %d, want %d", c.input, got, c.share)
		}
		// The dumb way: deal the blocks out and look at the first server.
		var first, left = int64(0), c.input
		for i := 0; left > 0; i++ {
			if i%paperServers == 0 {
				first += min(block, left)
			}
			left -= min(block, left)
		}
		if first > c.share {
			t.Errorf("of %d bytes the first server has %d, more than the share %d", c.input, first, c.share)
		}
	}
}

func TestClasses(t *testing.T) {
	for input, want := range map[int64]string{0: classSmall, paperBlock: classSmall, paperBlock + 1: classMedium, paperMedium: classMedium, paperMedium + 1: classLarge} {
		if got := classOf(input); got != want {
			t.Errorf("%d bytes: %s, want %s", input, got, want)
		}
	}
}
