package read

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	disks "headrace/disk"
	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
	"headrace/lab/work"
	"headrace/report"
)

func TestReadOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"part":    {Only: []string{"own", "others"}},
		"place":   {Places: []string{"tape"}},
		"repeats": {Options: trial.Options{Repeats: -1}},
		"missing": {Options: trial.Options{From: filepath.Join(t.TempDir(), "missing.json")}},
	} {
		o.Output = trial.Output{Stdout: io.Discard, Stderr: io.Discard}
		if err := Measure(t.Context(), o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("a wrong %s: %v", name, err)
		}
	}
}

// Every part that is chosen has its cases and files, and no other.
func TestReadPlan(t *testing.T) {
	for _, quick := range []bool{false, true} {
		for _, place := range rig.DiskNames {
			all := (&Options{Only: Parts, Options: trial.Options{Quick: quick}}).planRead(place)
			parts := map[string]int{}
			for _, c := range all.cases {
				parts[c.Part]++
			}
			if len(parts) != len(Parts) {
				t.Errorf("%s, quick %v: %v", place, quick, parts)
			}
			if z := all.sizes; z.Large%z.Region != 0 || z.Cache*4 > z.Shared {
				t.Errorf("%s, quick %v: %+v", place, quick, z)
			}
			if want := all.sizes.Large + all.sizes.Shared; all.bytes() < want+2*all.sizes.Own {
				t.Errorf("%s, quick %v: room for %d bytes", place, quick, all.bytes())
			}
			all.sizes.Alone, all.sizes.Slow = 7, 12345
			files := readFiles{large: work.RecordFile{Path: "l"}, shared: work.RecordFile{Path: "s"}, own: make([]work.RecordFile, 8)}
			for i := range files.own {
				files.own[i].Path = string(rune('0' + i))
			}
			for _, c := range all.cases {
				checkJobs(t, c, all.jobs(c, files))
				for _, method := range []string{methodRegions, methodStream} {
					if limit := all.limit(c, method); (limit > 0) != (c.Part == partShared || c.Part == partSpread) || limit > all.sizes.Shared && !quick {
						t.Errorf("%v, %s: a limit of %d", c, method, limit)
					}
				}
			}
			one := (&Options{Only: []string{partSlow}, Options: trial.Options{Quick: quick}}).planRead(place)
			if len(one.cases) != 1 || one.slowConsumers() != one.cases[0].Consumers {
				t.Errorf("only slow: %+v", one.cases)
			}
		}
	}
}

func checkJobs(t *testing.T, c Case, jobs []readJob) {
	t.Helper()
	files, slow := map[string]bool{}, 0
	for i, j := range jobs {
		files[j.file.Path] = true
		if j.slow > 0 {
			slow++
		}
		if (j.after > 0) != (c.Part == partSpread && i > 0) || i > 0 && c.Part == partSpread && j.after <= jobs[i-1].after {
			t.Errorf("%v: job %d comes after %v", c, i, j.after)
		}
	}
	want := map[string]int{partOwn: c.Jobs}[c.Part]
	if want == 0 {
		want = 1
	}
	if len(jobs) != c.Jobs || len(files) != want || slow > 0 != (c.Part == partSlow) {
		t.Errorf("%v: %d jobs on %d files, %d slow", c, len(jobs), len(files), slow)
	}
}

// modelReader returns what a run might have measured, with three repeats in which the
// machine is faster each time.
func modelReader() *Results {
	r := &Results{Circumstances: trial.Circumstances{Version: trial.ResultsVersion, Experiment: experimentName, Repeats: 3, Complete: true}}
	model := slowdisk.HardDisk()
	r.Model = &model
	r.Calibration = []Calibration{{0, 0.62, 0.6, 32 << 20, 32, 32}, {1, 7, 6.9, 1 << 30, 1, 1024}, {16, 14, 13.9, 1 << 30, 512, 1024}}
	for _, place := range rig.DiskNames {
		plan := (&Options{Only: Parts}).planRead(place)
		plan.sizes.Plain, plan.sizes.Slow, plan.sizes.About = 150e6, 4e6, "a disk"
		r.Sizes = append(r.Sizes, plan.sizes)
		for repeat := range 3 {
			machine := 1 + 0.01*float64(repeat)
			add := func(c Case, method string, bytes int64, speed float64, seeks int64, read float64, cpu float64) {
				x := Run{Place: place, Case: c, Method: method, Repeat: repeat, Bytes: bytes * int64(c.Jobs), Size: bytes}
				if c.Part == partOwn {
					x.Size = x.Bytes
				}
				x.Took = float64(x.Bytes) / (speed * machine)
				x.Disk = rig.DiskCount{Read: int64(read * float64(x.Size)), Seeks: seeks, Requests: 100, Busy: x.Took * 0.9}
				x.Own = 0.2 * float64(x.Bytes) / 1e9
				x.CPU = x.Own + cpu*float64(x.Bytes)/1e9
				for i := range c.Consumers {
					x.Ends = append(x.Ends, x.Took*(1-0.01*float64(i)))
				}
				r.Runs = append(r.Runs, x)
			}
			add(Case{partConsumers, 1, 1}, methodPlain, 2<<30, 150e6, 3, 1, 0)
			for _, c := range plan.cases {
				slow := 1 + float64(c.Jobs*c.Consumers)/16
				add(c, methodRegions, 1<<30, 150e6/slow, 300, 1.2, 0.01)
				add(c, methodStream, 1<<30, 148e6*math.Sqrt(float64(c.Jobs))*1.1, 4, 1, 0.4)
			}
		}
	}
	r.Runs[5].Failure, r.Runs[5].Took = "no reason", 0
	return r
}

func readingAimNamed(t *testing.T, r *Results, name string) sample.Aim {
	t.Helper()
	var found []sample.Aim
	for _, a := range r.aims() {
		if strings.Contains(a.What, name) {
			found = append(found, a)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d aims %q", len(found), name)
	}
	return found[0]
}

// The aims of the modelled results, and what makes each of them be missed.
func TestReadAims(t *testing.T) {
	worst := func(x *Run, part string, n int) bool {
		return x.Method == methodStream && x.Part == part && (x.Jobs == n || x.Consumers == n && part == partConsumers)
	}
	for _, c := range []struct {
		aim, where string
		value      float64
		spoil      func(*Run)
	}{
		{"throughput of the stream, over cat", "16 consumers of one file", 1.0853, func(x *Run) {
			if worst(x, partConsumers, 16) {
				x.Took *= 1.2
			}
		}},
		{"seeks per second of the stream", "16 consumers of one file", 4 / (float64(1<<30) / (148e6 * 1.1 * 1.01)), func(x *Run) {
			if worst(x, partConsumers, 16) {
				x.Disk.Seeks = 100
			}
		}},
		{"modelled disk, two jobs at once", "", 1, func(x *Run) {
			if worst(x, partShared, 2) {
				x.Disk.Read = x.Disk.Read * 11 / 10
			}
		}},
		{"real device, two jobs at once", "", 1, func(x *Run) {
			if worst(x, partShared, 2) {
				x.Disk.Read = x.Disk.Read * 11 / 10
			}
		}},
		{"jobs one after another", "8 jobs one after another on one file", 148.0 / 150 * 1.1 * math.Sqrt(8) * 2, func(x *Run) {
			if worst(x, partSpread, 8) {
				x.Took *= 3
			}
		}},
		{"real device: throughput", "1 consumer of one file", 148.0 / 150 * 1.1 * (1 + 1.0/16), func(x *Run) {
			if worst(x, partConsumers, 1) && x.Consumers == 1 {
				x.Took *= 1.3
			}
		}},
		{"seconds of CPU", "1 consumer of one file", 0.4, func(x *Run) {
			if worst(x, partConsumers, 1) && x.Consumers == 1 {
				x.CPU *= 2
			}
		}},
	} {
		r := modelReader()
		a := readingAimNamed(t, r, c.aim)
		if verdict, _ := a.Verdict(); verdict != "met" || a.Where != c.where || math.Abs(a.Value.Median/c.value-1) > 0.001 {
			t.Errorf("%s: %.4f %s at %q, want %.4f met at %q", c.aim, a.Value.Median, verdict, a.Where, c.value, c.where)
		}
		for i := range r.Runs {
			c.spoil(&r.Runs[i])
		}
		a = readingAimNamed(t, r, c.aim)
		if verdict, _ := a.Verdict(); verdict != "missed" {
			t.Errorf("%s: %.4f %s, want it missed", c.aim, a.Value.Median, verdict)
		}
	}
}

// Without a measurement there is no verdict, and a report all the same.
func TestReadReportOfLittle(t *testing.T) {
	full := modelReader()
	for what, keep := range map[string]func(Run) bool{
		"nothing":        func(Run) bool { return false },
		"only cat":       func(x Run) bool { return x.Method == methodPlain },
		"no cat":         func(x Run) bool { return x.Method != methodPlain },
		"no regions":     func(x Run) bool { return x.Method != methodRegions },
		"one run":        func(x Run) bool { return x.Repeat == 1 && x.Part == partSlow && x.Method == methodStream },
		"no streams":     func(x Run) bool { return x.Method != methodStream },
		"only one place": func(x Run) bool { return x.Place == rig.Device },
	} {
		r := &Results{Circumstances: full.Circumstances, Sizes: full.Sizes, Runs: runs(full.Runs).where(keep)}
		if err := trial.WriteTables(io.Discard, report.Terminal{}, r); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if err := r.Page().WriteHTML(io.Discard); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		for _, a := range r.aims() {
			if verdict, _ := a.Verdict(); math.IsNaN(a.Value.Median) != (verdict == "not measured") {
				t.Errorf("%s: %s: %v %s", what, a.What, a.Value, verdict)
			}
		}
	}
}

// Seeks that nobody counts are not zero.
func TestUnknownSeeks(t *testing.T) {
	x := Run{Took: 1, Disk: rig.DiskCount{Read: 1e9, Seeks: disks.UnknownSeeks}}
	if v := seekRate(x); !math.IsNaN(v) {
		t.Errorf("%v seeks per second", v)
	}
	if v := seeksFor100MB(x); !math.IsNaN(v) {
		t.Errorf("%v seeks for 100 MB", v)
	}
	c := rig.DiskCount{Read: 10, Seeks: disks.UnknownSeeks, Requests: 5}
	if got, want := c.Since(rig.DiskCount{Read: 3, Seeks: disks.UnknownSeeks, Requests: 1}), (rig.DiskCount{Read: 7, Seeks: disks.UnknownSeeks, Requests: 4}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	x.Disk.Seeks = 20
	if a, b := seekRate(x), seeksFor100MB(x); a != 20 || b != 2 {
		t.Errorf("%v seeks per second, %v for 100 MB", a, b)
	}
}

// The report can be made again from the file.
func TestReadResultsAsJSON(t *testing.T) {
	r := modelReader()
	path := filepath.Join(t.TempDir(), "read.json")
	if err := trial.WriteResults(path, r); err != nil {
		t.Fatal(err)
	}
	back := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(path, back); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(r, back) {
		a, _ := json.Marshal(r)
		b, _ := json.Marshal(back)
		t.Errorf("read back other results:\n%.2000s\n%.2000s", a, b)
	}
	var out bytes.Buffer
	o := Options{Options: trial.Options{From: path, HTML: filepath.Join(t.TempDir(), "x.html"), Output: trial.Output{Stdout: &out, Stderr: io.Discard}}}
	if err := Measure(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"16 consumers of one file", "own regions", "8 consumers, one of them slow", "1, random 1 MiB", "met"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
}

func TestQuickRead(t *testing.T) {
	labtest.NeedModelledDisk(t)
	o := Options{Options: labtest.QuickRun(t, "read")}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, o.Dir)
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	if err := trial.ReadResults(o.JSON, res); err != nil {
		t.Fatal(err)
	}
	labtest.CheckRemarks(t, &res.Circumstances)
	for _, place := range res.places() {
		at := res.at(place)
		for _, c := range (&Options{Only: Parts, Options: trial.Options{Quick: true}}).planRead(place).cases {
			for _, method := range []string{methodRegions, methodStream} {
				if n := len(at.of(c).by(method)); n != 1 {
					t.Errorf("%s, %v, %s: %d runs", place, c, method, n)
				}
			}
		}
		for _, x := range at {
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			// A process counts from its start, which is before it enters the cgroup.
			const rounding, entering = 1e-5, 0.003
			if x.Took <= 0 || x.Disk.Read < x.Size || x.CPU < x.Own-entering*float64(len(x.Ends)) || x.Own <= 0 || len(x.Ends) < x.Jobs || lastEnd(x) > x.Took+rounding {
				t.Errorf("%s", text)
			}
			if place != rig.Modelled {
				continue
			}
			m := res.Model
			least := (m.Service(x.Disk.Read, false) + time.Duration(x.Disk.Seeks)*(m.Seek+m.Rotation)).Seconds()
			if busy := headBusy(x); x.Disk.Seeks < 1 || x.Instrument <= 0 || x.Disk.Busy < least*(1-rounding) || !(busy < 1.05) {
				t.Errorf("the modelled disk, busy for at least %v: %s", least, text)
			}
		}
	}
	// What a stream is for: fewer seeks on the disk that has them.
	seeks := func(method string) float64 {
		return res.at(rig.Modelled).of(Case{partConsumers, 1, 4}).by(method).spread(seeksFor100MB).Median
	}
	if a, b := seeks(methodRegions), seeks(methodStream); !(a > 3*b) {
		t.Errorf("4 consumers: %.1f seeks for 100 MB with own regions, %.1f from a stream", a, b)
	}
}

// Interrupted in the middle, a run cleans up and reports what it has.
func TestInterruptedRead(t *testing.T) {
	labtest.NeedModelledDisk(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupt := errors.New("interrupted")
	o := Options{Options: labtest.QuickRun(t, "read"), Places: []string{rig.Modelled}, Only: []string{partConsumers}}
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
