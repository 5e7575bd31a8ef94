package preempt

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
)

// Options says which experiments to run and how large. The zero value is
// the whole of it, in below half an hour on two processors.
type Options struct {
	// Options.Repeats is how often every policy runs at every point; 0: 5 (2 with
	// Quick). Quick takes minutes.
	trial.Options
	// Only names the experiments: a, b, c, d. Empty: all.
	Only []string
	// Size is the memory of a task with large dirty memory, in bytes; the other
	// experiments take parts of it. 0: 512 MiB, or less if the machine has less
	// than 8 GiB.
	Size int64
	// Media is a file to write with what the simulator needs to know of storage and
	// mechanisms (sim.Measurements); empty: none. It takes experiments a and c.
	Media string
}

const experimentName = "preempt"

// Experiments are the names that Options.Only takes.
var Experiments = []string{"a", "b", "c", "d"}

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("experiment", o.Only, Experiments); err != nil {
		return err
	}
	if o.Size != 0 && o.Size < 16<<20 {
		return fmt.Errorf("size %d: want at least 16M", o.Size)
	}
	return o.Options.Complete(experimentName, 5, 2)
}

// Measure runs the experiments and writes the report: tables to Stdout, and the
// files that were asked for. When ctx ends it stops, cleans up, reports what has
// been measured so far, and returns the cause. It needs root: swap, loop devices
// and checkpoints do. One call at a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench preempt: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	err := o.Conduct(ctx, res, "swap files, loop devices and checkpoints need it", func(p *report.Progress) error { return o.measure(ctx, res, p) })
	if o.Media == "" || !res.Any() {
		return err
	}
	text, e := res.mediaFile()
	if e == nil {
		e = trial.WriteWhole(o.Media, text)
	}
	if e != nil {
		return errors.Join(err, fmt.Errorf("bench preempt: %w", e))
	}
	fmt.Fprintf(o.Stdout, "written: %s\n", o.Media)
	return err
}

// experiment is one letter of Options.Only. weight is its part of the
// time of a whole run.
type experiment struct {
	name, title string
	weight      float64
	run         func(*bench, context.Context, sizes) error
	// checkpoints are what it is about.
	checkpoints bool
}

var experiments = []experiment{
	{"a", "light tasks", 0.18, (*bench).light, false},
	{"b", "large dirty memory", 0.40, (*bench).dirtyMemory, false},
	{"c", "storage bandwidths", 0.34, (*bench).storage, true},
	{"d", "second checkpoint", 0.08, (*bench).secondCheckpoint, true},
}

// bench runs one experiment.
type bench struct {
	*rig.Bench
	o   *Options
	res *Results
	// noCheckpoint is why checkpoints do not work on this machine; empty: they do.
	noCheckpoint string
}

func (o *Options) measure(ctx context.Context, res *Results, progress *report.Progress) error {
	z, err := o.sizes()
	if err != nil {
		return err
	}
	noCheckpoint, err := o.probe(ctx, res, progress)
	if err != nil {
		return err
	}
	if noCheckpoint != "" {
		res.Skip("everything with checkpoints", noCheckpoint)
	}
	var parts []trial.Part
	for _, e := range experiments {
		if !slices.Contains(o.Only, e.name) || e.checkpoints && noCheckpoint != "" {
			continue
		}
		parts = append(parts, trial.Part{Name: "(" + e.name + ") " + e.title, Weight: e.weight, Run: func(done, todo float64) error {
			h := &bench{Bench: o.Bench(progress, &res.Circumstances), o: o, res: res, noCheckpoint: noCheckpoint}
			h.Done, h.Todo = done, todo
			return h.With(func() error { return e.run(h, ctx, z) })
		}})
	}
	return trial.InParts(ctx, parts)
}

// probe finds out with a small task whether checkpoints work here; why is the
// reason if they do not.
func (o *Options) probe(ctx context.Context, res *Results, p *report.Progress) (why string, err error) {
	h := o.Bench(p, &res.Circumstances)
	err = h.With(func() error {
		h.Say(0, "trying a checkpoint")
		if res.Machine.Headrace, err = h.Version(ctx); err != nil {
			return err
		}
		store, err := h.StoreIn(h.Disk.Dir, rig.StoreDisk, "probe")
		if err != nil {
			return err
		}
		c := secondCase{h: h, bytes: 8 << 20, config: rig.DaemonConfig{Policy: "wait", Stores: []rig.StoreDir{store}}}
		if _, err = c.run(ctx); err != nil && ctx.Err() == nil && h.Running() {
			why = err.Error()
			return nil
		}
		return err
	})
	return why, err
}
