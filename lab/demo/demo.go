package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headrace/internal/criu"
	"headrace/internal/linux"
	"headrace/lab/exp/preempt"
	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/lab/work"
	"headrace/report"
)

// demoPolicies in the order in which they are shown: the undisturbed one first,
// because its answer is what the others must give too.
var demoPolicies = []struct{ name, does string }{
	{"wait", "the urgent job waits until the other is done"},
	{"kill", "the other is killed and later starts over"},
	{"suspend", "the other is stopped, and later goes on where it was"},
	{"checkpoint", "the other is written to storage, and later goes on where it was"},
	{"cost", "Headrace takes whichever is expected to cost least"},
}

// demoArrival is the share of the long job that is done when the urgent one comes.
const demoArrival = 0.5

// Options says how large the demonstration is.
type Options struct {
	trial.Output

	// Size is how much text the low-priority job parses, in bytes; 0: 2 GB, or
	// less when memory or disk is short.
	Size int64
	// Text is a directory tree to take the text from; empty: Go's source tree,
	// else what /usr/share and /usr/include hold.
	Text string

	// Dir, Programs and SoloFlags are as in trial.Options.
	Dir string
	rig.Programs
	SoloFlags []string
	// HTML is the page to write; empty: out/demo.html.
	HTML string
}

func (o *Options) complete() error {
	o.Output.Complete()
	if o.Size != 0 && o.Size < 1<<20 {
		return fmt.Errorf("size %d: want at least 1M of text", o.Size)
	}
	if o.HTML == "" {
		o.HTML = "out/demo.html"
	}
	rig.DefaultDir(&o.Dir)
	return nil
}

// demo is one demonstration.
type demo struct {
	o       *Options
	scratch *rig.Scratch
	text    text
	size    int64
	low     rig.Job
	urgent  rig.Job
	about   trial.Circumstances
	runs    preempt.Runs
	answer  string
	// noCheckpoint is why the long job cannot be checkpointed; empty: it can, as
	// far as is known.
	noCheckpoint string
}

// Show shows what the policies do to a long job that parses real text when an
// urgent one arrives. It needs a few minutes, writes a page, and shows the states
// of the jobs while it runs. What the machine does not allow is left out and
// named. Everything is cleaned up when it returns, also when ctx ends early.
func Show(ctx context.Context, o Options) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	d := &demo{o: &o}
	if err := d.run(ctx); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return fmt.Errorf("demo: %w", err)
	}
	return nil
}

func (d *demo) run(ctx context.Context) (err error) {
	if err := d.o.Find(); err != nil {
		return err
	}
	if d.scratch, err = rig.NewScratch(d.o.Dir); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.scratch.Remove()) }()
	if err := d.prepare(ctx); err != nil {
		return err
	}
	d.introduce()
	for _, p := range demoPolicies {
		if err := d.policy(ctx, p.name, p.does); err != nil {
			return err
		}
	}
	return d.finish()
}

// prepare makes the input and the two jobs.
func (d *demo) prepare(ctx context.Context) error {
	err := d.about.Begin(&trial.Options{Command: os.Args, Repeats: 1})
	if err != nil {
		return err
	}
	if d.size, err = d.fitting(); err != nil {
		return err
	}
	if d.text, err = findText(d.o.Text); err != nil {
		return err
	}
	path := filepath.Join(d.scratch.Dir, "text")
	progress := report.NewProgress(d.o.Stderr, d.o.Live)
	progress.Terminal = d.o.Terminal
	defer progress.Done()
	err = d.text.write(ctx, path, d.size, func(share float64) {
		progress.Set(share, "making "+report.Bytes(d.size)+" of text from "+d.text.from)
	})
	if err != nil {
		return fmt.Errorf("make the text: %w", err)
	}
	parse := func(name string, bytes int64) rig.Job {
		return rig.Job{Name: name, Memory: 256 << 20,
			Args: []string{"parse", "--words", "--file", path, "--bytes", strconv.FormatInt(bytes, 10)}}
	}
	d.low, d.urgent = parse("nightly", d.size), parse("urgent", d.size/4)
	return nil
}

// The default size of the text, and what must be left free.
const (
	demoSize = 2 << 30
	demoRoom = 1 << 30
)

// fitting returns the size asked for, or as much as disk and memory allow: text that
// does not stay in memory would make a demonstration of the disk.
func (d *demo) fitting() (int64, error) {
	disk, err := rig.DiskFree(d.o.Dir)
	if err != nil {
		return 0, err
	}
	if d.o.Size != 0 {
		if disk < d.o.Size {
			return 0, fmt.Errorf("%s has room for %s, the text needs %s: give a smaller --size, or another --dir", d.o.Dir, report.Bytes(disk), report.Bytes(d.o.Size))
		}
		return d.o.Size, nil
	}
	mem, err := linux.ProcFS("").MemInfo()
	if err != nil {
		return 0, err
	}
	size := min(demoSize, (disk-demoRoom)/2, mem.Available/2)
	if size < 64<<20 {
		return 0, fmt.Errorf("%s of memory and %s of room in %s are too little for a demonstration: give another --dir", report.Bytes(mem.Available), report.Bytes(disk), d.o.Dir)
	}
	return size, nil
}

func (d *demo) introduce() {
	fmt.Fprintf(d.o.Stdout, "A long job, nightly, counts the words of %s of text (from %s).\n"+
		"When half of it is done, an urgent job arrives that counts those of a quarter as much.\n"+
		"There is one slot. Five ways to make room, one after the other:\n\n",
		report.Bytes(d.size), d.text.from)
}

// policy runs the two jobs under one policy.
func (d *demo) policy(ctx context.Context, name, does string) error {
	if why := d.impossible(name); why != "" {
		d.leaveOut(name, why)
		return nil
	}
	store := filepath.Join(d.scratch.Dir, "store-"+name)
	daemon, err := rig.StartDaemon(ctx, filepath.Join(d.scratch.Dir, "state-"+name), rig.DaemonConfig{
		Programs: d.o.Programs, Flags: d.o.SoloFlags, Policy: name, Stores: []rig.StoreDir{{Name: rig.StoreDisk, Dir: store}}})
	if err != nil {
		return err
	}
	if d.about.Machine.Headrace, err = daemon.Version(ctx); err != nil {
		return errors.Join(err, daemon.Stop())
	}
	live := newLive(d, daemon, name, does)
	t := preempt.Pair{Low: d.low, Urgent: d.urgent, Share: demoArrival, Began: live.began}
	out, err := t.Run(ctx, daemon, d.scratch)
	live.stop()
	err = errors.Join(err, daemon.Stop())
	if errors.Is(err, rig.ErrWrong) && ctx.Err() == nil {
		d.about.Failed("%s: %v", name, err)
		fmt.Fprintf(d.o.Stdout, "%-10s  FAILED: %v\n", name, err)
		return nil
	}
	if err != nil {
		return err
	}
	if name == "checkpoint" && out.Mechanism != name {
		d.leaveOut(name, "Headrace had to "+out.Mechanism+" instead: "+out.Low.NoCheckpoint)
		return nil
	}
	d.took(name, out)
	return nil
}

// leaveOut notes and tells that a policy cannot be shown.
func (d *demo) leaveOut(policy, why string) {
	d.about.Skip(policy, why)
	fmt.Fprintf(d.o.Stdout, "%-10s  left out: %s\n", policy, why)
}

// impossible says why a policy cannot be shown; empty: it can.
func (d *demo) impossible(policy string) string {
	if policy != "checkpoint" {
		return ""
	}
	if os.Geteuid() != 0 {
		return "checkpoints need root: run it with sudo"
	}
	if _, err := criu.Find(); err != nil {
		return err.Error()
	}
	return d.noCheckpoint
}

// took keeps the result of a policy.
func (d *demo) took(policy string, out preempt.Outcome) {
	if d.answer == "" {
		d.answer, _, _ = strings.Cut(out.LowOut, "\n")
		d.low.Answer, d.urgent.Answer = work.LastOf(out.LowOut), work.LastOf(out.UrgentOut)
		d.noCheckpoint = out.Low.NoCheckpoint
	}
	r := out.Run
	r.Experiment, r.Policy, r.Order = preempt.ExpLight, policy, len(d.runs)
	r.Point.Share = demoArrival
	d.runs = append(d.runs, r)
	line := fmt.Sprintf("%-10s  urgent done after %s, all done after %s", policy, report.UnitTenths.Format(r.Sojourn), report.UnitTenths.Format(r.Makespan))
	if r.LostCPU > 0 {
		line += ", " + report.UnitTenths.Format(r.LostCPU) + " of work lost"
	}
	if policy == "cost" {
		line += " (it chose: " + r.Mechanism + ")"
	}
	fmt.Fprintln(d.o.Stdout, line)
}

// finish shows the timelines and the table and writes the page.
func (d *demo) finish() error {
	d.about.End(nil)
	all := d.runs
	if len(all) == 0 {
		return errors.New("no policy could be shown")
	}
	var b bytes.Buffer
	b.WriteString("\n")
	timeline := preempt.TimelineOf(all, "What the two jobs did")
	timeline.Note = ""
	table := d.table(all)
	err := errors.Join(timeline.WriteText(&b, d.o.Terminal), table.WriteTerminal(&b, d.o.Terminal))
	fmt.Fprintf(&b, "\nThe answer, the same every time: %s\n", d.answer)
	if _, e := d.o.Stdout.Write(b.Bytes()); e != nil {
		return e
	}
	var page bytes.Buffer
	err = errors.Join(err, d.page(all, timeline, table).WriteHTML(&page))
	if err == nil {
		err = trial.WriteWhole(d.o.HTML, page.Bytes())
	}
	if err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	path, _ := filepath.Abs(d.o.HTML)
	fmt.Fprintf(d.o.Stdout, "\nTo look at: %s\n", path)
	return nil
}

func (d *demo) table(all preempt.Runs) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: "policy"},
		{Title: "urgent: sojourn", Align: report.Right, Better: report.Lower},
		{Title: "makespan", Align: report.Right, Better: report.Lower},
		{Title: "work lost", Align: report.Right, Better: report.Lower},
		{Title: "more CPU", Align: report.Right}, {Title: "I/O", Align: report.Right}, {Title: "what it did"}},
		Note: "One run each. More CPU: compared with wait. I/O: checkpoint written and read, memory paged."}
	for _, policy := range all.Policies() {
		r := all.By(policy)[0]
		t.Add(report.Str(policy), report.Num(r.Sojourn, report.UnitTenths), report.Num(r.Makespan, report.UnitTenths),
			report.Num(r.LostCPU, report.UnitTenths), report.Num(all.Beyond(policy, "wait", preempt.Run.CPU).Median, report.UnitTenths),
			report.Num(float64(r.Moved()), report.UnitBytes), report.Str(r.Mechanism))
	}
	return t
}

func (d *demo) page(all preempt.Runs, timeline *report.Timeline, table *report.Table) *report.Page {
	p := &report.Page{
		Title: "Making room for an urgent job",
		Intro: fmt.Sprintf("A long job, `nightly`, counts the words of %s of text from `%s`. It has the only slot when an urgent one arrives, which counts those of a quarter as much. "+
			"Each policy makes room in its own way.\n\nThe answer was the same every time: %s.", report.Bytes(d.size), d.text.from, d.answer),
		Facts: d.about.Facts(),
	}
	for _, policy := range []string{"wait", "kill", "suspend", "cost"} {
		if len(all.By(policy)) == 0 {
			continue
		}
		r := all.By(policy)[0]
		p.Figures = append(p.Figures, report.Figure{Value: report.UnitTenths.Format(r.Sojourn),
			Label: "until the urgent job was done under " + policy, Note: "everything done after " + report.UnitTenths.Format(r.Makespan)})
	}
	bars := preempt.BarsOf(all, "What each policy costs")
	bars.Note = "One run each."
	timeline.Title = ""
	p.Add("What the two jobs did", report.Block{Timeline: timeline}, report.Block{Bars: bars}, report.Block{Table: table}, d.about.RemarksText())
	return p
}
