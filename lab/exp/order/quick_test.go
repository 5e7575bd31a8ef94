package order

import (
	"context"
	"errors"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/trial"
)

func TestQuickOrder(t *testing.T) {
	labtest.NeedModelledDisk(t)
	o := Options{Options: labtest.QuickRun(t, "order")}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	labtest.CheckRemarks(t, &res.Circumstances)
	for _, how := range []string{howDealt, howQueued} {
		with, without := orderPoint{orderFactors[1], how, true}, orderPoint{orderFactors[1], how, false}
		if r := res.at(with, residentShare).Median; !(r > 0.2 && r < 1) {
			t.Errorf("%s: %.0f %% of the data are in memory when the second job begins", how, r*100)
		}
		if a, b := res.at(with, hitRate).Median, res.at(without, hitRate).Median; !(a > b+0.1) {
			t.Errorf("%s: %.0f %% hits when what is in memory goes first, %.0f %% when not", how, a*100, b*100)
		}
	}
}

// Interrupted in the middle, a run cleans up and reports what it has.
func TestInterruptedOrder(t *testing.T) {
	labtest.NeedModelledDisk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupt := errors.New("interrupted")
	o := Options{Options: labtest.QuickRun(t, "order"), Memory: 96 << 20}
	o.Live, o.Repeats, o.Terminal.Width = true, 50, 200
	o.Stderr = &labtest.Trigger{Word: "repeat 1 of 50", Times: 2, Pull: func() { cancel(interrupt) }}
	if err := Measure(ctx, o); !errors.Is(err, interrupt) {
		t.Fatalf("%v, want that it was interrupted", err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil || res.Complete || len(res.Runs) == 0 {
		t.Errorf("complete %v with %d runs, %v; want some, and incomplete", res.Complete, len(res.Runs), err)
	}
}
