package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"headrace/lab/rig"
	"headrace/report"
)

// Results are the results of one experiment.
type Results interface {
	About() *Circumstances
	// Any tells whether anything has been measured.
	Any() bool
	// Tables returns all of them, the aims last.
	Tables() []*report.Table
	Page() *report.Page
}

// Conduct runs an experiment, or reads what an earlier run has written, and publishes
// what there is, also of a run that has failed. Whoever is not root learns why root is
// needed, unless that is empty. When ctx ends, the error is its cause and what has gone
// wrong beside that.
func (o *Options) Conduct(ctx context.Context, r Results, root string, measure func(*report.Progress) error) error {
	experiment := r.About().Experiment
	var err error
	if o.From != "" {
		err = ReadResults(o.From, r)
	} else {
		err = o.measure(ctx, r.About(), root, measure)
	}
	if err == nil || r.Any() {
		err = errors.Join(err, o.publish(r))
	}
	if err != nil {
		return fmt.Errorf("bench %s: %w", experiment, err)
	}
	return nil
}

func (o *Options) measure(ctx context.Context, c *Circumstances, root string, measure func(*report.Progress) error) (err error) {
	if root != "" {
		if err := NeedsRoot(root); err != nil {
			return err
		}
	}
	if err := c.Begin(o); err != nil {
		return err
	}
	p := report.NewProgress(o.Stderr, o.Live)
	p.Terminal = o.Terminal
	p.Every = 30 * time.Second
	defer p.Done()
	err = measure(p)
	if ctx.Err() != nil {
		err = errors.Join(context.Cause(ctx), notCancelled(err))
	}
	c.End(err)
	return err
}

// NeedsRoot says why an experiment cannot be run by an ordinary user.
func NeedsRoot(why string) error {
	if os.Geteuid() != 0 {
		return errors.New("not root: " + why + "; run it with sudo")
	}
	return nil
}

// notCancelled is err without what only says that the run was interrupted.
func notCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// publish shows the results and writes the files.
func (o *Options) publish(r Results) error {
	err := WriteTables(o.Stdout, o.Terminal, r)
	if o.JSON != "" && o.From == "" {
		err = errors.Join(err, WriteResults(o.JSON, r))
	}
	err = errors.Join(err,
		writeRendered(o.HTML, func(w io.Writer) error { return r.Page().WriteHTML(w) }),
		writeRendered(o.Markdown, func(w io.Writer) error { return WriteTablesMarkdown(w, r) }))
	for _, path := range []string{o.HTML, o.JSON, o.Markdown} {
		if path != "" && (path != o.JSON || o.From == "") {
			fmt.Fprintf(o.Stdout, "written: %s\n", path)
		}
	}
	return err
}

// A Part of an experiment is run or left out as a whole. Weight is its part of the
// time.
type Part struct {
	Name   string
	Weight float64
	// Run gets the shares of the whole run before it and in it.
	Run func(done, todo float64) error
}

// PartOf returns a part that tells h where in the whole run it is.
func PartOf(h *rig.Bench, name string, weight float64, run func() error) Part {
	return Part{Name: name, Weight: weight, Run: func(done, todo float64) error {
		h.Done, h.Todo = done, todo
		return run()
	}}
}

// InParts runs the parts one after the other. One that fails leaves the others; when
// ctx ends, no more are run.
func InParts(ctx context.Context, parts []Part) error {
	total, done := 0.0, 0.0
	for _, p := range parts {
		total += p.Weight
	}
	var errs []error
	for _, p := range parts {
		err := p.Run(done/total, p.Weight/total)
		if ctx.Err() != nil {
			return errors.Join(append(errs, notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
		}
		done += p.Weight
	}
	return errors.Join(errs...)
}

// mostFailures in a row end an experiment: something is wrong with the machine or
// with the daemon, and hours of it would tell no more.
const mostFailures = 4

// A Turn is where in an experiment a run has taken place, and why it has no numbers,
// if it has none.
type Turn struct {
	Repeat  int // from 0
	Order   int // within the repeat
	Failure string
}

// Rounds is how the entries of an experiment are repeated. Entries print as what they
// are.
type Rounds[E, R any] struct {
	Repeats int
	Seed    uint64
	Entries []E
	// Order is that of the entries in a repeat; nil: at random.
	Order func(*rand.Rand) []int
	// Say tells what comes next; name begins the lines about runs: "(a) ", or nothing.
	Say  func(share float64, format string, args ...any)
	Name string

	Run func(E) (R, error)
	// Keep takes what has come of a run.
	Keep func(E, R, Turn)
}

// Do carries out all entries once per repeat, each time in another order. It ends
// early when ctx does, whose last run is not kept, and after too many failures.
func (x Rounds[E, R]) Do(ctx context.Context, c *Circumstances) error {
	failures, n := 0, len(x.Entries)
	for repeat := range x.Repeats {
		random := rand.New(rand.NewPCG(x.Seed, uint64(repeat)))
		order := x.Order
		if order == nil {
			order = func(r *rand.Rand) []int { return r.Perm(n) }
		}
		for place, i := range order(random) {
			e, t := x.Entries[i], Turn{Repeat: repeat, Order: place}
			share := (float64(repeat) + float64(place)/float64(n)) / float64(x.Repeats)
			x.Say(share, "%srepeat %d of %d: %v", x.Name, repeat+1, x.Repeats, e)
			r, err := x.Run(e)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failures++; err == nil {
				failures = 0
			} else {
				t.Failure = err.Error()
				c.Failed("%srepeat %d, %v: %s", x.Name, repeat+1, e, t.Failure)
			}
			x.Keep(e, r, t)
			if failures == mostFailures {
				return fmt.Errorf("%d runs in a row have failed, the last one (%v): %w", failures, e, err)
			}
		}
	}
	return nil
}
