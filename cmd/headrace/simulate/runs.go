package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"headrace/policy"
	"headrace/sim"
	"headrace/trace"
)

// A simRun is one policy on one medium.
type simRun struct {
	policy policy.Name
	medium string
	// alone: the medium makes no difference.
	alone bool
	// nodes is how many there are; 0: as many as in every run.
	nodes int
}

func (r simRun) String() string {
	name := string(r.policy)
	if !r.alone {
		name += " on " + r.medium
	}
	if r.nodes > 0 {
		name += ", " + nodesText(r.nodes)
	}
	return name
}

// planRuns returns what has to be run to compare the policies on the media, in the
// order in which it is reported. Of the runs of a group those behind the first are only
// needed when that made use of its medium.
func planRuns(policies []policy.Name, media []string) [][]simRun {
	var groups [][]simRun
	for _, p := range policies {
		runs := make([]simRun, len(media))
		for i, m := range media {
			runs[i] = simRun{policy: p, medium: m}
		}
		switch p {
		case policy.Kill, policy.Wait:
			runs[0].alone = true
			groups = append(groups, runs[:1])
		case policy.Suspend:
			// The medium has a part in what happens only if something is paged out, or suspended
			// where it could be moved.
			groups = append(groups, runs)
		default:
			groups = append(groups, slices.Collect(slices.Chunk(runs, 1))...)
		}
	}
	return groups
}

// A simulation is a workload and what is tried on it.
type simulation struct {
	workload *trace.Workload
	groups   [][]simRun
	// configure is the configuration of a run.
	configure func(simRun) (sim.Config, error)
	// jobs is how many runs there are at a time.
	jobs  int
	watch *simWatch
	// run is sim.Run.
	run func(context.Context, *trace.Workload, sim.Config, func(sim.Progress)) (*sim.Result, error)
}

// results runs everything, and returns the results in the order of the groups. What
// becomes of one run does not depend on others: when some fail the error tells of
// those, and the results are the others'. When ctx ends they are those that there are by
// then, and runs that take long to notice are not waited for.
func (s *simulation) results(ctx context.Context) ([]*sim.Result, error) {
	var mu sync.Mutex
	ended := make([]groupEnd, len(s.groups))
	done := make(chan struct{})
	go func() {
		defer close(done)
		var pool errgroup.Group
		pool.SetLimit(s.jobs)
		for i, group := range s.groups {
			pool.Go(func() error {
				s.group(ctx, group, func(result *sim.Result, failure *runFailure) {
					mu.Lock()
					defer mu.Unlock()
					ended[i].add(result, failure)
				})
				return nil
			})
		}
		pool.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	var all groupEnd
	for _, e := range ended {
		all.results = append(all.results, e.results...)
		all.failures = append(all.failures, e.failures...)
	}
	if err := ctx.Err(); err != nil {
		return all.results, err
	}
	return all.results, all.err()
}

// groupEnd is what became of a group.
type groupEnd struct {
	results  []*sim.Result
	failures []runFailure
}

type runFailure struct {
	run simRun
	err error
}

func (e *groupEnd) add(result *sim.Result, failure *runFailure) {
	if failure != nil {
		e.failures = append(e.failures, *failure)
	} else {
		e.results = append(e.results, result)
	}
}

// group carries out the runs of a group and says what became of each.
func (s *simulation) group(ctx context.Context, group []simRun, add func(*sim.Result, *runFailure)) {
	for i, run := range group {
		if ctx.Err() != nil {
			break
		}
		result, err := s.one(ctx, run, func(r *sim.Result) { add(r, nil) })
		if err != nil {
			add(nil, &runFailure{run, err})
			continue
		}
		if i == 0 && !result.UsesMedium {
			s.watch.skip(len(group) - 1)
			break
		}
	}
}

// err tells what went wrong, the same thing once.
func (e groupEnd) err() error {
	var said []string
	runs := map[string][]string{}
	for _, f := range e.failures {
		text := f.err.Error()
		if runs[text] == nil {
			said = append(said, text)
		}
		runs[text] = append(runs[text], f.run.String())
	}
	if len(said) == 1 && len(e.results) == 0 {
		return errors.New(said[0]) // it is not about one of them
	}
	var errs []error
	for _, text := range said {
		errs = append(errs, fmt.Errorf("%s: %s", Spoken(runs[text]), text))
	}
	return errors.Join(errs...)
}

// one carries out a run. Its result is kept before it is said that it has ended.
func (s *simulation) one(ctx context.Context, run simRun, keep func(*sim.Result)) (*sim.Result, error) {
	config, err := s.configure(run)
	if err != nil {
		return nil, err
	}
	watched := s.watch.begin(run)
	result, err := s.run(ctx, s.workload, config, func(p sim.Progress) { s.watch.at(watched, p) })
	if err == nil {
		keep(result)
	}
	s.watch.end(watched, result)
	return result, err
}
