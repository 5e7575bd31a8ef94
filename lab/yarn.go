package lab

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"headrace/lab/yarn"
)

// YarnOptions says which experiments on a real YARN cluster to run and how large. The
// zero value is the whole of it, in below 25 minutes on two processors.
type YarnOptions struct {
	// RunOptions.Repeats is how often a pair of jobs runs under each policy; 0: 3 (1
	// with Quick).
	RunOptions
	// Only names the experiments, of YarnExperiments. Empty: all.
	Only []string
	// Policies are those to compare, of YarnPolicies. Empty: all, but wait with pairs
	// only.
	Policies []string
	// Scale makes tasks longer, and the gaps between jobs; 0: 1. With 2.5 a pair is
	// tasks of 20 s and urgent ones of 5 s, and the workload takes about four minutes
	// under each policy.
	Scale float64
	// Workloads is how often the workload runs under each policy; 0: 1.
	Workloads int
	// Jars are Hadoop's and ours; nil: yarn.Find.
	Jars *yarn.Jars
	// Version is that of the program, for the report.
	Version string
}

// YarnExperiments are the names that YarnOptions.Only takes.
var YarnExperiments = []string{expPair, expWorkload}

// The experiments as they are named in YarnRun.
const (
	expPair     = "p"
	expWorkload = "w"
)

// YarnPolicies are the names that YarnOptions.Policies takes.
var YarnPolicies = []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"}

const experimentYarn = "yarn"

func (o *YarnOptions) complete() error {
	if err := knownNames("experiment", o.Only, YarnExperiments); err != nil {
		return err
	}
	if err := knownNames("policy", o.Policies, YarnPolicies); err != nil {
		return err
	}
	if len(o.Only) == 0 {
		o.Only = YarnExperiments
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	if !(o.Scale > 0 && o.Scale <= 100) {
		return fmt.Errorf("scale %g: want more than 0 and at most 100", o.Scale)
	}
	if o.Workloads == 0 {
		o.Workloads = 1
	}
	if o.Workloads < 1 || o.Workloads > 1000 {
		return fmt.Errorf("%d workloads: want 1 to 1000", o.Workloads)
	}
	return o.RunOptions.complete(experimentYarn)
}

func knownNames(what string, given, known []string) error {
	for _, name := range given {
		if !slices.Contains(known, name) {
			return fmt.Errorf("%s %q: want %s", what, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// Yarn runs the experiments of both papers on preemption on a real YARN cluster, with
// YARN's own preemption and with Headrace's. It writes tables to Stdout and the files
// that were asked for. When ctx ends it stops, cleans up, reports what has been
// measured so far, and returns the cause. It needs root, Java and the jars that "make
// java" gathers. One call at a time.
func Yarn(ctx context.Context, o YarnOptions) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench yarn: %w", err)
	}
	res := &YarnResults{Circumstances: Circumstances{Experiment: experimentYarn}}
	return o.conduct(res, func() error { return o.measure(ctx, res) })
}

// measure fills in the results, as far as it gets.
func (o *YarnOptions) measure(ctx context.Context, res *YarnResults) (err error) {
	if err := needsRoot("checkpoints, loop devices and cgroups need it"); err != nil {
		return err
	}
	if o.Jars == nil {
		if o.Jars, err = yarn.Find(); err != nil {
			return err
		}
	}
	if res.Circumstances, err = o.circumstances(experimentYarn); err != nil {
		return err
	}
	res.Machine.Headrace = o.Version
	progress := o.progress()
	defer progress.Done()
	h := o.harness(progress)
	err = h.with(func() error {
		b := &yarnBench{o: o, res: res, h: h}
		return errors.Join(b.run(ctx), b.stop())
	})
	res.end(err)
	if ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), notCancelled(err))
	}
	return err
}

// run is both experiments, one after the other. One that fails leaves the other.
func (b *yarnBench) run(ctx context.Context) error {
	var err error
	if b.group, err = b.h.disk.newReadGroup(0); err != nil {
		return fmt.Errorf("processor time of the whole cluster: %w", err)
	}
	b.res.note(b.o)
	parts := []struct {
		name   string
		weight float64
		run    func(context.Context) error
	}{{expPair, 0.35, b.pairs}, {expWorkload, 0.65, b.workloads}}
	total, done := 0.0, 0.0
	for _, p := range parts {
		if slices.Contains(b.o.Only, p.name) {
			total += p.weight
		}
	}
	var errs []error
	for _, p := range parts {
		if !slices.Contains(b.o.Only, p.name) {
			continue
		}
		b.h.done, b.h.todo = done/total, p.weight/total
		err := p.run(ctx)
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx), notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("(%s): %w", p.name, err))
		}
		done += p.weight
	}
	return errors.Join(errs...)
}

// chosen are those of the given policies that were asked for, or all.
func (o *YarnOptions) chosen(policies ...string) []string {
	return slices.DeleteFunc(slices.Clone(YarnPolicies), func(p string) bool {
		return len(o.Policies) > 0 && !slices.Contains(o.Policies, p) || !slices.Contains(policies, p)
	})
}
