package lab

import (
	"context"
	"errors"
	"io"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/lab/slowdisk"
)

func needModelledDisk(t *testing.T) {
	t.Helper()
	if err := slowdisk.Check(); err != nil {
		t.Skip(err)
	}
}

// quickRun are the options of a run that only goes through everything.
func quickRun(t *testing.T, name string) RunOptions {
	t.Helper()
	dir := t.TempDir()
	return RunOptions{Quick: true, Dir: dir, Programs: programs(t), JSON: filepath.Join(dir, name+".json"), HTML: filepath.Join(dir, name+".html"),
		Output: Output{Stdout: io.Discard, Stderr: io.Discard}}
}

func checkRemarks(t *testing.T, c *Circumstances) {
	t.Helper()
	for _, f := range c.Failures {
		t.Error(f)
	}
	for _, s := range c.Skipped {
		t.Logf("left out: %s: %s", s.What, s.Why)
	}
	if !c.Complete || !strings.Contains(c.Disk, "modelled disk (8 ms seek") {
		t.Errorf("complete: %v; on %q", c.Complete, c.Disk)
	}
}

func TestQuickWarm(t *testing.T) {
	needModelledDisk(t)
	o := WarmOptions{RunOptions: quickRun(t, "warm"), Jobs: 12, Span: time.Second}
	if err := Warm(t.Context(), o); err != nil {
		t.Error(err)
	}
	leftNothing(t, o.Dir)
	res := &WarmResults{Circumstances: Circumstances{Experiment: experimentWarm}}
	if err := readResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	checkRemarks(t, &res.Circumstances)
	for _, mode := range []string{modeCold, modeWarmed, modeFIFO, modeRAM} {
		in := res.in(mode)
		if len(in) != 1 || len(in[0].Jobs) != 12 {
			t.Errorf("%s: %d replays of 12 jobs, want one", mode, len(in))
			continue
		}
		x := in[0]
		if memory := mode == modeRAM; (x.Disk.Read == 0) != memory {
			t.Errorf("%s: %d bytes were read from the disk", mode, x.Disk.Read)
		}
		if mode == modeWarmed && x.kept().Max == 0 {
			t.Error("nothing was kept in memory for the jobs")
		}
		for _, j := range x.Jobs {
			if j.Duration < res.Plan.Lead || j.Input > 0 && len(j.Reads) == 0 {
				t.Errorf("%s: %+v", mode, j)
			}
		}
	}
	for _, mode := range []string{modeCold, modeWarmed, modeDelayed, modeRAM} {
		for _, input := range res.inputsOf(kindWordcount) {
			if d, _ := res.singleSpread(kindWordcount, mode, input); math.IsNaN(d.Median) || mode == modeDelayed && d.Min < 2*res.Plan.Lead {
				t.Errorf("a word count of %d bytes, %s: %v", input, mode, d)
			}
		}
	}
}

func TestQuickOrder(t *testing.T) {
	needModelledDisk(t)
	o := OrderOptions{RunOptions: quickRun(t, "order")}
	if err := Order(t.Context(), o); err != nil {
		t.Error(err)
	}
	leftNothing(t, o.Dir)
	res := &OrderResults{Circumstances: Circumstances{Experiment: experimentOrder}}
	if err := readResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	checkRemarks(t, &res.Circumstances)
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
	needModelledDisk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupt := errors.New("interrupted")
	o := OrderOptions{RunOptions: quickRun(t, "order"), Memory: 96 << 20}
	o.Live, o.Repeats, o.Terminal.Width = true, 50, 200
	o.Stderr = &trigger{word: "repeat 1 of 50", times: 2, pull: func() { cancel(interrupt) }}
	if err := Order(ctx, o); !errors.Is(err, interrupt) {
		t.Fatalf("%v, want that it was interrupted", err)
	}
	leftNothing(t, o.Dir)
	res := &OrderResults{Circumstances: Circumstances{Experiment: experimentOrder}}
	if err := readResults(o.JSON, res); err != nil || res.Complete || len(res.Runs) == 0 {
		t.Errorf("complete %v with %d runs, %v; want some, and incomplete", res.Complete, len(res.Runs), err)
	}
}
