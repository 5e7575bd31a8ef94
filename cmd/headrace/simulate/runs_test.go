package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headrace/cli"
	"headrace/cmd/headrace/outfile"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// fakeRuns stands in for sim.Run.
type fakeRuns struct {
	mu      sync.Mutex
	began   []string
	running atomic.Int32
	most    atomic.Int32
	become  func(policy.Name, *sim.Result) // may be nil
	fail    string                         // the run that fails
	meet    *sync.WaitGroup                // all runs wait for each other
}

func (f *fakeRuns) run(ctx context.Context, w *trace.Workload, c sim.Config, progress func(sim.Progress)) (*sim.Result, error) {
	name := fmt.Sprintf("%s on %s", c.Policy.Policy, c.Medium.Name)
	f.mu.Lock()
	f.began = append(f.began, name)
	f.mu.Unlock()
	if n := f.running.Add(1); n > f.most.Load() {
		f.most.Store(n)
	}
	defer f.running.Add(-1)
	if f.meet != nil {
		f.meet.Done()
		f.meet.Wait()
	}
	if name == f.fail || f.fail == "all" {
		return nil, errors.New("it fell over")
	}
	progress(sim.Progress{At: time.Hour, Span: 2 * time.Hour, Ended: 1, Tasks: 2})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r := &sim.Result{Policy: c.Policy.Policy, Medium: c.Medium.Name, Config: c, Tasks: 2}
	if f.become != nil {
		f.become(c.Policy.Policy, r)
	}
	return r, nil
}

func tryRuns(ctx context.Context, f *fakeRuns, jobs int, policies ...policy.Name) (found []string, said string, err error) {
	media := []string{"hdd", "ssd", "nvm"}
	var out bytes.Buffer
	s := simulation{workload: &trace.Workload{}, groups: planRuns(policies, media), jobs: jobs, run: f.run,
		configure: func(r simRun) (c sim.Config, err error) {
			c.Policy.Policy, c.Medium.Name = r.policy, r.medium
			return c, nil
		},
		watch: &simWatch{bar: report.NewProgress(&out, false), out: &out, now: func() time.Time { return time.Unix(0, 0) }}}
	s.watch.todo = 3 * len(policies)
	results, err := s.results(ctx)
	for _, r := range results {
		found = append(found, fmt.Sprintf("%s on %s", r.Policy, r.Medium))
	}
	return found, out.String(), err
}

func TestWhatIsRun(t *testing.T) {
	for _, c := range []struct {
		policies []policy.Name
		resident bool // what is suspended stays in memory
		want     string
	}{
		{[]policy.Name{policy.Kill}, true, "kill on hdd"},
		{[]policy.Name{policy.Wait, policy.Kill}, true, "wait on hdd, kill on hdd"},
		{[]policy.Name{policy.Suspend}, true, "suspend on hdd"},
		{[]policy.Name{policy.Suspend}, false, "suspend on hdd, suspend on ssd, suspend on nvm"},
		{[]policy.Name{policy.Cost, policy.Kill}, true, "cost on hdd, cost on ssd, cost on nvm, kill on hdd"},
		{[]policy.Name{policy.Adaptive}, true, "adaptive on hdd, adaptive on ssd, adaptive on nvm"},
	} {
		for jobs := 1; jobs <= 4; jobs++ {
			// Only suspend is asked: that a policy did not checkpoint on a slow medium does not
			// mean that it would not on a fast one.
			f := &fakeRuns{become: func(p policy.Name, r *sim.Result) {
				if p == policy.Suspend && !c.resident {
					r.UsesMedium = true
				}
			}}
			found, _, err := tryRuns(t.Context(), f, jobs, c.policies...)
			if got := strings.Join(found, ", "); err != nil || got != c.want {
				t.Errorf("%v, %d at a time: %s, %v, want %s", c.policies, jobs, got, err, c.want)
			}
			slices.Sort(f.began)
			if n := len(slices.Compact(f.began)); n != len(found) {
				t.Errorf("%v: %d results of %d runs", c.policies, len(found), n)
			}
		}
	}
}

func TestRunsAtATime(t *testing.T) {
	f := &fakeRuns{meet: new(sync.WaitGroup)}
	f.meet.Add(3)
	if _, _, err := tryRuns(t.Context(), f, 3, policy.Cost); err != nil || f.most.Load() != 3 {
		t.Errorf("%d at a time, %v, want 3", f.most.Load(), err)
	}
	f = &fakeRuns{}
	if _, _, err := tryRuns(t.Context(), f, 1, policy.Names()...); err != nil || f.most.Load() != 1 {
		t.Errorf("%d at a time, %v, want 1", f.most.Load(), err)
	}
}

func TestARunThatFails(t *testing.T) {
	for jobs := 1; jobs <= 3; jobs++ {
		found, said, err := tryRuns(t.Context(), &fakeRuns{fail: "cost on ssd"}, jobs, policy.Kill, policy.Cost)
		if want := "kill on hdd, cost on hdd, cost on nvm"; err == nil || err.Error() != "cost on ssd: it fell over" || strings.Join(found, ", ") != want {
			t.Errorf("%d at a time: %v, %v, want the other results", jobs, found, err)
		}
		if strings.Contains(said, "cost on ssd") {
			t.Errorf("said %q of a run that failed", said)
		}
	}
	found, _, err := tryRuns(t.Context(), &fakeRuns{fail: "suspend on hdd", become: func(_ policy.Name, r *sim.Result) { r.UsesMedium = true }}, 1, policy.Suspend)
	if err == nil || err.Error() != "suspend on hdd: it fell over" || len(found) != 2 {
		t.Errorf("%v, %v when the first of a group fails", found, err)
	}
	found, _, err = tryRuns(t.Context(), &fakeRuns{fail: "all"}, 2, policy.Kill, policy.Cost)
	if err == nil || err.Error() != "it fell over" || found != nil {
		t.Errorf("%v, %v when all fail", found, err)
	}
}

func TestInterruptedRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	found, _, err := tryRuns(ctx, &fakeRuns{}, 2, policy.Kill, policy.Cost)
	if code, line := cli.Outcome(outfile.NothingWritten(ctx, err)); found != nil || code != cli.ExitInterrupted || line != "interrupted: nothing was written" {
		t.Errorf("%v, %d, %s", found, code, line)
	}
}

func TestInterruptDoesNotWaitForRuns(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &fakeRuns{meet: new(sync.WaitGroup)}
	f.meet.Add(2) // the run waits for another one
	time.AfterFunc(0, cancel)
	if found, _, err := tryRuns(ctx, f, 1, policy.Kill); found != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", found, err)
	}
}

func TestWatchOfRuns(t *testing.T) {
	_, said, err := tryRuns(t.Context(), &fakeRuns{}, 1, policy.Kill, policy.Checkpoint)
	want := "kill: 2 tasks in 0s, 0/s\ncheckpoint on hdd: 2 tasks in 0s, 0/s\ncheckpoint on ssd: 2 tasks in 0s, 0/s\ncheckpoint on nvm: 2 tasks in 0s, 0/s\n"
	if err != nil || said != want {
		t.Errorf("%v, said\n%s\nwant\n%s", err, said, want)
	}

	var out bytes.Buffer
	now := time.Unix(1000, 0)
	w := &simWatch{bar: report.NewProgress(&out, true), out: &out, now: func() time.Time { return now }, todo: 2}
	w.bar.Terminal = report.Terminal{Width: 120, ASCII: true}
	a := w.begin(simRun{policy: policy.Cost, medium: "ssd"})
	b := w.begin(simRun{policy: policy.Kill, alone: true})
	now = now.Add(10 * time.Second)
	w.at(a, sim.Progress{At: 38*time.Hour + 5*time.Minute, Ended: 300_000, Tasks: 600_000})
	doing := "cost on ssd: day 2 14:05, 300,000 of 600,000 tasks, 30,000/s"
	if share, text := w.state(); share != 0.25 || text != doing+" (and 1 more)" {
		t.Errorf("%v, %q", share, text)
	}
	w.end(b, &sim.Result{Tasks: 1234567})
	if want := "kill: 1,234,567 tasks in 10.0s, 123,456/s\n"; !strings.Contains(out.String(), want) {
		t.Errorf("%q, want %q in it", out.String(), want)
	}
	if share, text := w.state(); share != 0.75 || text != doing {
		t.Errorf("%v, %q", share, text)
	}
	w.end(a, &sim.Result{})
}
