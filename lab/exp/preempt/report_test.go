package preempt

import (
	"bytes"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/report"
)

// recorded returns the results in testdata, which the model has made.
func recorded(t *testing.T) *Results {
	t.Helper()
	path := filepath.Join("testdata", "results.json")
	if *labtest.Rewrite {
		if err := trial.WriteResults(path, modelResults()); err != nil {
			t.Fatal(err)
		}
	}
	res, err := resultsOf(path)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func resultsOf(path string) (*Results, error) {
	r := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	return r, trial.ReadResults(path, r)
}

func TestReportFromFile(t *testing.T) {
	res := recorded(t)
	for name, write := range map[string]func(io.Writer) error{
		"report.txt":  func(w io.Writer) error { return trial.WriteTables(w, report.Terminal{}, res) },
		"report.md":   func(w io.Writer) error { return trial.WriteTablesMarkdown(w, res) },
		"report.html": res.Page().WriteHTML,
	} {
		labtest.CheckGolden(t, name, write)
	}
}

func TestResultsSurviveTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir", "results.json")
	want := modelResults()
	for _, path := range []string{path + ".gz", path} {
		if err := trial.WriteResults(path, want); err != nil {
			t.Fatal(err)
		}
		got, err := resultsOf(path)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: what was read is not what was written", path)
		}
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "{", strings.Replace(string(text), `"version": 1`, `"version": 99`, 1)} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := resultsOf(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q: %v, want an error with the name of the file", bad, err)
		}
		if err := os.Rename(path, path+".gz"); err != nil {
			t.Fatal(err)
		}
		if _, err := resultsOf(path + ".gz"); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%.20q, said to be packed: %v, want an error with the name of the file", bad, err)
		}
	}
}

func TestFromMakesTheReportAgain(t *testing.T) {
	dir := t.TempDir()
	from, page, tables := filepath.Join(dir, "r.json"), filepath.Join(dir, "out", "r.html"), filepath.Join(dir, "r.md")
	if err := trial.WriteResults(from, modelResults()); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err := Measure(t.Context(), Options{Options: trial.Options{From: from, HTML: page, Markdown: tables, Output: trial.Output{Stdout: &out, Stderr: io.Discard}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{page, tables} {
		if info, err := os.Stat(path); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", path, err)
		}
		if !strings.Contains(out.String(), path) {
			t.Errorf("the output does not name %s", path)
		}
	}
}

// aimNamed returns the aim whose name begins so.
func aimNamed(t *testing.T, r *Results, name string) sample.Aim {
	t.Helper()
	for _, a := range r.aims() {
		if strings.HasPrefix(a.What, name) {
			return a
		}
	}
	t.Fatalf("no aim %q", name)
	return sample.Aim{}
}

func verdict(a sample.Aim) string {
	v, _ := a.Verdict()
	return v
}

func TestAims(t *testing.T) {
	r := modelResults()
	for _, c := range []struct {
		name    string
		value   float64
		verdict string
		where   string
	}{
		{"suspend: sojourn", 1, "met", "10 % done"},
		{"cost: weighted", 1, "met", "100 MB/s, best kill"},
		{"second checkpoint: bytes", 540e6 / 54.1e6, "met", "100 MB/s, spread pages"},
		{"second checkpoint: time", 7.6033, "met", "100 MB/s, spread pages"},
	} {
		a := aimNamed(t, r, c.name)
		if math.Abs(a.Value.Median-c.value) > 0.002 || verdict(a) != c.verdict || a.Where != c.where {
			t.Errorf("%s: %.4f %s at %q, want %.4f %s at %q", c.name, a.Value.Median, verdict(a), a.Where, c.value, c.verdict, c.where)
		}
	}
}

// Every aim must be able to fail, and the worst point must decide.
func TestAimsCanBeMissed(t *testing.T) {
	spoil := func(experiment, policy string, at func(Point) bool, change func(*Run)) *Results {
		r := modelResults()
		for i := range r.Runs {
			if run := &r.Runs[i]; run.Experiment == experiment && run.Policy == policy && run.Failure == "" && at(run.Point) {
				change(run)
			}
		}
		return r
	}
	late := func(p Point) bool { return p.Share == 0.9 }
	for _, c := range []struct {
		aim, where string
		res        *Results
	}{
		{"suspend: sojourn", "90 % done", spoil(ExpLight, "suspend", late, func(r *Run) { r.Sojourn *= 1.04 })},
		{"suspend: makespan", "90 % done", spoil(ExpLight, "suspend", late, func(r *Run) { r.Makespan *= 1.04 })},
		{"cost: weighted", "memory, best checkpoint", spoil(expStorage, "cost", func(p Point) bool { return p.Store == rig.StoreMemory }, func(r *Run) { r.Makespan *= 1.2 })},
	} {
		a := aimNamed(t, c.res, c.aim)
		if verdict(a) != "missed" || a.Where != c.where {
			t.Errorf("%s: %.4f %s at %q, want it missed at %q", c.aim, a.Value.Median, verdict(a), a.Where, c.where)
		}
	}

	r := modelResults()
	for i := range r.Dumps {
		if r.Dumps[i].Store == rig.StoreName(100e6) {
			r.Dumps[i].SecondBytes *= 2
			r.Dumps[i].Second *= 3
		}
	}
	for _, name := range []string{"second checkpoint: bytes", "second checkpoint: time"} {
		if a := aimNamed(t, r, name); verdict(a) != "missed" {
			t.Errorf("%s: %.2f %s, want it missed", name, a.Value.Median, verdict(a))
		}
	}
}

// Without a measurement there is no verdict.
func TestAimsThatWereNotMeasured(t *testing.T) {
	r := modelResults()
	r.Runs = r.good(ExpLight).where(func(run Run) bool { return run.Policy != "kill" })
	a := aimNamed(t, r, "suspend: sojourn")
	if a.Measured() || verdict(a) != "not measured" {
		t.Errorf("without kill: %v %s", a.Value, verdict(a))
	}
	if a := aimNamed(t, r, "suspend: makespan"); !a.Measured() {
		t.Error("makespan needs no kill")
	}
	empty := &Results{}
	if n := len(empty.aims()); n != 0 {
		t.Errorf("%d aims of nothing", n)
	}
	var out bytes.Buffer
	if err := trial.WriteTables(&out, report.Terminal{}, empty); err != nil {
		t.Error(err)
	}
	if err := empty.Page().WriteHTML(io.Discard); err != nil {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for name, o := range map[string]Options{
		"experiment": {Only: []string{"a", "x"}},
		"repeats":    {Options: trial.Options{Repeats: -1}},
		"size":       {Size: 5},
		"from":       {Options: trial.Options{From: filepath.Join(t.TempDir(), "missing.json")}},
	} {
		o.Output = trial.Output{Stdout: io.Discard, Stderr: io.Discard}
		if err := Measure(t.Context(), o); err == nil {
			t.Errorf("wrong %s was accepted", name)
		}
	}
}
