package blocks

import (
	"testing"
	"time"
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
		eachDue(all, now, func(k int, v *turn) { seen[k]++; v.found(now.Add(-checkAfter)) })
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
