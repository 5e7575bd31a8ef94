package labtest

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/lab/belong"
	"headrace/lab/rig"
	"headrace/lab/slowdisk"
	"headrace/lab/trial"
	"headrace/report"
)

// Rewrite has golden files written instead of compared.
var Rewrite = flag.Bool("rewrite", false, "write the golden files of testdata")

// NeedRoot skips a test that makes swap files, loop devices or mounts.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: makes swap files, loop devices, mounts")
	}
}

// NeedModelledDisk skips a test where there can be none.
func NeedModelledDisk(t testing.TB) {
	t.Helper()
	if err := slowdisk.Check(); err != nil {
		t.Skip(err)
	}
}

// BuiltPrograms builds them all.
func BuiltPrograms(t testing.TB) rig.Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a minute; not with -short")
	}
	return rig.Programs{Headrace: testkit.Headrace(t), Lab: testkit.Lab(t)}
}

// QuickRun returns the options of a run that only goes through everything.
func QuickRun(t testing.TB, name string) trial.Options {
	t.Helper()
	dir := t.TempDir()
	return trial.Options{Quick: true, Dir: dir, Programs: BuiltPrograms(t), JSON: filepath.Join(dir, name+".json"), HTML: filepath.Join(dir, name+".html"),
		Output: trial.Output{Stdout: io.Discard, Stderr: io.Discard}}
}

// QuickClusterRun is a QuickRun of a cluster, in a directory whose path is short, as those of sockets
// must be.
func QuickClusterRun(t testing.TB, name string) trial.Options {
	t.Helper()
	run := QuickRun(t, name)
	dir, err := os.MkdirTemp("", "hr")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	run.Dir = dir
	return run
}

// LeftNothing fails if anything of a run is still on the machine.
func LeftNothing(t testing.TB, dir string) {
	t.Helper()
	if left, _ := filepath.Glob(filepath.Join(dir, rig.ScratchPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	swaps, err := rig.SwapFiles()
	if err != nil {
		t.Fatal(err)
	}
	points, err := linux.ProcFS("").MountedIn("self", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(swaps, points...) {
		if belong.Below(dir, path) {
			t.Errorf("still in use: %s", path)
		}
	}
}

// CheckRemarks fails for runs that have failed, and when not all was run on a modelled
// disk.
func CheckRemarks(t testing.TB, c *trial.Circumstances) {
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

// CheckReport compares a report with the golden files of testdata.
func CheckReport(t testing.TB, r trial.Results, name string) {
	t.Helper()
	CheckGolden(t, name+".txt", func(w io.Writer) error { return trial.WriteTables(w, report.Terminal{}, r) })
	CheckGolden(t, name+".md", func(w io.Writer) error { return trial.WriteTablesMarkdown(w, r) })
	var page bytes.Buffer
	if err := r.Page().WriteHTML(&page); err != nil || !bytes.Contains(page.Bytes(), []byte("<svg")) {
		t.Errorf("the page: %d bytes, %v", page.Len(), err)
	}
}

// CheckGolden compares what write writes with a file of testdata.
func CheckGolden(t testing.TB, name string, write func(io.Writer) error) {
	t.Helper()
	CheckFile(t, filepath.Join("testdata", name), write)
}

// CheckFile compares what write writes with a file, or makes it that file with -rewrite.
func CheckFile(t testing.TB, path string, write func(io.Writer) error) {
	t.Helper()
	var got bytes.Buffer
	if err := write(&got); err != nil {
		t.Fatal(err)
	}
	if *Rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s differs; run with -rewrite and look at the difference. Got:\n%.3000s", path, got.Bytes())
	}
}

// A Trigger calls Pull when a word has been written so many times. Of a run that
// tells what it begins, the second time is after the end of the first.
type Trigger struct {
	Word  string
	Times int
	Pull  func()
	seen  bytes.Buffer
}

// Write counts.
func (w *Trigger) Write(b []byte) (int, error) {
	w.seen.Write(b)
	if bytes.Count(w.seen.Bytes(), []byte(w.Word)) >= w.Times {
		w.Pull()
	}
	return len(b), nil
}

// ModelStart is when a made-up run began.
var ModelStart = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)

// ModelCircumstances returns those of a made-up run on a made-up disk.
func ModelCircumstances(experiment string) trial.Circumstances {
	return trial.Circumstances{Version: trial.ResultsVersion, Experiment: experiment, Command: "headrace-lab bench " + experiment, Started: ModelStart,
		Took: 300, Complete: true, Machine: rig.Machine{Processor: "Model", Processors: 2, Memory: 8e9, Kernel: "6.18", System: "Linux", Go: "go1.26", Headrace: "model"},
		Seed: 1, Repeats: 3, Disk: "a model of a model"}
}
