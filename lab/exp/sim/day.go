package sim

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// dayMedia are those of checkpoint-preemption, the slowest first.
var dayMedia = []string{"hdd", "ssd", "nvm"}

// dayPolicies are compared on every medium, with kill, which uses none. Wanted are the
// experiments that need them.
var dayPolicies = []struct {
	name   policy.Name
	wanted []string
}{
	{policy.Checkpoint, []string{simFigure3, simFigure5, simSeeds}},
	{policy.Adaptive, []string{simFigure5, simSeeds}},
	{policy.Suspend, []string{simFigure3, simSeeds}},
	{policy.Cost, []string{simFigure3, simCost, simSeeds}},
}

// days runs all policies on all media for one seed, or for several if the experiment
// seeds is asked for: checkpoint-preemption, figures 3 and 5.
func (s *runner) days(ctx context.Context) error {
	seeds := 1
	if s.o.wants(simSeeds) {
		seeds = s.o.Repeats
	}
	for i := range seeds {
		seed := s.o.Seed + uint64(i)
		from, to := float64(i)/float64(seeds), float64(i+1)/float64(seeds)
		s.say(from, "making the workload of seed %d", seed)
		w, err := trace.Open(ctx, s.o.Trace, trace.OpenOptions{Seed: seed, Scale: s.o.Scale})
		if err != nil {
			return err
		}
		tasks, err := s.dayTasks(w, seed)
		if err != nil {
			return err
		}
		if i == 0 {
			s.res.Day = setupOf(w, tasks[0].config)
		}
		if err := s.simulate(ctx, w, tasks, from, to); err != nil {
			return err
		}
		w = nil
		runtime.GC()
	}
	return nil
}

func (s *runner) dayTasks(w *trace.Workload, seed uint64) ([]simTask, error) {
	var tasks []simTask
	add := func(name policy.Name, medium string) error {
		c, err := s.simConfig(w, name, medium)
		if err != nil {
			return err
		}
		c.Seed = seed
		tasks = append(tasks, simTask{run: Run{Experiment: expDay, Seed: seed, Result: sim.Result{Policy: name, Medium: medium}}, config: c})
		return nil
	}
	if err := add(policy.Kill, dayMedia[0]); err != nil {
		return nil, err
	}
	tasks[0].run.Medium = ""
	for _, p := range dayPolicies {
		if !slices.ContainsFunc(p.wanted, s.o.wants) {
			continue
		}
		for _, medium := range dayMedia {
			if err := add(p.name, medium); err != nil {
				return nil, fmt.Errorf("%w: the experiments need hdd, ssd and nvm", err)
			}
		}
	}
	return tasks, nil
}
