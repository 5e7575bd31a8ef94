package preempt

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
	"headrace/sim"
)

// mediaResults are runs on a machine whose dumps take 80 ms and restores 50 ms
// beside the bytes, whose kills take 30 ms, stops 5 ms and resumes 2 ms.
func mediaResults() *Results {
	r := &Results{Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Started: labtest.ModelStart, Machine: rig.Machine{Processors: 2, Processor: "P"}}}
	run := func(experiment, store, mechanism string, repeat int, bytes int64, bandwidth float64) {
		x := Run{Experiment: experiment, Policy: mechanism, Mechanism: mechanism, Repeat: repeat, Point: Point{Store: store}, Arrived: 1}
		urgent, low := report.Lane{Strong: true}, report.Lane{}
		add := func(l *report.Lane, k report.Kind, took float64) {
			from := 0.0
			if n := len(l.Segments); n > 0 {
				from = l.Segments[n-1].End
			}
			l.Segments = append(l.Segments, report.Segment{Kind: k, Start: from, End: from + took})
		}
		add(&low, report.Waiting, 0.01)
		add(&urgent, report.Waiting, 3)
		switch mechanism {
		case "kill":
			add(&low, report.Lost, 1.02)
		case "suspend":
			add(&low, report.Running, 0.995)
			add(&low, report.Suspended, 2-0.003)
			x.PagedOut, x.PagedIn, x.Makespan = 3e8, 2e8, 10.5
		case "wait":
			x.Makespan = 10
		case "checkpoint":
			x.Dumped, x.Restored = bytes, bytes
			dump, restore := 0.08+float64(bytes)/bandwidth, 0.05+float64(bytes)/bandwidth/2
			add(&low, report.Running, 1)
			add(&low, report.Checkpointing, dump)
			add(&low, report.Restoring, restore)
			x.OverheadCPU = (dump + restore) / 4
		}
		x.Lanes = []report.Lane{urgent, low}
		r.Runs = append(r.Runs, x)
	}
	for repeat := range 3 {
		for _, m := range []string{"wait", "kill", "suspend"} {
			run(expDirty, "", m, repeat, 0, 0)
		}
		run(ExpLight, "", "checkpoint", repeat, 1000, 1e9)
		run(expStorage, rig.StoreName(30e6), "checkpoint", repeat, 3e8, 3e7)
		run(expStorage, rig.StoreMemory, "checkpoint", repeat, 3e8, 2e9)
	}
	r.Runs = append(r.Runs, Run{Experiment: expStorage, Failure: "it broke", Point: Point{Store: rig.StoreName(100e6)}})
	return r
}

func TestMeasurements(t *testing.T) {
	m, err := mediaResults().Measurements()
	if err != nil {
		t.Fatal(err)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > want/100 {
			t.Errorf("%s: %g, want %g", what, got, want)
		}
	}
	if names := strings.Join(m.Names(), " "); names != "hdd nvm" {
		t.Fatalf("media %s: those without runs have to be left out", names)
	}
	hdd := m.Media[0]
	near("write", hdd.Write, 3e7)
	near("read", hdd.Read, 6e7)
	near("moving", hdd.Moving, 0.25)
	near("dump overhead", hdd.DumpOverhead.Seconds(), 0.08)
	near("restore overhead", hdd.RestoreOverhead.Seconds(), 0.05)
	near("swap", m.Swap.Out, 1e9)
	want := sim.MeasuredCosts{Start: 10 * time.Millisecond, Stop: 5 * time.Millisecond, Kill: 30 * time.Millisecond, Resume: 2 * time.Millisecond, Source: m.Costs.Source}
	if m.Costs != want {
		t.Errorf("costs %+v, want %+v", m.Costs, want)
	}

	r := mediaResults()
	r.Setups = []Setup{{Experiment: expDirty, SwapOut: 5e8, SwapIn: 4e8}}
	if m, err := r.Measurements(); err != nil || m.Swap.Out != 5e8 || m.Swap.In != 4e8 {
		t.Errorf("swap %+v, %v: want what the daemon has measured", m.Swap, err)
	}
}

func TestMeasurementsSayWhatIsMissing(t *testing.T) {
	for without, want := range map[string]string{ExpLight: "experiment a", expStorage: "experiment c", expDirty: "experiment a"} {
		r := mediaResults()
		r.Runs = Runs(r.Runs).where(func(x Run) bool { return x.Experiment != without })
		if _, err := r.Measurements(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without %s: %v, want %q in it", without, err, want)
		}
	}
}

func TestPreemptWritesMedia(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "r.json"), filepath.Join(dir, "out", "media.json")
	if err := trial.WriteResults(from, mediaResults()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := Measure(t.Context(), Options{Media: to, Options: trial.Options{From: from, Output: trial.Output{Stdout: &out, Stderr: &out}}}); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if m, err := sim.ReadMeasurements(f); err != nil || len(m.Media) != 2 || !strings.Contains(out.String(), to) {
		t.Errorf("%+v, %v; output:\n%s", m, err, &out)
	}
}
