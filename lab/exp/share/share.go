package share

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headrace/lab/trial"
	"headrace/lab/yarn"
	"headrace/report"
)

// Options says what to run and how much of it. The zero value is the whole of it.
type Options struct {
	trial.Options
	// Only names parts, of Parts. Empty: all.
	Only []string
	// Modes are those to compare, of Modes. Empty: all.
	Modes []string
	// Jars are Hadoop's, Spark's and ours; nil: yarn.Find.
	Jars *yarn.Jars
	// Version is that of the program, for the report.
	Version string
}

// Parts are the names that Options.Only takes.
var Parts = []string{partRow, partApart, partFrameworks}

const (
	// partRow has two identical jobs of Spark one after the other.
	partRow = "row"
	// partApart has them begin some time apart.
	partApart = "apart"
	// partFrameworks has a job of MapReduce, and after it one of Spark.
	partFrameworks = "frameworks"
)

// Modes are the names that Options.Modes takes.
var Modes = []string{modeStock, modeCached, modeAtOnce, modeOrdered, modeWarmed}

// What becomes of the jobs of Spark.
const (
	modeStock   = "stock"   // nothing
	modeCached  = "cached"  // HDFS's own cache is told to hold the input; Headrace does nothing
	modeAtOnce  = "at-once" // what is in memory goes first, where it is, and who has nothing better to do takes what is elsewhere
	modeOrdered = "ordered" // the same, and who has nothing better to do waits a little first
	modeWarmed  = "warmed"  // the same, and input is read into memory before
)

// ours tells whether Headrace runs in a mode.
func ours(mode string) bool { return mode == modeAtOnce || mode == modeOrdered || mode == modeWarmed }

const experimentName = "share"

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("part", o.Only, Parts); err != nil {
		return err
	}
	if o.Modes, err = trial.KnownNames("mode", o.Modes, Modes); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// Measure runs pairs of jobs on the same files of a real HDFS, on a real YARN of three
// machines with a modelled disk and a bounded page cache each. It writes tables to Stdout
// and the files that were asked for. When ctx ends it stops, cleans up, reports what has
// been measured so far, and returns the cause. It needs root, FUSE, Java and the jars that
// "make java" gathers, also those of java/sparkyarn. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench share: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}, Plan: planned()}
	return o.Conduct(ctx, res, "machines and modelled disks need it", func(p *report.Progress) (err error) {
		if o.Jars == nil {
			if o.Jars, err = yarn.Find(); err != nil {
				return err
			}
		}
		if err := o.Jars.FindSpark(); err != nil {
			return err
		}
		res.Machine.Headrace = o.Version
		b := &bench{o: &o, res: res, h: o.Bench(p, &res.Circumstances)}
		return b.h.With(func() error { return errors.Join(b.run(ctx), b.stop()) })
	})
}

func (b *bench) run(ctx context.Context) error {
	b.h.Say(0, "starting HDFS and YARN")
	if err := b.start(ctx); err != nil {
		return err
	}
	// What a part takes in one repeat and one mode, about, in seconds.
	weights := map[string]float64{partRow: 235, partApart: 200, partFrameworks: 60}
	var parts []trial.Part
	for _, name := range Parts {
		if slices.Contains(b.o.Only, name) {
			parts = append(parts, trial.PartOf(b.h, name, weights[name], func() error { return b.part(ctx, name) }))
		}
	}
	return trial.InParts(ctx, parts)
}

// part runs every pair of jobs once in each repeat.
func (b *bench) part(ctx context.Context, name string) error {
	return trial.Rounds[entry, Run]{Repeats: b.o.Repeats, Seed: b.o.Seed, Entries: entries(name, b.o.Modes, b.o.Quick), Say: b.h.Say, Name: name + ": ",
		Run: func(e entry) (Run, error) { return b.once(ctx, e) },
		Keep: func(e entry, x Run, t trial.Turn) {
			x.Part, x.Mode, x.Factor, x.Gap = e.part, e.mode, e.factor, e.gap.Seconds()
			x.Repeat, x.Order, x.Failure = t.Repeat, t.Order, t.Failure
			b.res.Runs = append(b.res.Runs, x)
		},
	}.Do(ctx, &b.res.Circumstances)
}
