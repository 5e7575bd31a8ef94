package preempt

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"headrace/internal/testkit"
	"headrace/lab/belong"
	"headrace/lab/labtest"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }

func TestQuickRun(t *testing.T) {
	testkit.Long(t)
	labtest.NeedRoot(t)
	dir := t.TempDir()
	o := Options{Size: 24 << 20, Options: trial.Options{Quick: true, Repeats: 1, Dir: dir, Programs: labtest.BuiltPrograms(t),
		JSON: filepath.Join(dir, "r.json"), HTML: filepath.Join(dir, "r.html"), Output: trial.Output{Stdout: io.Discard, Stderr: io.Discard}}}
	if err := Measure(t.Context(), o); err != nil {
		t.Error(err)
	}
	labtest.LeftNothing(t, dir)
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
	canCheckpoint := !slices.ContainsFunc(res.Skipped, func(s trial.Skip) bool { return s.What == "everything with checkpoints" })
	if !canCheckpoint && os.Getenv("HEADRACE_CRIU") != "" {
		t.Error("HEADRACE_CRIU is set, and checkpoints were left out")
	}
	checkRuns(t, res, canCheckpoint)
}

// checkRuns looks at what does not depend on how busy the machine is.
func checkRuns(t *testing.T, res *Results, canCheckpoint bool) {
	t.Helper()
	light := res.good(ExpLight)
	for _, policy := range []string{"wait", "kill", "suspend"} {
		mine := light.By(policy)
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
	if mine := light.By("checkpoint"); len(mine) != 1 || mine[0].Mechanism != "checkpoint" || mine[0].Dumped <= 0 || mine[0].Restored <= 0 {
		t.Errorf("(a) checkpoint: %+v", mine)
	}
	for _, d := range res.Dumps {
		if d.Failure == "" && (d.SecondBytes <= 0 || d.fewer() < 3) {
			t.Errorf("(d) %s at %s: first %d bytes, second %d", d.Pattern, d.Store, d.FirstBytes, d.SecondBytes)
		}
	}
	if len(res.dumpGroups()) == 0 || len(res.good(expStorage).By("checkpoint")) == 0 {
		t.Error("(c) or (d) has no results")
	}
}

// Interrupted in the middle, a run cleans up and reports what it has.
func TestInterruptedRun(t *testing.T) {
	labtest.NeedRoot(t)
	dir := t.TempDir()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	interrupt := errors.New("interrupted")
	said := &labtest.Trigger{Word: "repeat 1 of 50", Times: 2, Pull: func() { cancel(interrupt) }}
	o := Options{Size: 16 << 20, Only: []string{"a"}, Options: trial.Options{Quick: true, Repeats: 50, Dir: dir, Programs: labtest.BuiltPrograms(t),
		JSON: filepath.Join(dir, "r.json"), Output: trial.Output{Stdout: io.Discard, Stderr: said, Live: true, Terminal: report.Terminal{Width: 200}}}}
	err := Measure(ctx, o)
	if !errors.Is(err, interrupt) {
		t.Fatalf("%v, want that it was interrupted", err)
	}
	labtest.LeftNothing(t, dir)
	res, err := resultsOf(o.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if res.Complete || len(res.Runs) == 0 {
		t.Errorf("complete %v with %d runs; want some, and incomplete", res.Complete, len(res.Runs))
	}
}

// When a daemon is killed, its tasks run on: they are ended before the next run,
// and that gets a daemon of its own.
func TestKilledDaemon(t *testing.T) {
	labtest.NeedRoot(t)
	dir := t.TempDir()
	h := &rig.Bench{Dir: dir, Programs: labtest.BuiltPrograms(t), Seed: 1, Progress: report.NewProgress(io.Discard, false)}
	err := h.With(func() error {
		text, err := h.RandomText(1 << 20)
		if err != nil {
			return err
		}
		forever := []string{"parse", "--file", text, "--bytes", "1000G"}
		short, err := h.Reference(t.Context(), []string{"parse", "--file", text}, rig.TaskOverhead)
		if err != nil {
			return err
		}
		config := rig.DaemonConfig{Policy: "wait", Memory: 256 << 20, Enforce: true}
		d, err := h.Daemon(t.Context(), config)
		if err != nil {
			return err
		}
		var groups []string
		killed := Pair{Low: rig.Job{Args: forever, Memory: rig.TaskOverhead}, Urgent: short, Began: func(_, urgent string) {
			if urgent != "" {
				for _, p := range processesOf(t, d.Dir) {
					groups = append(groups, rig.OwnGroups(p)...)
				}
				d.Cmd.Process.Kill()
			}
		}}
		if _, err := (entry{config: config, trial: killed}).once(t.Context(), h); err == nil {
			t.Error("a run without its daemon has succeeded")
		}
		if left := processesOf(t, d.Dir); len(left) > 0 {
			t.Errorf("still running: %v", left)
		}
		if len(groups) == 0 {
			t.Error("the task was in no memory cgroup")
		}
		for _, g := range groups {
			if rig.IsDir(g) {
				t.Errorf("still there: %s", g)
			}
		}
		r, err := entry{config: config, trial: Pair{Low: short, Urgent: short}}.once(t.Context(), h)
		if err != nil || r.Sojourn <= 0 {
			t.Errorf("the next run: %+v, %v", r, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	labtest.LeftNothing(t, dir)
}

// processesOf returns those that belong to a directory.
func processesOf(t *testing.T, dir string) []int {
	t.Helper()
	pids, err := belong.Processes(dir)
	if err != nil {
		t.Fatal(err)
	}
	return pids
}
