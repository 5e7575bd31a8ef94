package order

import (
	"io"
	"math"
	"path/filepath"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/trial"
	"headrace/report"
)

// modelOrder is results of a memory that keeps 350 MB of what was read last.
func modelOrder() *Results {
	r := &Results{Circumstances: labtest.ModelCircumstances(experimentName), Memory: 512e6, File: orderFile}
	for repeat := range 3 {
		for _, how := range []string{howDealt, howQueued} {
			for i, f := range orderFactors {
				for _, ordered := range []bool{false, true} {
					bytes := int64(f * 512e6)
					x := Run{Repeat: repeat, Order: i, Factor: f, How: how, Ordered: ordered, Files: int(bytes / orderFile), Bytes: bytes,
						First: float64(bytes) / 100e6, FirstRead: bytes, Resident: min(bytes, 350e6)}
					hits := int64(0)
					if ordered || bytes < 350e6 {
						hits = x.Resident * int64(99-repeat) / 100
					}
					x.SecondRead = bytes - hits
					x.Second = 0.1 + float64(x.SecondRead)/100e6
					r.Runs = append(r.Runs, x)
				}
			}
		}
	}
	r.Runs = append(r.Runs, Run{Repeat: 0, Factor: orderFactors[0], How: howDealt, Failure: "no memory"})
	r.Failed("repeat 1: no memory")
	return r
}

func TestOrderReport(t *testing.T) { labtest.CheckReport(t, modelOrder(), "order") }

func TestOrderAims(t *testing.T) {
	r := modelOrder()
	for _, a := range r.aims() {
		if verdict, _ := a.Verdict(); verdict != "met" || math.Abs(a.Value.Median-0.98) > 1e-6 {
			t.Errorf("%s: %v is %s", a.What, a.Value, verdict)
		}
	}
	// The worst point must decide.
	for i := range r.Runs {
		if x := &r.Runs[i]; x.Ordered && x.How == howDealt && x.Factor == orderFactors[2] {
			x.SecondRead += 30e6
		}
	}
	aims := r.aims()
	if verdict, _ := aims[0].Verdict(); verdict != "missed" || aims[0].Where != "2.67 times the memory" {
		t.Errorf("%+v is %s", aims[0], verdict)
	}
	if verdict, _ := aims[1].Verdict(); verdict != "met" {
		t.Errorf("%+v is %s", aims[1], verdict)
	}
	for _, a := range (&Results{}).aims() {
		if verdict, _ := a.Verdict(); verdict != "not measured" {
			t.Errorf("of nothing: %+v is %s", a, verdict)
		}
	}
	if err := trial.WriteTables(io.Discard, report.Terminal{}, &Results{}); err != nil {
		t.Errorf("a report on nothing: %v", err)
	}
	if err := (&Results{}).Page().WriteHTML(io.Discard); err != nil {
		t.Errorf("a page on nothing: %v", err)
	}
}

// Hits are never negative, though read-ahead may read more than a job does.
func TestHits(t *testing.T) {
	for _, c := range []struct{ bytes, read, hits int64 }{{100, 0, 100}, {100, 30, 70}, {100, 100, 0}, {100, 101, 0}} {
		if got := (Run{Bytes: c.bytes, SecondRead: c.read}).hits(); got != c.hits {
			t.Errorf("%d of %d bytes read: %d hits, want %d", c.read, c.bytes, got, c.hits)
		}
	}
}

func TestOrderOptionsAreChecked(t *testing.T) {
	quiet := trial.Output{Stdout: io.Discard, Stderr: io.Discard}
	for name, o := range map[string]Options{
		"memory": {Options: trial.Options{Output: quiet}, Memory: 1},
		"from":   {Options: trial.Options{Output: quiet, From: filepath.Join(t.TempDir(), "missing.json")}},
	} {
		if err := Measure(t.Context(), o); err == nil {
			t.Errorf("wrong %s: no error", name)
		}
	}
}
