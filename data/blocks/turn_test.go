package blocks

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"headrace"
	"headrace/hdfs/replica"
	"headrace/wire"
)

// TestTurns: who is due is looked at once before anybody is twice, and pauses grow for what is missed.
func TestTurns(t *testing.T) {
	now := time.Unix(1000, 0)
	all, seen := map[int]*turn{}, map[int]int{}
	for i := range 3 * checksAtOnce {
		all[i] = &turn{at: now.Add(-time.Hour)}
	}
	for range 3 {
		now = now.Add(time.Second)
		eachDue(t.Context(), all, now, time.Hour, func(k int, v *turn) { seen[k]++; v.found(now.Add(-checkAfter)) })
	}
	if len(seen) != len(all) {
		t.Errorf("%d of %d were looked at", len(seen), len(all))
	}
	var w turn
	var pauses []time.Duration
	for range 7 {
		w.miss(now)
		pauses = append(pauses, w.at.Sub(now)/time.Second)
	}
	wantEqual(t, "pauses", pauses, []time.Duration{5, 10, 20, 40, 80, 120, 120})
	w.found(now)
	w.miss(now)
	wantEqual(t, "after it was found", w.at.Sub(now), againAfter)
}

// seeking is a disk that takes a while to find each block; none is there.
type seeking time.Duration

func (s seeking) Find(ctx context.Context, _ headrace.Block) (*Copy, error) {
	select {
	case <-time.After(time.Duration(s)):
		return nil, replica.ErrAbsent
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s seeking) Any(ctx context.Context, id headrace.BlockID) (*Copy, error) {
	return s.Find(ctx, headrace.Block{ID: id})
}

// TestSlowDisk: a report is made in time for the manager, however long it takes to look for blocks, and what there was no time for
// comes in the next ones.
func TestSlowDisk(t *testing.T) {
	const away = 10 * time.Second // manager/inputs
	for _, each := range []time.Duration{30 * time.Millisecond, time.Hour} {
		r := newRig(t, func(c *Config) { c.Replicas = seeking(each) })
		r.lookTime, r.lookAtMost = lookTime, lookAtMost
		var many []int64
		for n := range int64(200) {
			many = append(many, n)
		}
		r.watch(true, many, nil)
		r.order(true, "j", many, nil)
		synctest.Test(t, func(t *testing.T) {
			failed, unseen := 0, uint64(len(many))
			for range 20 {
				began := time.Now()
				q := r.Report(t.Context(), false)
				if took := time.Since(began); took > away*2/3 {
					t.Fatalf("at %v for each block a report has taken %v", each, took)
				}
				for _, k := range q.Kept {
					if k.State == wire.KeptState_KEPT_STATE_FAILED {
						failed += len(k.Blocks.Blocks.Numbers)
					}
				}
				unseen = q.Unseen
			}
			switch {
			case each == time.Hour && (unseen != uint64(len(many)) || failed != 0):
				t.Errorf("%d are told as failed, %d as unseen, and the disk has not said anything", failed, unseen)
			case each < time.Hour && (unseen != 0 || failed == 0):
				t.Errorf("%d are told as failed, %d as unseen, of a disk that is only slow", failed, unseen)
			}
		})
	}
}
