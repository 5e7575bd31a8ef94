package hdfs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headrace/lab/trial"
	"headrace/lab/yarn"
	"headrace/report"
)

// Options says what to run and how much of it. The zero value is the whole of it, in below
// 40 minutes on two processors.
type Options struct {
	trial.Options
	// Only names parts, of Parts. Empty: all.
	Only []string
	// Modes are those to compare, of Modes. Empty: all.
	Modes []string
	// Jobs is how many jobs of the day, from its beginning, are submitted within Span; 0: 24
	// in 100 s (6 in 6 s with Quick).
	Jobs int
	Span time.Duration
	// Replication of the inputs; 0: 1.
	Replication int
	// Jars are Hadoop's and ours; nil: yarn.Find.
	Jars *yarn.Jars
	// Version is that of the program, for the report.
	Version string
}

// Parts are the names that Options.Only takes.
var Parts = []string{partSwim, partSort, partWordcount, partQueries}

const (
	partSwim      = "swim"
	partSort      = "sort"
	partWordcount = "wordcount"
	partQueries   = "queries"
)

// Modes are the names that Options.Modes takes.
var Modes = []string{modeStock, modeWarmed, modeDelayed, modeRAM}

// What becomes of the inputs.
const (
	modeStock   = "stock"   // nothing
	modeWarmed  = "warmed"  // Headrace is
	modeDelayed = "delayed" // the same, and the job is submitted later if that helps
	modeRAM     = "ram"     // they are locked in memory beforehand
)

const experimentName = "hdfs"

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("part", o.Only, Parts); err != nil {
		return err
	}
	if o.Modes, err = trial.KnownNames("mode", o.Modes, Modes); err != nil {
		return err
	}
	o.Jobs = cmp.Or(o.Jobs, trial.Sized(o.Quick, 24, 6))
	o.Span = cmp.Or(o.Span, trial.Sized(o.Quick, 100*time.Second, 6*time.Second))
	o.Replication = cmp.Or(o.Replication, 1)
	if o.Jobs < 2 || o.Jobs > 1000 {
		return fmt.Errorf("%d jobs: want 2 to 1000", o.Jobs)
	}
	if o.Span < time.Second || o.Span > 24*time.Hour {
		return fmt.Errorf("a span of %v: want 1s to 24h", o.Span)
	}
	if o.Replication < 1 || o.Replication > servers {
		return fmt.Errorf("a replication of %d: want 1 to %d", o.Replication, servers)
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// Measure runs the jobs of ignem on a real HDFS and YARN of three machines with a modelled
// disk each. It writes tables to Stdout and the files that were asked for. When ctx ends
// it stops, cleans up, reports what has been measured so far, and returns the cause. It
// needs root, FUSE, Java and the jars that "make java" gathers. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench hdfs: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	return o.Conduct(ctx, res, "machines and modelled disks need it", func(p *report.Progress) (err error) {
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

// entry is one run of a part: all jobs of it, in a mode.
type entry struct {
	part string
	mode string
	jobs []plannedJob
}

func (e entry) String() string {
	if len(e.jobs) > 1 {
		return fmt.Sprintf("%d jobs, %s", len(e.jobs), e.mode)
	}
	return fmt.Sprintf("%s of %s, %s", e.jobs[0].name, report.Bytes(e.jobs[0].input), e.mode)
}

// run makes the cluster and the inputs, and runs the parts one after the other.
func (b *bench) run(ctx context.Context) error {
	plan, jobs, err := planSwim(b.o.Jobs, b.o.Span)
	if err != nil {
		return err
	}
	b.res.Plan = plan
	var parts []trial.Part
	add := func(name string, weight float64, run func() error) {
		if slices.Contains(b.o.Only, name) {
			parts = append(parts, trial.PartOf(b.h, name, weight, run))
		}
	}
	add(partSwim, 0.4, func() error { return b.part(ctx, partSwim, [][]plannedJob{jobs}) })
	add(partSort, 0.1, func() error { return b.part(ctx, partSort, alone(planSort(b.o.Quick))) })
	add(partWordcount, 0.25, func() error { return b.part(ctx, partWordcount, alone(planWordcounts(b.o.Quick)...)) })
	add(partQueries, 0.25, func() error { return b.queries(ctx) })
	b.h.Say(0, "starting HDFS and YARN")
	if err := b.start(ctx); err != nil {
		return err
	}
	return trial.InParts(ctx, parts)
}

// alone has each job be a group of its own.
func alone(jobs ...plannedJob) (out [][]plannedJob) {
	for _, j := range jobs {
		out = append(out, []plannedJob{j})
	}
	return out
}

// part makes what jobs need, and runs every group of jobs in every mode once in each repeat.
func (b *bench) part(ctx context.Context, name string, groups [][]plannedJob) error {
	if name != partQueries && b.archived == nil {
		if err := b.train(ctx); err != nil {
			return err
		}
	}
	var entries []entry
	for _, jobs := range groups {
		if err := b.makeInputs(ctx, jobs); err != nil {
			return err
		}
		for _, mode := range b.o.Modes {
			if mode == modeDelayed && name != partWordcount {
				continue
			}
			entries = append(entries, entry{part: name, mode: mode, jobs: jobs})
		}
	}
	return trial.Rounds[entry, Run]{Repeats: b.o.Repeats, Seed: b.o.Seed, Entries: entries, Say: b.h.Say, Name: name + ": ",
		Run: func(e entry) (Run, error) { return b.once(ctx, e) },
		Keep: func(e entry, x Run, t trial.Turn) {
			x.Part, x.Mode, x.Repeat, x.Order, x.Failure = e.part, e.mode, t.Repeat, t.Order, t.Failure
			if x.Name = name; len(e.jobs) == 1 {
				x.Name, x.Input = e.jobs[0].name, e.jobs[0].input
			}
			b.res.Runs = append(b.res.Runs, x)
		},
	}.Do(ctx, &b.res.Circumstances)
}
