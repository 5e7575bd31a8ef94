package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"time"

	"headrace/report"
)

// experimentResults are the results of one experiment.
type experimentResults interface {
	circumstances() *Circumstances
	// any tells whether anything has been measured.
	any() bool
	// tables are all of them, the aims last.
	tables() []*report.Table
	page() *report.Page
}

// conduct runs an experiment, or reads what an earlier run has written, and publishes
// what there is, also of a run that has failed. Whoever is not root learns why root is
// needed, unless that is empty. When ctx ends, the error is its cause and what has gone
// wrong beside that.
func (o *RunOptions) conduct(ctx context.Context, r experimentResults, root string, measure func(*report.Progress) error) error {
	experiment := r.circumstances().Experiment
	var err error
	if o.From != "" {
		err = readResults(o.From, r)
	} else {
		err = o.measure(ctx, r.circumstances(), root, measure)
	}
	if err == nil || r.any() {
		err = errors.Join(err, o.publish(r))
	}
	if err != nil {
		return fmt.Errorf("bench %s: %w", experiment, err)
	}
	return nil
}

func (o *RunOptions) measure(ctx context.Context, c *Circumstances, root string, measure func(*report.Progress) error) (err error) {
	if root != "" {
		if err := needsRoot(root); err != nil {
			return err
		}
	}
	if err := c.begin(o); err != nil {
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
	c.end(err)
	return err
}

// needsRoot says why an experiment cannot be run by an ordinary user.
func needsRoot(why string) error {
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
func (o *RunOptions) publish(r experimentResults) error {
	err := writeTables(o.Stdout, o.Terminal, r)
	if o.JSON != "" && o.From == "" {
		err = errors.Join(err, writeResults(o.JSON, r))
	}
	err = errors.Join(err,
		writeRendered(o.HTML, func(w io.Writer) error { return r.page().WriteHTML(w) }),
		writeRendered(o.Markdown, func(w io.Writer) error { return writeTablesMarkdown(w, r) }))
	for _, path := range []string{o.HTML, o.JSON, o.Markdown} {
		if path != "" && (path != o.JSON || o.From == "") {
			fmt.Fprintf(o.Stdout, "written: %s\n", path)
		}
	}
	return err
}

// A part of an experiment is run or left out as a whole. Weight is its part of the
// time.
type part struct {
	name   string
	weight float64
	// run gets the shares of the whole run before it and in it.
	run func(done, todo float64) error
}

// inParts runs the parts one after the other. One that fails leaves the others; when
// ctx ends, no more are run.
func inParts(ctx context.Context, parts []part) error {
	total, done := 0.0, 0.0
	for _, p := range parts {
		total += p.weight
	}
	var errs []error
	for _, p := range parts {
		err := p.run(done/total, p.weight/total)
		if ctx.Err() != nil {
			return errors.Join(append(errs, notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		done += p.weight
	}
	return errors.Join(errs...)
}

// mostFailures in a row end an experiment: something is wrong with the machine or
// with the daemon, and hours of it would tell no more.
const mostFailures = 4

// A turn is where in an experiment a run has taken place, and why it has no numbers,
// if it has none.
type turn struct {
	repeat  int // from 0
	order   int // within the repeat
	failure string
}

// rounds is how the entries of an experiment are repeated. Entries print as what they
// are.
type rounds[E, R any] struct {
	repeats int
	seed    uint64
	entries []E
	// order is that of the entries in a repeat; nil: at random.
	order func(*rand.Rand) []int
	// say tells what comes next; name begins the lines about runs: "(a) ", or nothing.
	say  func(share float64, format string, args ...any)
	name string

	run func(E) (R, error)
	// keep takes what has come of a run.
	keep func(E, R, turn)
}

// do carries out all entries once per repeat, each time in another order. It ends
// early when ctx does, whose last run is not kept, and after too many failures.
func (x rounds[E, R]) do(ctx context.Context, c *Circumstances) error {
	failures, n := 0, len(x.entries)
	for repeat := range x.repeats {
		random := rand.New(rand.NewPCG(x.seed, uint64(repeat)))
		order := x.order
		if order == nil {
			order = func(r *rand.Rand) []int { return r.Perm(n) }
		}
		for place, i := range order(random) {
			e, t := x.entries[i], turn{repeat: repeat, order: place}
			share := (float64(repeat) + float64(place)/float64(n)) / float64(x.repeats)
			x.say(share, "%srepeat %d of %d: %v", x.name, repeat+1, x.repeats, e)
			r, err := x.run(e)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if failures++; err == nil {
				failures = 0
			} else {
				t.failure = err.Error()
				c.failed("%srepeat %d, %v: %s", x.name, repeat+1, e, t.failure)
			}
			x.keep(e, r, t)
			if failures == mostFailures {
				return fmt.Errorf("%d runs in a row have failed, the last one (%v): %w", failures, e, err)
			}
		}
	}
	return nil
}
