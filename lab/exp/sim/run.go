package sim

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// simConfig returns the cluster that a workload was made for, with a medium as it was
// measured. Nodes have as much swap as memory, on the same medium.
func (s *runner) simConfig(w *trace.Workload, name policy.Name, medium string) (sim.Config, error) {
	c := sim.DefaultConfig()
	if k := w.Cluster; k.Nodes > 0 {
		c.Nodes, c.Node.CPUs, c.Node.Memory, c.Node.Swap = k.Nodes, k.CPUs, k.Memory, k.Memory
	}
	c.Policy.Policy, c.Seed = name, s.o.Seed
	return c, s.media.Apply(&c, medium)
}

// simTask is one simulation of an experiment.
type simTask struct {
	run    Run // what is known before
	config sim.Config
	// workload is what it runs, where simulate does not say.
	workload *trace.Workload
}

func (t simTask) String() string {
	if t.workload != nil {
		return fmt.Sprintf("%s, %s", t.workload.Name, t.run.Policy)
	}
	if t.run.Point != (Point{}) {
		return t.run.Point.String()
	}
	return fmt.Sprintf("seed %d, %s on %s", t.run.Seed, t.run.Policy, t.run.Medium)
}

// simulate runs all tasks on one workload, as many at a time as there are
// processors, and adds them to the results in their order. from and to are the parts
// of the present experiment.
func (s *runner) simulate(ctx context.Context, w *trace.Workload, tasks []simTask, from, to float64) error {
	s.res.Runs = append(s.res.Runs, s.sideBySide(ctx, w, tasks, from, to)...)
	return ctx.Err()
}

// sideBySide returns the runs of all tasks in their order, or those that were finished when
// ctx ended. Those that have failed are noted.
func (s *runner) sideBySide(ctx context.Context, w *trace.Workload, tasks []simTask, from, to float64) []Run {
	runs := make([]Run, len(tasks))
	var mu sync.Mutex
	parts := make([]float64, len(tasks))
	tell := func(i int, part float64) {
		mu.Lock()
		defer mu.Unlock()
		parts[i] = part
		all := 0.0
		for _, p := range parts {
			all += p
		}
		s.say(from+(to-from)*all/float64(len(tasks)), "%v", tasks[i])
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, t := range tasks {
		group.Go(func() error {
			if ctx.Err() == nil {
				runs[i] = simulated(ctx, w, t, func(part float64) { tell(i, part) })
			}
			return nil
		})
	}
	group.Wait()
	var finished []Run
	for i, r := range runs {
		if ctx.Err() != nil && (r.Failure != "" || r.Tasks == 0) {
			continue
		}
		if r.Failure != "" {
			s.res.Failed("%v: %s", tasks[i], r.Failure)
		}
		finished = append(finished, r)
	}
	return finished
}

// simulated returns one simulation; one that fails has a Failure. One in which the check of
// the invariants finds something ends there, and is run again without, for its figures.
func simulated(ctx context.Context, w *trace.Workload, t simTask, tell func(part float64)) Run {
	start := time.Now()
	if t.workload != nil {
		w = t.workload
	}
	progress := func(p sim.Progress) {
		if p.Tasks > 0 {
			tell(float64(p.Ended) / float64(p.Tasks))
		}
	}
	run := t.run
	result, err := sim.Run(ctx, w, t.config, progress)
	if err != nil && t.config.Check && ctx.Err() == nil {
		run.Fault, t.config.Check = err.Error(), false
		result, err = sim.Run(ctx, w, t.config, progress)
	}
	tell(1)
	if err != nil {
		run.Failure = err.Error()
		return run
	}
	run.Result = *result
	run.Medium = t.run.Medium
	run.Took = time.Since(start).Seconds()
	return run
}
