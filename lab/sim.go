package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"headrace/report"
	"headrace/sim"
)

// SimOptions says which experiments with the simulator to run and how large. The
// zero value is the whole of it.
type SimOptions struct {
	// RunOptions.Repeats is how many seeds the experiment seeds has and how often
	// that of calibration runs; 0: 5 (2 with Quick).
	RunOptions

	// Only names the experiments, of SimExperiments. Empty: all.
	Only []string
	// Trace and Swim are the workloads, as trace.Open takes them; empty:
	// synthetic:google-day and swim:facebook-day. Scale makes the first one smaller or
	// larger if it is synthetic; 0: 1 (0.02 with Quick).
	Trace, Swim string
	Scale       float64
	// Media is a file of measurements (sim.Measurements); empty: those that come with
	// the program.
	Media string
	// Version is that of the program, for the report.
	Version string
}

// SimExperiments are the names that SimOptions.Only takes.
var SimExperiments = []string{simFigure3, simFigure5, simCost, simSwim, simSeeds, simCalibration}

const (
	simFigure3     = "3"
	simFigure5     = "5"
	simCost        = "cost"
	simSwim        = "swim"
	simSeeds       = "seeds"
	simCalibration = "calibration"
)

const experimentSim = "sim"

func (o *SimOptions) complete() error {
	for _, e := range o.Only {
		if !slices.Contains(SimExperiments, e) {
			return fmt.Errorf("experiment %q: want %s", e, strings.Join(SimExperiments, ", "))
		}
	}
	if len(o.Only) == 0 {
		o.Only = SimExperiments
	}
	if o.Repeats == 0 {
		o.Repeats = 5
		if o.Quick {
			o.Repeats = 2
		}
	}
	if o.Trace == "" {
		o.Trace = "synthetic:google-day"
	}
	if o.Swim == "" {
		o.Swim = "swim:facebook-day"
	}
	if o.Scale == 0 {
		o.Scale = 1
		if o.Quick {
			o.Scale = 0.02
		}
	}
	if !(o.Scale > 0 && o.Scale <= 100) {
		return fmt.Errorf("scale %g: want more than 0 and at most 100", o.Scale)
	}
	return o.RunOptions.complete(experimentSim)
}

// Sim runs the experiments with the simulator: the figures of checkpoint-preemption
// on a day like Google's, reading on a day of Facebook's, and how well the simulator
// foretells what the daemon does. It writes tables to Stdout and the
// files that were asked for. When ctx ends it stops, cleans up, reports what it has so
// far, and returns the cause. Only the experiment calibration needs root. One call at
// a time.
func Sim(ctx context.Context, o SimOptions) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench sim: %w", err)
	}
	res := &SimResults{Circumstances: Circumstances{Experiment: experimentSim}}
	return o.conduct(res, func() error { return o.measure(ctx, res) })
}

// simExperiment is a part of a run. weight is its part of the time.
type simExperiment struct {
	title  string
	names  []string // of SimOptions.Only, any of which asks for it
	weight float64
	run    func(*simRunner, context.Context) error
}

var simExperiments = []simExperiment{
	{"the day", []string{simFigure3, simFigure5, simCost, simSeeds}, 0.35, (*simRunner).days},
	{"reading", []string{simSwim}, 0.15, (*simRunner).swim},
	{"calibration", []string{simCalibration}, 0.2, (*simRunner).calibration},
}

// simRunner runs the experiments.
type simRunner struct {
	o     *SimOptions
	res   *SimResults
	media sim.Measurements

	progress *report.Progress
	// done and todo are the shares of the whole run before the present experiment and
	// in it.
	done, todo float64
}

// say tells what is being done; share is the part of the present experiment.
func (s *simRunner) say(share float64, format string, args ...any) {
	s.progress.Set(s.done+share*s.todo, fmt.Sprintf(format, args...))
}

func (o *SimOptions) measure(ctx context.Context, res *SimResults) (err error) {
	if res.Circumstances, err = o.circumstances(experimentSim); err != nil {
		return err
	}
	res.Machine.Headrace = o.Version
	s := &simRunner{o: o, res: res, progress: o.progress()}
	defer s.progress.Done()
	defer func() { res.end(err) }()
	if s.media, err = o.measurements(); err != nil {
		return err
	}
	res.media(s.media)
	var chosen []simExperiment
	total, done := 0.0, 0.0
	for _, e := range simExperiments {
		if slices.ContainsFunc(e.names, o.wants) {
			chosen = append(chosen, e)
			total += e.weight
		}
	}
	var errs []error
	for _, e := range chosen {
		s.done, s.todo = done/total, e.weight/total
		err := e.run(s, ctx)
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx), notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", e.title, err))
		}
		done += e.weight
	}
	return errors.Join(errs...)
}

func (o *SimOptions) wants(experiment string) bool { return slices.Contains(o.Only, experiment) }

// measurements are those of the file, or those that come with the program.
func (o *SimOptions) measurements() (sim.Measurements, error) {
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
