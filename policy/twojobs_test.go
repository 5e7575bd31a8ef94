package policy

import (
	"fmt"
	"math"
	"testing"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// twoJobs is the experiment of checkpoint-preemption, section 3.3.3: two jobs of a
// minute and 5 GB; the urgent one arrives when the other has done a share of its
// work. The response times follow from the schedule alone.
type twoJobs struct {
	work, share float64
	bandwidth   float64 // of the store, bytes per second
	swap        float64 // of the swap; 0: there is none
}

const jobBytes = 5 << 30

// responses returns the times from arrival to end of the urgent and the other job.
func (j twoJobs) responses(m headrace.Mechanism) (high, low float64) {
	before := j.work * j.share
	rest := j.work - before
	move := jobBytes / j.bandwidth
	switch m {
	case headrace.Wait:
		return rest + j.work, j.work
	case headrace.Kill:
		high = 0.2 + j.work
		return high, before + high + j.work
	case headrace.Checkpoint:
		high = 0.1 + move + j.work
		return high, before + high + 0.1 + move + rest
	}
	page := 4 << 30 / j.swap
	high = 0.1 + page/2 + j.work
	return high, before + high + page + rest
}

func (j twoJobs) choose(t *testing.T) headrace.Mechanism {
	n := headrace.NodeView{
		ID: "n", CPUs: 1, Memory: 6 << 30,
		Stores: []headrace.StoreView{{
			Name: "s", Write: j.bandwidth, Read: j.bandwidth, Free: 1 << 40,
			DumpOverhead: 100 * time.Millisecond, RestoreOverhead: 100 * time.Millisecond,
		}},
	}
	if j.swap > 0 {
		n.SwapFree, n.SwapOut, n.SwapIn = 16<<30, j.swap, j.swap
	}
	ran := words.Seconds(j.work * j.share)
	low := headrace.TaskView{
		ID: "low", Node: "n", State: headrace.Running, Priority: headrace.Low, CPUs: 1, MemoryRequest: jobBytes,
		Resident: jobBytes, Dirty: jobBytes, Running: ran,
		Progress: headrace.Progress{Wall: ran, TotalWall: ran, Share: j.share},
	}
	high := headrace.TaskView{ID: "high", Priority: headrace.High, CPUs: 1, MemoryRequest: jobBytes}
	ch := Choose(high, n, []headrace.TaskView{low}, Config{})
	if ch.Wait {
		return headrace.Wait
	}
	if len(ch.Orders) != 1 {
		t.Fatalf("%+v: orders %v", j, ch.Orders)
	}
	return ch.Orders[0].Mechanism
}

// TestTwoJobs checks at any bandwidth and progress that what Cost chooses is, in
// the sum of both response times, at most 5 % worse than the best way to preempt,
// and in the weighted sum than waiting too but for the time that the urgent job
// takes from the other, which the model leaves out on purpose.
func TestTwoJobs(t *testing.T) {
	weight := math.Exp2(float64(headrace.High-headrace.Low) / 6)
	var worst, worstWait float64
	chosen := map[headrace.Mechanism]int{}
	for _, swap := range []float64{0, 50 * mb, 200 * mb, 1000 * mb, 4000 * mb} {
		for bandwidth := 5.0 * mb; bandwidth < 20000*mb; bandwidth *= 1.25 {
			for share := 0.02; share < 0.999; share += 0.02 {
				j := twoJobs{60, share, bandwidth, swap}
				m := j.choose(t)
				chosen[m]++
				high, low := j.responses(m)
				best := math.Inf(1)
				for _, o := range []headrace.Mechanism{headrace.Kill, headrace.Checkpoint, headrace.Suspend} {
					if o == headrace.Suspend && swap == 0 {
						continue
					}
					h, l := j.responses(o)
					best = min(best, h+l)
				}
				worst = max(worst, (high+low)/best)
				if high+low > best*1.05 {
					t.Errorf("%s: %v takes %.1f s, the best %.1f s", fmt.Sprintf("%+v", j), m, high+low, best)
				}
				h, l := j.responses(headrace.Wait)
				wait := weight*h + l + j.work
				worstWait = max(worstWait, (weight*high+low)/wait)
				if m != headrace.Wait && weight*high+low > 1.05*wait {
					t.Errorf("%+v: %v weighs %.1f, waiting %.1f", j, m, weight*high+low, wait)
				}
			}
		}
	}
	t.Logf("chosen %v; at worst %.3f of the best way to preempt, %.3f of waiting", chosen, worst, worstWait)
	for m := headrace.Wait; m <= headrace.Kill; m++ {
		if chosen[m] == 0 {
			t.Errorf("never chooses to %s", m)
		}
	}
}
