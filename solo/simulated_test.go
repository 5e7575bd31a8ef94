package solo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace"
	"headrace/internal/criu"
	"headrace/internal/testkit"
	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// recording is what a policy saw and ordered, live or simulated.
type recording struct {
	mu    sync.Mutex
	names map[headrace.TaskID]string // what tasks are called in steps
	views []headrace.View
	steps []string
}

// note adds one decision. Of the view a step has what both worlds must agree on: the
// tasks, their states and what they are on the way to; not what was measured.
func (r *recording) note(v *headrace.View, orders []headrace.Order) {
	r.mu.Lock()
	defer r.mu.Unlock()
	keep := *v
	keep.Nodes, keep.Tasks = slices.Clone(v.Nodes), slices.Clone(v.Tasks)
	r.views = append(r.views, keep)
	if len(orders) == 0 {
		return
	}
	var b strings.Builder
	for _, t := range v.Tasks {
		if !t.State.Final() {
			fmt.Fprintf(&b, "[%s %s p%d %v cpus, starting %v, leaving %v, preempted %d, saved %v, room %v] ",
				r.name(t.ID), t.State, t.Priority, t.CPUs, t.Starting, t.Leaving, t.Preemptions, t.Checkpoint != nil, t.Room != "")
		}
	}
	for _, o := range orders {
		fmt.Fprintf(&b, "-> %s %s", o.Verb, r.name(o.Task))
		if o.Verb == headrace.OrderPreempt {
			fmt.Fprintf(&b, " by %s for %s", o.Mechanism, r.name(o.For))
		}
	}
	// A daemon measures before somebody has to leave, and decides again.
	if step := b.String(); len(r.steps) == 0 || r.steps[len(r.steps)-1] != step {
		r.steps = append(r.steps, step)
	}
}

// name returns the order in which a task was seen first.
func (r *recording) name(id headrace.TaskID) string {
	if r.names[id] == "" {
		if r.names == nil {
			r.names = map[headrace.TaskID]string{}
		}
		r.names[id] = fmt.Sprint("task", len(r.names)+1)
	}
	return r.names[id]
}

// TestSimulatorDecidesTheSame runs an urgent task that pushes another one aside, with
// real processes, and simulates it. What the daemon's policy was shown, the
// simulator's planner decides in the same way; and from the submission of the first
// task to the end of the last both go through the same decisions.
func TestSimulatorDecidesTheSame(t *testing.T) {
	for _, name := range []policy.Name{policy.Wait, policy.Kill, policy.Suspend, policy.Checkpoint, policy.Cost} {
		t.Run(string(name), func(t *testing.T) {
			c := policy.Config{Policy: name, MinRun: policy.None}
			var live, simulated recording
			runLive(t, c, &live)
			runSimulated(t, c, &simulated)
			if !slices.Equal(live.steps, simulated.steps) {
				t.Errorf("decided live:\n  %s\nsimulated:\n  %s", strings.Join(live.steps, "\n  "), strings.Join(simulated.steps, "\n  "))
			}
			planner := policy.NewPlanner(c)
			for i := range live.views {
				got := planner.Decide(&live.views[i])
				if want := policy.Decide(live.views[i], c); !slices.Equal(got, want) {
					t.Errorf("view %d: the simulator's planner orders %v, the daemon's policy %v", i, got, want)
				}
			}
		})
	}
}

// runLive runs both tasks under a daemon in this process.
func runLive(t *testing.T, c policy.Config, r *recording) {
	m := newMachine(t, c.Policy)
	if c.Policy == policy.Checkpoint && !m.image {
		t.Skip("without root or CRIU there are no checkpoints")
	}
	cfg := Config{StateDir: m.cfg.StateDir, Shim: testkit.Shim(t), Slots: 1, Policy: c}
	if m.image {
		found, err := criu.Find()
		if err != nil {
			t.Fatal(err)
		}
		cfg.CRIU = found.Path
	}
	d, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	decide := d.parts.policy
	d.parts.policy = func(v headrace.View, explain bool) ([]headrace.Order, []policy.Note) {
		orders, notes := decide(v, explain)
		r.note(&v, orders)
		return orders, notes
	}
	b := bedOf(t, d)
	gated, goOn := m.gated(60)
	low := b.run(headrace.Low, gated)
	b.awaitState(low, headrace.Running)
	high := b.run(headrace.High, counter(10))
	if c.Policy != policy.Wait {
		b.awaitState(high, headrace.Done)
	}
	goOn()
	b.awaitState(high, headrace.Done)
	b.awaitState(low, headrace.Done)
	b.shutdown()
}

// bedOf starts d in this process and stops it at the end of the test.
func bedOf(t *testing.T, d *Daemon) *bed {
	b := &bed{t: t}
	if err := b.serve(d); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.shutdown)
	return b
}

// runSimulated runs tasks as long as those of runLive.
func runSimulated(t *testing.T, c policy.Config, r *recording) {
	const mb = 1 << 20
	w := &trace.Workload{
		Jobs: []string{"low", "high"},
		Tasks: []trace.Task{
			{Job: 0, Run: 700 * time.Millisecond, Priority: headrace.Low, CPUs: 1, Memory: mb},
			{Job: 1, Submit: 100 * time.Millisecond, Run: 120 * time.Millisecond, Priority: headrace.High, CPUs: 1, Memory: mb},
		},
	}
	s := sim.DefaultConfig()
	s.Node.CPUs, s.Interval, s.Check, s.Policy = 1, 0, true, c
	s.Observe = func(_ time.Duration, v *headrace.View, orders []headrace.Order) { r.note(v, orders) }
	result, err := sim.Run(t.Context(), w, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(result.Work.Useful-0.82) > 1e-9 {
		t.Errorf("%v core-seconds were useful, want 0.82", result.Work.Useful)
	}
}
