package dfs

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
	// Systems are those to compare, of Systems. Empty: all.
	Systems []string
	// Jars are Hadoop's and ours; nil: yarn.Find.
	Jars *yarn.Jars
	// Version is that of the program, for the report.
	Version string
}

// Parts are the names that Options.Only takes.
var Parts = []string{partRead, partNames, partWrite, partLoss, partDevice}

const (
	// partRead has readers side by side, on one node.
	partRead = "read"
	// partNames has operations on names by many threads.
	partNames = "names"
	// partWrite has writers side by side, three copies on four nodes.
	partWrite = "write"
	// partLoss has a node be killed under readers and writers.
	partLoss = "loss"
	// partDevice has readers and writers on a disk of this machine, which no model slows down.
	partDevice = "device"
)

// Systems are the names that Options.Systems takes.
var Systems = []string{systemHDFS, systemOurs}

const (
	systemHDFS = "hdfs"
	systemOurs = "headrace"
)

const experimentName = "dfs"

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("part", o.Only, Parts); err != nil {
		return err
	}
	if o.Systems, err = trial.KnownNames("system", o.Systems, Systems); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 3, 1)
}

// Measure runs the same clients on a real HDFS and on the file system of Headrace. It writes
// tables to Stdout and the files that were asked for. When ctx ends it stops, cleans up,
// reports what has been measured so far, and returns the cause. It needs root, FUSE, Java and
// the jars that "make java" gathers. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench dfs: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}, Plan: planned(o.Quick)}
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

func (b *bench) run(ctx context.Context) error {
	// What a part takes in one repeat, about, in seconds.
	weights := map[string]float64{partRead: 35, partNames: 40, partWrite: 110, partLoss: 110, partDevice: 30}
	var parts []trial.Part
	for _, name := range Parts {
		if slices.Contains(b.o.Only, name) {
			parts = append(parts, trial.PartOf(b.h, name, weights[name], func() error { return b.part(ctx, name) }))
		}
	}
	return trial.InParts(ctx, parts)
}

// part runs every entry once in each repeat, after one of each that is not kept: the virtual
// machines have compiled then what they run.
func (b *bench) part(ctx context.Context, name string) error {
	if err := b.have(ctx, shapes[name]); err != nil {
		return err
	}
	entries := b.res.Plan.entries(name, b.o.Systems)
	if err := b.practise(ctx, entries); err != nil {
		return err
	}
	return trial.Rounds[entry, Run]{Repeats: b.o.Repeats, Seed: b.o.Seed, Entries: entries, Say: b.h.Say, Name: name + ": ",
		Run: func(e entry) (Run, error) { return b.once(ctx, e) },
		Keep: func(e entry, x Run, t trial.Turn) {
			x.Part, x.System, x.Point = e.part, e.system, e.Point
			x.Repeat, x.Order, x.Failure = t.Repeat, t.Order, t.Failure
			b.res.Runs = append(b.res.Runs, x)
		},
	}.Do(ctx, &b.res.Circumstances)
}
