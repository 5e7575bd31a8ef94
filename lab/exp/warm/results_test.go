package warm

import (
	"bytes"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
)

// modelWarm is results as a simple model has them: a large job reads 100 MB for
// 2 s cold, half of that warmed and nothing in RAM; a small one loses 0.1 s cold.
func modelWarm() *Results {
	r := &Results{
		Circumstances: labtest.ModelCircumstances(experimentName),
		Plan: Plan{Trace: "model", Jobs: 4, Shrink: 16, Span: 4, Input: 210e6, Largest: 100e6, Block: 4 << 20, Readers: 4, Lead: 0.5, Slots: 4,
			Disk: warmDisk{Bandwidth: 100e6, Seek: 0.012}},
	}
	reading := map[string]float64{modeCold: 2, modeFIFO: 1.2, modeWarmed: 0.4, modeRAM: 0}
	for repeat := range 3 {
		wobble := 1 + 0.01*float64(repeat)
		for order, mode := range []string{modeCold, modeWarmed, modeFIFO, modeRAM} {
			x := Replay{Repeat: repeat, Order: order, Mode: mode, Disk: rig.DiskCount{Read: int64(reading[mode] * 100e6), Seeks: int64(reading[mode] * 60)}, DaemonCPU: 0.1}
			for i, class := range []string{classSmall, classSmall, classLarge, classMedium} {
				j := ReplayedJob{Name: "job", Class: class, Input: 1e6, Submitted: float64(i), Duration: (0.5 + reading[mode]/20) * wobble, Reads: []float64{reading[mode]/20 + 0.001}, Wholes: []float64{reading[mode]/20 + 0.002}}
				if class == classLarge {
					j.Input, j.Duration = 100e6, (0.6+reading[mode])*wobble
					for range 24 {
						j.Reads, j.Wholes = append(j.Reads, reading[mode]/6+0.002), append(j.Wholes, reading[mode]/6+0.003)
					}
				}
				x.Jobs = append(x.Jobs, j)
			}
			if mode == modeWarmed || mode == modeFIFO {
				x.Memory = []MemorySample{{0, 0}, {1, 10e6}, {2, 30e6}, {3, 0}}
			}
			r.Replays = append(r.Replays, x)
		}
		for order, mode := range []string{modeCold, modeWarmed, modeDelayed, modeRAM} {
			for _, input := range []int64{16e6, 64e6} {
				d := 0.5 + float64(input)/100e6*reading[modeCold]
				switch mode {
				case modeWarmed:
					d -= min(d-0.5, 0.6)
				case modeDelayed:
					d += 0.5 - min(d-0.5, 1.2)
				case modeRAM:
					d = 0.5
				}
				r.Singles = append(r.Singles, Single{Repeat: repeat, Order: order, Kind: kindWordcount, Mode: mode, Input: input, Duration: d * wobble})
			}
		}
		r.Singles = append(r.Singles, Single{Repeat: repeat, Kind: kindSort, Mode: modeCold, Input: 312e6, Duration: 9 * wobble},
			Single{Repeat: repeat, Kind: kindSort, Mode: modeRAM, Input: 312e6, Duration: 4.7 * wobble})
	}
	failed := Replay{Repeat: 2, Order: 4, Mode: modeFIFO, Failure: "the model has a hole\nand more"}
	r.Replays = append(r.Replays, failed)
	r.Failed("repeat 3, fifo: %s", failed.Failure)
	return r
}

func TestWarmReport(t *testing.T) { labtest.CheckReport(t, modelWarm(), "warm") }

// A report is made again from the file, and only from one of its own experiment.
func TestWarmResultsSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "warm.json")
	want := modelWarm()
	if err := trial.WriteResults(path, want); err != nil {
		t.Fatal(err)
	}
	got := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(path, got); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("what was read is not what was written: %v", err)
	}
	other := &Results{Circumstances: trial.Circumstances{Experiment: "another"}}
	if err := trial.ReadResults(path, other); err == nil || !strings.Contains(err.Error(), `"warm"`) {
		t.Errorf("read as results of another experiment: %v", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{", strings.Replace(string(text), `"version": 1`, `"version": 99`, 1)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := trial.ReadResults(path, got); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v, want an error with the name of the file", bad, err)
		}
	}

	if err := trial.WriteResults(path, want); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := Options{Options: trial.Options{From: path, HTML: path + ".html", Markdown: path + ".md", Output: trial.Output{Stdout: &out, Stderr: io.Discard}}}
	if err := Measure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{o.HTML, o.Markdown} {
		if info, err := os.Stat(f); err != nil || info.Size() < 1000 || !strings.Contains(out.String(), f) {
			t.Errorf("%s was not written or is not named: %v", f, err)
		}
	}
}

func TestShareOfThePossible(t *testing.T) {
	r := modelWarm()
	for _, c := range []struct {
		mode string
		want float64
	}{{modeCold, 0}, {modeWarmed, 0.8}, {modeFIFO, 0.4}, {modeRAM, 1}} {
		got := r.reached(c.mode, meanDuration(""))
		if math.Abs(got.Median-c.want) > 1e-9 || math.Abs(got.Min-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.mode, got, c.want)
		}
	}
	if a := r.aims()[0]; math.Abs(a.Value.Median-0.8) > 1e-9 {
		t.Errorf("%+v", a)
	}
	// The aim must be able to fail, and without a bound there is none.
	for i := range r.Replays {
		for k := range r.Replays[i].Jobs {
			if r.Replays[i].Mode == modeWarmed {
				r.Replays[i].Jobs[k].Duration *= 1.1
			}
		}
	}
	if verdict, _ := r.aims()[0].Verdict(); verdict != "missed" {
		t.Errorf("%+v is %s", r.aims()[0], verdict)
	}
	for i := range r.Replays {
		if r.Replays[i].Mode == modeRAM {
			r.Replays[i].Failure = "no"
		}
	}
	if verdict, _ := r.aims()[0].Verdict(); verdict != "not measured" {
		t.Errorf("without inputs in RAM: %s", verdict)
	}
	if err := trial.WriteTables(io.Discard, report.Terminal{}, &Results{}); err != nil {
		t.Errorf("a report on nothing: %v", err)
	}
	if err := (&Results{}).Page().WriteHTML(io.Discard); err != nil {
		t.Errorf("a page on nothing: %v", err)
	}
}

// TestInstantaneousAgainstSampling looks at the moments one after the other.
func TestInstantaneousAgainstSampling(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		var x Replay
		for range r.IntN(6) {
			x.Jobs = append(x.Jobs, ReplayedJob{Input: r.Int64N(100), Submitted: float64(r.IntN(20)), Duration: float64(r.IntN(10))})
		}
		var area, lasted, most float64
		for at := 0.5; at < 40; at++ {
			now := 0.0
			for _, j := range x.Jobs {
				if j.Submitted < at && at < j.Submitted+j.Duration {
					now += float64(j.Input)
				}
			}
			if now > 0 {
				area, lasted, most = area+now, lasted+1, max(most, now)
			}
		}
		got := x.instantaneous()
		if lasted == 0 {
			area, lasted = 0, 1
		}
		if math.Abs(got.Mean-area/lasted) > 1e-6 || got.Max != most {
			t.Fatalf("seed %d, %+v: %+v, want mean %v and most %v", seed, x.Jobs, got, area/lasted, most)
		}
	}
}

func TestKept(t *testing.T) {
	x := Replay{Memory: []MemorySample{{0, 0}, {1, 10}, {2, 30}, {3, 0}, {4, 20}}}
	if got := x.kept(); got != (held{20, 30}) {
		t.Errorf("%+v", got)
	}
	if got := (Replay{}).kept(); got != (held{}) {
		t.Errorf("nothing was kept: %+v", got)
	}
}

func TestThinned(t *testing.T) {
	x := Replay{Memory: []MemorySample{{0, 5}, {1, 5}, {2, 5}, {3, 0}, {4, 0}, {5, 0}, {6, 7}}}
	want := []MemorySample{{0, 5}, {2, 5}, {3, 0}, {5, 0}, {6, 7}}
	if got := x.thinned(); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := (Replay{}).thinned(); got != nil {
		t.Errorf("%v of nothing", got)
	}
}

func TestShareOfFastBlocks(t *testing.T) {
	if got := below5ms([]float64{0.001, 0.0049, 0.005, 1}); got != 0.5 {
		t.Errorf("below 5 ms: %v, want 0.5", got)
	}
}

func TestWarmOptionsAreChecked(t *testing.T) {
	quiet := trial.Output{Stdout: io.Discard, Stderr: io.Discard}
	missing := filepath.Join(t.TempDir(), "missing.json")
	for name, run := range map[string]func() error{
		"jobs": func() error { return Measure(t.Context(), Options{Options: trial.Options{Output: quiet}, Jobs: 1}) },
		"span": func() error { return Measure(t.Context(), Options{Options: trial.Options{Output: quiet}, Span: 1}) },
		"repeats": func() error {
			return Measure(t.Context(), Options{Options: trial.Options{Output: quiet, Repeats: -1}})
		},
		"from": func() error {
			return Measure(t.Context(), Options{Options: trial.Options{Output: quiet, From: missing}})
		},
	} {
		if err := run(); err == nil {
			t.Errorf("wrong %s: no error", name)
		}
	}
}
