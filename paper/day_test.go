package paper

import (
	"math"
	"testing"
)

// TestPublishedTablesAgree: both tables must give the average that the text gives.
func TestPublishedTablesAgree(t *testing.T) {
	p := GoogleDay()
	for _, table := range [][]Rate{p.Bands, p.Classes} {
		preempted, scheduled := 0.0, 0.0
		for _, r := range table {
			preempted += r.Scheduled * r.Preempted
			scheduled += r.Scheduled
		}
		if got := preempted / scheduled; math.Abs(got-p.Preempted) > 0.0006 {
			t.Errorf("%s...: %.4f of the schedulings preempted, the text says %v", table[0].Name, got, p.Preempted)
		}
	}
	if free := p.Bands[0].Scheduled * p.Bands[0].Preempted; free < p.FreeShare*p.Preempted*47.4e6 {
		t.Error("the free band has less than the published share of the preemptions")
	}
	if got := p.UsefulCoreHours(); math.Abs(got-6314) > 1 {
		t.Errorf("useful: %v core-hours", got)
	}
}
