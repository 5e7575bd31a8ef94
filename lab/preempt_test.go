package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headrace/internal/linux"
	"headrace/internal/testkit"
	"headrace/report"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }

// programs builds them all.
func programs(t *testing.T) Programs {
	t.Helper()
	if testing.Short() {
		t.Skip("takes a minute; not with -short")
	}
	return Programs{Headrace: testkit.Headrace(t), Lab: testkit.Lab(t)}
}

// leftNothing fails if anything of a run is still on the machine.
func leftNothing(t *testing.T, dir string) {
	t.Helper()
	for _, parent := range []string{dir, shm} {
		if left, _ := filepath.Glob(filepath.Join(parent, scratchPrefix+"*")); len(left) > 0 && parent == dir {
			t.Errorf("left behind: %v", left)
		}
	}
	swaps, err := swapFiles()
	if err != nil {
		t.Fatal(err)
	}
	points, err := linux.ProcFS("").MountedIn("self", dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(swaps, points...) {
		if below(dir, path) {
			t.Errorf("still in use: %s", path)
		}
	}
}

func TestQuickRun(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	o := PreemptOptions{Size: 24 << 20, RunOptions: RunOptions{Quick: true, Repeats: 1, Dir: dir, Programs: programs(t),
		JSON: filepath.Join(dir, "r.json"), HTML: filepath.Join(dir, "r.html"), Output: Output{Stdout: io.Discard, Stderr: io.Discard}}}
	if err := Preempt(t.Context(), o); err != nil {
		t.Error(err)
	}
	leftNothing(t, dir)
	res, err := resultsOf(o.JSON)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range res.Failures {
		t.Error(f)
	}
	for _, s := range res.Skipped {
		t.Logf("left out: %s: %s", s.What, s.Why)
	}
	canCheckpoint := !slices.ContainsFunc(res.Skipped, func(s Skip) bool { return s.What == "everything with checkpoints" })
	if !canCheckpoint && os.Getenv("HEADRACE_CRIU") != "" {
		t.Error("HEADRACE_CRIU is set, and checkpoints were left out")
	}
	checkRuns(t, res, canCheckpoint)
}

// checkRuns looks at what does not depend on how busy the machine is.
func checkRuns(t *testing.T, res *Results, canCheckpoint bool) {
	t.Helper()
	light := res.good(expLight)
	for _, policy := range []string{"wait", "kill", "suspend"} {
		mine := light.by(policy)
		if len(mine) != 1 || mine[0].Mechanism != policy {
			t.Errorf("(a) %s: %+v", policy, mine)
			continue
		}
		r := mine[0]
		if r.Sojourn <= 0 || r.Makespan < r.Sojourn || r.TaskCPU <= 0 {
			t.Errorf("(a) %s: sojourn %.3f s, makespan %.3f s, %.3f s of processor time", policy, r.Sojourn, r.Makespan, r.TaskCPU)
		}
		if last := r.Makespan > r.LowResponse; last != (policy == "wait") {
			t.Errorf("(a) %s: the urgent task was the last to end: %v", policy, last)
		}
		if lost := r.LostCPU > 0; lost != (policy == "kill") {
			t.Errorf("(a) %s: lost %.3f s of work", policy, r.LostCPU)
		}
	}
	if !canCheckpoint {
		return
	}
	if mine := light.by("checkpoint"); len(mine) != 1 || mine[0].Mechanism != "checkpoint" || mine[0].Dumped <= 0 || mine[0].Restored <= 0 {
		t.Errorf("(a) checkpoint: %+v", mine)
	}
	for _, d := range res.Dumps {
		if d.Failure == "" && (d.SecondBytes <= 0 || d.fewer() < 3) {
			t.Errorf("(d) %s at %s: first %d bytes, second %d", d.Pattern, d.Store, d.FirstBytes, d.SecondBytes)
		}
	}
	if len(res.dumpGroups()) == 0 || len(res.good(expStorage).by("checkpoint")) == 0 {
		t.Error("(c) or (d) has no results")
	}
}

// Interrupted in the middle, a run cleans up and reports what it has.
func TestInterruptedRun(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupt := errors.New("interrupted")
	said := &trigger{word: "repeat 1 of 50", times: 2, pull: func() { cancel(interrupt) }}
	o := PreemptOptions{Size: 16 << 20, Only: []string{"a"}, RunOptions: RunOptions{Quick: true, Repeats: 50, Dir: dir, Programs: programs(t),
		JSON: filepath.Join(dir, "r.json"), Output: Output{Stdout: io.Discard, Stderr: said, Live: true, Terminal: report.Terminal{Width: 200}}}}
	err := Preempt(ctx, o)
	if !errors.Is(err, interrupt) {
		t.Fatalf("%v, want that it was interrupted", err)
	}
	leftNothing(t, dir)
	res, err := resultsOf(o.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete || len(res.Runs) == 0 {
		t.Errorf("complete %v with %d runs; want some, and incomplete", res.Complete, len(res.Runs))
	}
}

// trigger calls pull when a word has been written so many times. Of a run that
// tells what it begins, the second time is after the end of the first.
type trigger struct {
	word  string
	times int
	pull  func()
	seen  bytes.Buffer
}

func (w *trigger) Write(b []byte) (int, error) {
	w.seen.Write(b)
	if bytes.Count(w.seen.Bytes(), []byte(w.word)) >= w.times {
		w.pull()
	}
	return len(b), nil
}

func TestQuickDemo(t *testing.T) {
	tree := t.TempDir()
	var text strings.Builder
	for i := range 60000 {
		text.WriteString("the quick brown fox jumps over ")
		text.WriteString(time.Duration(i).String())
		text.WriteByte('\n')
	}
	if err := os.WriteFile(filepath.Join(tree, "a.txt"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	o := DemoOptions{Size: 96 << 20, Text: tree, Dir: dir, Programs: programs(t), HTML: filepath.Join(dir, "out", "demo.html"),
		Output: Output{Stdout: &out, Stderr: io.Discard}}
	if err := Demo(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	leftNothing(t, dir)
	for _, want := range []string{"wait", "kill", "suspend", "checkpoint", "cost", o.HTML, "The answer, the same every time: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	if strings.Contains(out.String(), "FAILED") {
		t.Error(out.String())
	}
	if page, err := os.ReadFile(o.HTML); err != nil || !bytes.Contains(page, []byte("<svg")) {
		t.Errorf("the page: %d bytes, %v", len(page), err)
	}
}

// When a daemon is killed, its tasks run on: they are ended before the next run,
// and that gets a daemon of its own.
func TestKilledDaemon(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	h := &harness{dir: dir, programs: programs(t), seed: 1, progress: report.NewProgress(io.Discard, false)}
	err := h.with(func() error {
		text, err := h.randomText(1 << 20)
		if err != nil {
			return err
		}
		forever := []string{"parse", "--file", text, "--bytes", "1000G"}
		short, err := h.reference(t.Context(), []string{"parse", "--file", text}, taskOverhead)
		if err != nil {
			return err
		}
		config := daemonConfig{policy: "wait", memory: 256 << 20, enforce: true}
		d, err := h.daemon(t.Context(), config)
		if err != nil {
			return err
		}
		var groups []string
		killed := trial{low: job{args: forever, memory: taskOverhead}, urgent: short, began: func(_, urgent string) {
			if urgent != "" {
				for _, p := range processesOf(t, d.dir) {
					groups = append(groups, ownGroups(p)...)
				}
				d.cmd.Process.Kill()
			}
		}}
		if _, err := (entry{config: config, trial: killed}).once(t.Context(), h); err == nil {
			t.Error("a run without its daemon has succeeded")
		}
		if left := processesOf(t, d.dir); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
		if len(groups) == 0 {
			t.Error("the task was in no memory cgroup")
		}
		for _, g := range groups {
			if isDir(g) {
				t.Errorf("still there: %s", g)
			}
		}
		r, err := entry{config: config, trial: trial{low: short, urgent: short}}.once(t.Context(), h)
		if err != nil || r.Sojourn <= 0 {
			t.Errorf("the next run: %+v, %v", r, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	leftNothing(t, dir)
}

// processesOf are the programs of ours that use a directory.
func processesOf(t *testing.T, dir string) []string {
	t.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(procs, func(p string) bool { return !ours(p) || !usesDir(p, dir) })
}
