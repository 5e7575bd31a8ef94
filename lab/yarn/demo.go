package yarn

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"headrace/cli"
	"headrace/report"
)

// DemoOptions says how the demonstration talks to people and where it works.
type DemoOptions struct {
	// Stdout gets results, Stderr progress. Terminal says what Stdout can show; Live
	// that Stderr is a terminal.
	Stdout, Stderr io.Writer
	Terminal       report.Terminal
	Live           bool

	// Dir is where the clusters make their directories; empty: os.TempDir.
	Dir string
	// Binary is headrace, with the shim beside it; empty: beside this program, else on
	// PATH.
	Binary string
	// Policy of the manager; empty: its default.
	Policy string
}

// The demonstration's jobs: nightly fills the node, urgent needs more than is left.
const (
	demoMemory  = 512
	demoNightly = 4
	demoUrgent  = 3
	demoSteps   = 150
	demoStep    = 100 * time.Millisecond // more where YARN takes longer than demoStart
	demoStart   = 10 * time.Second
	// demoArrival is the share of nightly that is done when urgent comes.
	demoArrival = 0.4
)

// demo is one demonstration.
type demo struct {
	o        *DemoOptions
	jars     *Jars
	progress *report.Progress
	results  []demoResult
	// step is how long one takes: nightly must not be over when the client of urgent has
	// started.
	step time.Duration
}

// Demo shows on real clusters, one after the other, what happens to a long job when
// an urgent one arrives: under YARN's own preemption, and with Headrace. Everything
// is cleaned up when it returns, also when ctx ends early.
func Demo(ctx context.Context, o DemoOptions) error {
	d := &demo{o: &o}
	if err := d.run(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("yarn demo: %w", err)
	}
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if d.jars, err = Find(); err != nil {
		return err
	}
	if d.o.Binary == "" {
		if d.o.Binary, err = cli.FindProgram("headrace"); err != nil {
			return err
		}
	}
	fmt.Fprintf(d.o.Stdout, "A real YARN on this machine: a ResourceManager and a NodeManager with room for %d containers.\n"+
		"The job nightly fills it: %d tasks of %d steps. When %.0f %% of it is done, the job urgent arrives, with\n"+
		"%d tasks and a queue that is entitled to most of the cluster. First YARN's own preemption, then Headrace's.\n",
		demoNightly, demoNightly, demoSteps, demoArrival*100, demoUrgent)
	for _, mode := range []Mode{Kill, Headrace} {
		if err := d.show(ctx, mode); err != nil {
			return err
		}
	}
	return d.finish()
}

// does returns what a mode means, for people.
func (m Mode) does() string {
	if m == Headrace {
		return "containers of nightly give way, and go on later"
	}
	return "containers of nightly are killed, and start over"
}

// show runs the two jobs in a cluster of their own.
func (d *demo) show(ctx context.Context, mode Mode) (err error) {
	fmt.Fprintf(d.o.Stdout, "\n%s: %s\n", mode, mode.does())
	d.progress = report.NewProgress(d.o.Stderr, d.o.Live)
	d.progress.Terminal = d.o.Terminal
	defer d.progress.Done()
	d.progress.Set(-1, "starting YARN")
	began := time.Now()
	o := Options{Mode: mode, Jars: d.jars, Dir: d.o.Dir, Memory: demoNightly * demoMemory}
	if mode == Headrace {
		o.Binary, o.Policy = d.o.Binary, d.o.Policy
	}
	c, err := Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Abandon())
			return
		}
		d.progress.Set(-1, "stopping YARN")
		err = c.Stop()
	}()
	took := time.Since(began)
	d.step = max(d.step, time.Duration(float64(demoStep)*max(1, took.Seconds()/demoStart.Seconds())).Round(time.Millisecond))
	d.say("YARN is up after %s", report.UnitTenths.Format(took.Seconds()))
	return d.jobs(ctx, c)
}

// jobs runs nightly, and urgent when it is time.
func (d *demo) jobs(ctx context.Context, c *Cluster) error {
	nightly, err := startDemoJob(c, ShellJob{Name: "nightly", Queue: "low", Containers: demoNightly}, demoSteps, d.step)
	if err != nil {
		return err
	}
	v := &demoView{d: d, c: c, nightly: nightly}
	if err := v.watch(ctx, func() bool { return nightly.share() >= demoArrival }); err != nil {
		return err
	}
	if v.urgent, err = startDemoJob(c, ShellJob{Name: "urgent", Queue: "high", Containers: demoUrgent}, demoSteps/7, d.step); err != nil {
		return err
	}
	if err := v.watch(ctx, func() bool { return v.urgent.run.Ended() && nightly.run.Ended() }); err != nil {
		return err
	}
	for _, job := range []*demoJob{v.urgent, nightly} {
		if err := job.run.Succeed(ctx); err != nil {
			return err
		}
	}
	result, err := v.result(ctx)
	if err != nil {
		return err
	}
	d.results = append(d.results, result)
	return nil
}

// say writes a line above the progress.
func (d *demo) say(format string, args ...any) {
	d.progress.Interrupt(func() error {
		_, err := fmt.Fprintf(d.o.Stdout, "  "+format+"\n", args...)
		return err
	})
}

// finish shows what all of it comes to.
func (d *demo) finish() error {
	timeline := &report.Timeline{Title: "What the containers did"}
	table := &report.Table{Columns: []report.Column{{Title: "preemption"},
		{Title: "urgent done after", Align: report.Right, Better: report.Lower},
		{Title: "nightly done after", Align: report.Right, Better: report.Lower},
		{Title: "containers killed", Align: report.Right, Better: report.Lower},
		{Title: "work lost", Align: report.Right, Better: report.Lower}},
		Note: "One run each. Work lost: steps that had to be done again."}
	for _, r := range d.results {
		timeline.Panels = append(timeline.Panels, r.panel)
		table.Add(report.Str(r.mode.String()), report.Num(r.urgent.Seconds(), report.UnitTenths), report.Num(r.nightly.Seconds(), report.UnitTenths),
			report.Num(float64(r.killed), report.UnitNone), report.Num(r.lost.Seconds(), report.UnitTenths))
	}
	var b bytes.Buffer
	b.WriteString("\n")
	err := timeline.WriteText(&b, d.o.Terminal)
	b.WriteString("\n")
	err = errors.Join(err, table.WriteTerminal(&b, d.o.Terminal))
	if err != nil {
		return err
	}
	_, err = d.o.Stdout.Write(b.Bytes())
	return err
}
