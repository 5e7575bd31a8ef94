package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"headrace/lab/trial"
	"headrace/report"
	"headrace/sim"
)

// Options says which experiments with the simulator to run and how large. The
// zero value is the whole of it.
type Options struct {
	// Options.Repeats is how many seeds the experiment seeds has and how often
	// that of calibration runs; 0: 5 (2 with Quick).
	trial.Options

	// Only names the experiments, of Experiments. Empty: all.
	Only []string
	// Trace and Swim are the workloads, as trace.Open takes them; empty:
	// synthetic:google-day and swim:facebook-day. Scale makes the first one smaller or
	// larger if it is synthetic; 0: 1 (0.02 with Quick).
	Trace, Swim string
	Scale       float64
	// Shapes says what of the experiment shapes is run.
	Shapes ShapeOptions
	// Media is a file of measurements (sim.Measurements); empty: those that come with
	// the program.
	Media string
	// Tradeoff is a file for a picture of who waits on the shapes with GPUs and gangs, as SVG;
	// empty: none.
	Tradeoff string
	// Version is that of the program, for the report.
	Version string
}

// Experiments are the names that Options.Only takes.
var Experiments = []string{simFigure3, simFigure5, simCost, simSwim, simIgnem, simQuartet, simSeeds, simShapes, simCalibration}

const (
	simFigure3     = "3"
	simFigure5     = "5"
	simCost        = "cost"
	simSwim        = "swim"
	simIgnem       = "ignem"
	simQuartet     = "quartet"
	simSeeds       = "seeds"
	simCalibration = "calibration"
	simShapes      = "shapes"
)

const experimentName = "sim"

func (o *Options) complete() (err error) {
	if o.Only, err = trial.KnownNames("experiment", o.Only, Experiments); err != nil {
		return err
	}
	o.Trace = cmp.Or(o.Trace, "synthetic:google-day")
	o.Swim = cmp.Or(o.Swim, "swim:facebook-day")
	o.Scale = cmp.Or(o.Scale, trial.Sized(o.Quick, 1, 0.02))
	if !(o.Scale > 0 && o.Scale <= 100) {
		return fmt.Errorf("scale %g: want more than 0 and at most 100", o.Scale)
	}
	if err := o.Shapes.complete(o.Quick); err != nil {
		return err
	}
	return o.Options.Complete(experimentName, 5, 2)
}

// Measure runs the experiments with the simulator: the figures of checkpoint-preemption
// on a day like Google's, reading on a day of Facebook's, cost on work that nobody tuned on,
// and how well the simulator foretells what the daemon does. It writes tables to Stdout and the
// files that were asked for. When ctx ends it stops, cleans up, reports what it has so
// far, and returns the cause. Only the experiment calibration needs root. One call at
// a time.
func Measure(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench sim: %w", err)
	}
	res := &Results{Circumstances: trial.Circumstances{Experiment: experimentName}}
	err := o.Conduct(ctx, res, "", func(p *report.Progress) error { return o.measure(ctx, res, p) })
	if o.Tradeoff == "" || !res.Any() {
		return err
	}
	return errors.Join(err, o.writeTradeoff(res))
}

// runner runs the experiments.
type runner struct {
	o     *Options
	res   *Results
	media sim.Measurements

	progress *report.Progress
	// done and todo are the shares of the whole run before the present experiment and
	// in it.
	done, todo float64
}

// say tells what is being done; share is the part of the present experiment.
func (s *runner) say(share float64, format string, args ...any) {
	s.progress.Set(s.done+share*s.todo, fmt.Sprintf(format, args...))
}

func (o *Options) measure(ctx context.Context, res *Results, progress *report.Progress) (err error) {
	res.Machine.Headrace = o.Version
	s := &runner{o: o, res: res, progress: progress}
	if s.media, err = o.measurements(); err != nil {
		return err
	}
	res.media(s.media)
	var parts []trial.Part
	for _, e := range []struct {
		title  string
		names  []string // of Options.Only, any of which asks for it
		weight float64
		run    func(context.Context) error
	}{
		{"the day", []string{simFigure3, simFigure5, simCost, simSeeds}, 0.35, s.days},
		{"reading", []string{simSwim}, 0.15, s.swim},
		{"ignem's workload", []string{simIgnem}, 0.05, s.ignem},
		{"quartet's workload", []string{simQuartet}, 0.02, s.quartet},
		{"shapes", []string{simShapes}, 0.05, s.shapes},
		{"calibration", []string{simCalibration}, 0.2, s.calibration},
	} {
		if slices.ContainsFunc(e.names, o.wants) {
			parts = append(parts, trial.Part{Name: e.title, Weight: e.weight, Run: func(done, todo float64) error {
				s.done, s.todo = done, todo
				return e.run(ctx)
			}})
		}
	}
	return trial.InParts(ctx, parts)
}

func (o *Options) wants(experiment string) bool { return slices.Contains(o.Only, experiment) }

// measurements returns those of the file, or those that come with the program.
func (o *Options) measurements() (sim.Measurements, error) {
	if o.Media == "" {
		return sim.DefaultMeasurements(), nil
	}
	f, err := os.Open(o.Media)
	if err != nil {
		return sim.Measurements{}, err
	}
	defer f.Close()
	m, err := sim.ReadMeasurements(f)
	if err != nil {
		return m, fmt.Errorf("%s: %w", o.Media, err)
	}
	return m, nil
}
