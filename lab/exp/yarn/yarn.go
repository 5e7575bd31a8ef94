package yarn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"headrace/lab/trial"
	"headrace/lab/yarn"
	"headrace/report"
)

// Options says which experiments on a real YARN cluster to run and how large. The
// zero value is the whole of it, in below 25 minutes on two processors.
type Options struct {
	// Options.Repeats is how often a pair of jobs runs under each policy; 0: 3 (1
	// with Quick).
	trial.Options
	// Only names the experiments, of Experiments. Empty: all.
	Only []string
	// Policies are those to compare, of Policies. Empty: all, but wait with pairs
	// only.
	Policies []string
	// Scale makes tasks longer, and the gaps between jobs; 0: 1. With 2.5 a pair is
	// tasks of 20 s and urgent ones of 5 s, and the workload takes about four minutes
	// under each policy.
	Scale float64
	// Workloads is how often the workload runs under each policy; 0: 1.
	Workloads int
	// Calibrate simulates the workload too, and shows how far that is off.
	Calibrate bool
	// Jars are Hadoop's and ours; nil: yarn.Find.
	Jars *yarn.Jars
	// Version is that of the program, for the report.
	Version string
}

// Experiments are the names that Options.Only takes.
var Experiments = []string{expPair, expWorkload}

// The experiments as they are named in Run.
const (
	expPair     = "p"
	expWorkload = "w"
)

// Policies are the names that Options.Policies takes.
var Policies = []string{"wait", "kill", "suspend", "checkpoint", "adaptive", "cost"}

const experimentName = "yarn"

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("experiment", o.Only, Experiments); err != nil {
		return err
	}
	if _, err = trial.KnownNames("policy", o.Policies, Policies); err != nil {
		return err
	}
	o.Scale, o.Workloads = cmp.Or(o.Scale, 1), cmp.Or(o.Workloads, 1)
	if !(o.Scale > 0 && o.Scale <= 100) {
		return fmt.Errorf("scale %g: want more than 0 and at most 100", o.Scale)
	}
	if o.Workloads < 1 || o.Workloads > 1000 {
		return fmt.Errorf("%d workloads: want 1 to 1000", o.Workloads)
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// Measure runs the experiments of both papers on preemption on a real YARN cluster, with
// YARN's own preemption and with Headrace's. It writes tables to Stdout and the files
// that were asked for. When ctx ends it stops, cleans up, reports what has been
// measured so far, and returns the cause. It needs root, Java and the jars that "make
// java" gathers. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench yarn: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}, calibrate: o.Calibrate}
	return o.Conduct(ctx, res, "checkpoints, loop devices and cgroups need it", func(p *report.Progress) (err error) {
		if o.Jars == nil {
			if o.Jars, err = yarn.Find(); err != nil {
				return err
			}
		}
		res.Machine.Headrace = o.Version
		b := &bench{o: &o, res: res, h: o.Bench(p, &res.Circumstances)}
		return b.h.With(func() error { return errors.Join(b.run(ctx), b.stop()) })
	})
}

// run is both experiments, one after the other. One that fails leaves the other.
func (b *bench) run(ctx context.Context) error {
	var err error
	if b.group, err = b.h.Disk.NewGroup(0); err != nil {
		return fmt.Errorf("processor time of the whole cluster: %w", err)
	}
	b.res.note(b.o)
	var parts []trial.Part
	for _, e := range []struct {
		name   string
		weight float64
		run    func(context.Context) error
	}{{expPair, 0.35, b.pairs}, {expWorkload, 0.65, b.workloads}} {
		if slices.Contains(b.o.Only, e.name) {
			parts = append(parts, trial.PartOf(b.h, "("+e.name+")", e.weight, func() error { return e.run(ctx) }))
		}
	}
	return trial.InParts(ctx, parts)
}

// chosen returns those of the given policies that were asked for, or all.
func (o *Options) chosen(policies ...string) []string {
	return slices.DeleteFunc(slices.Clone(Policies), func(p string) bool {
		return len(o.Policies) > 0 && !slices.Contains(o.Policies, p) || !slices.Contains(policies, p)
	})
}
