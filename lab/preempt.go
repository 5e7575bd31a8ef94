package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"headrace/report"
	"headrace/wire"
)

// experiment is one letter of PreemptOptions.Only. weight is its part of the
// time of a whole run.
type experiment struct {
	name, title string
	weight      float64
	run         func(*harness, context.Context, sizes) error
	// checkpoints are what it is about.
	checkpoints bool
}

var experiments = []experiment{
	{"a", "light tasks", 0.18, (*harness).light, false},
	{"b", "large dirty memory", 0.40, (*harness).dirtyMemory, false},
	{"c", "storage bandwidths", 0.34, (*harness).storage, true},
	{"d", "second checkpoint", 0.08, (*harness).secondCheckpoint, true},
}

// Preempt runs the experiments and writes the report: tables to Stdout, and the
// files that were asked for. When ctx ends it stops, cleans up, reports what has
// been measured so far, and returns the cause. It needs root: swap, loop devices
// and checkpoints do. One call at a time.
func Preempt(ctx context.Context, o PreemptOptions) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("bench preempt: %w", err)
	}
	res, err := o.results(ctx)
	if res == nil {
		return fmt.Errorf("bench preempt: %w", err)
	}
	if shown := o.publish(res); shown != nil {
		err = errors.Join(err, shown)
	}
	if err != nil {
		return fmt.Errorf("bench preempt: %w", err)
	}
	return nil
}

// results are measured, or read from a file. They are nil when there are none at
// all.
func (o *PreemptOptions) results(ctx context.Context) (*Results, error) {
	if o.From != "" {
		return ReadResults(o.From)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("not root: swap files, loop devices and checkpoints need it; run it with sudo")
	}
	z, err := o.sizes()
	if err != nil {
		return nil, err
	}
	machine, err := thisMachine()
	if err != nil {
		return nil, err
	}
	res := &Results{Version: resultsVersion, Command: strings.Join(o.Command, " "), Started: time.Now(),
		Machine: machine, Seed: o.Seed, Repeats: o.Repeats}
	err = o.measure(ctx, res, z)
	res.Took = time.Since(res.Started).Seconds()
	res.Complete = err == nil
	if len(res.Runs)+len(res.Dumps) == 0 && err != nil {
		return nil, err
	}
	return res, err
}

func (o *PreemptOptions) measure(ctx context.Context, res *Results, z sizes) error {
	progress := report.NewProgress(o.Stderr, o.Live)
	progress.Terminal = o.Terminal
	progress.Every = 30 * time.Second
	defer progress.Done()

	var chosen []experiment
	total, done := 0.0, 0.0
	for _, e := range experiments {
		if slices.Contains(o.Only, e.name) {
			chosen = append(chosen, e)
			total += e.weight
		}
	}
	noCheckpoint, err := o.probe(ctx, res, progress)
	if err != nil {
		return err
	}
	if noCheckpoint != "" {
		res.skip("everything with checkpoints", noCheckpoint)
	}
	var errs []error
	for _, e := range chosen {
		if e.checkpoints && noCheckpoint != "" {
			continue
		}
		h := &harness{o: o, res: res, progress: progress, noCheckpoint: noCheckpoint, done: done / total, todo: e.weight / total}
		err := h.with(func() error { return e.run(h, ctx, z) })
		if ctx.Err() != nil {
			return errors.Join(append(errs, context.Cause(ctx), notCancelled(err))...)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("(%s) %s: %w", e.name, e.title, err))
		}
		done += e.weight
	}
	return errors.Join(errs...)
}

// notCancelled is err without what only says that the run was interrupted.
func notCancelled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// probe finds out with a small task whether checkpoints work here; why is the
// reason if they do not.
func (o *PreemptOptions) probe(ctx context.Context, res *Results, p *report.Progress) (why string, err error) {
	h := &harness{o: o, res: res, progress: p}
	err = h.with(func() error {
		h.say(0, "trying a checkpoint")
		store, err := h.storeIn(h.disk.dir, storeDisk, "probe")
		if err != nil {
			return err
		}
		c := secondCase{h: h, bytes: 8 << 20, config: daemonConfig{policy: "wait", stores: []storeDir{store}}}
		if err := h.learnVersions(ctx, c.config); err != nil {
			return err
		}
		if _, err = c.run(ctx); err != nil && ctx.Err() == nil && h.running() {
			why = err.Error()
			return nil
		}
		return err
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return why, err
}

// learnVersions asks a daemon who it is.
func (h *harness) learnVersions(ctx context.Context, c daemonConfig) error {
	d, err := h.daemon(ctx, c)
	if err != nil {
		return err
	}
	h.res.Machine.Headrace, err = d.version(ctx)
	return err
}

func (d *daemon) version(ctx context.Context) (string, error) {
	info, err := d.node.Info(ctx, &wire.InfoRequest{})
	if err != nil {
		return "", fmt.Errorf("ask the daemon for its version: %w", err)
	}
	return info.Version, nil
}

// publish shows the results and writes the files.
func (o *PreemptOptions) publish(res *Results) error {
	rep := newReport(res)
	err := rep.writeTerminal(o.Stdout, o.Terminal)
	if o.JSON != "" && o.From == "" {
		err = errors.Join(err, res.write(o.JSON))
	}
	err = errors.Join(err,
		writeRendered(o.HTML, func(w io.Writer) error { return rep.page().WriteHTML(w) }),
		writeRendered(o.Markdown, rep.writeMarkdown))
	if o.Media != "" {
		text, e := res.mediaFile()
		if e == nil {
			e = writeWhole(o.Media, text)
		}
		if e != nil {
			return errors.Join(err, e)
		}
	}
	for _, path := range []string{o.HTML, o.JSON, o.Markdown, o.Media} {
		if path != "" && (path != o.JSON || o.From == "") {
			fmt.Fprintf(o.Stdout, "written: %s\n", path)
		}
	}
	return err
}
