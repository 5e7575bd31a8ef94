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
}

func (t simTask) String() string {
	if t.run.Point != (Point{}) {
		return t.run.Point.String()
	}
	return fmt.Sprintf("seed %d, %s on %s", t.run.Seed, t.run.Policy, t.run.Medium)
}

// simulate runs all tasks on one workload, as many at a time as there are
// processors, and adds them to the results in their order. from and to are the parts
// of the present experiment.
func (s *runner) simulate(ctx context.Context, w *trace.Workload, tasks []simTask, from, to float64) error {
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
	for i, r := range runs {
		if ctx.Err() != nil && (r.Failure != "" || r.Tasks == 0) {
			continue
		}
		if r.Failure != "" {
			s.res.Failed("%v: %s", tasks[i], r.Failure)
		}
		s.res.Runs = append(s.res.Runs, r)
	}
	return ctx.Err()
}

// simulated returns one simulation; one that fails has a Failure.
func simulated(ctx context.Context, w *trace.Workload, t simTask, tell func(part float64)) Run {
	start := time.Now()
	result, err := sim.Run(ctx, w, t.config, func(p sim.Progress) {
		if p.Tasks > 0 {
			tell(float64(p.Ended) / float64(p.Tasks))
		}
	})
	tell(1)
	run := t.run
	if err != nil {
		run.Failure = err.Error()
		return run
	}
	run.Result = *result
	run.Medium = t.run.Medium
	run.Took = time.Since(start).Seconds()
	return run
}
