package traces

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"headrace"
	"headrace/cli"
	"headrace/report"
	"headrace/trace"
	"headrace/trace/workload"
)

// Flags say which part of a trace is taken, and what it leaves open.
type Flags struct {
	Seed          uint64
	scale         float64
	start, length cli.Span
	maxTasks      uint
	grow          cli.Span
	dirty         float64
	given         givenFlags

	google googleFlags
	swim   swimFlags
	yarn   yarnFlags

	// all are the flags of the command.
	all *pflag.FlagSet
}

type googleFlags struct {
	cores  cli.CPUs
	memory cli.Size
}

// givenFlags are for all formats but those that have flags of their own.
type givenFlags struct {
	priorities []string
	cores      cli.CPUs
	memory     cli.Size
}

type swimFlags struct {
	block, reduce, rate cli.Size
	start               cli.Span
	cores               cli.CPUs
	memory              cli.Size
	priority, small     cli.Priority
	smallBytes          cli.Size
}

type yarnFlags struct {
	queues   []string
	priority cli.Priority
	zone     string
}

// Define adds the flags to a command.
func (f *Flags) Define(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	f.all = flags
	flags.Uint64Var(&f.Seed, "seed", 1, "the `NUMBER` that chance begins with; the same gives the same result")
	flags.Float64Var(&f.scale, "scale", 1, "synthetic: this many `TIMES` the jobs, tasks and nodes")
	flags.Var(&f.start, "start", "leave out what was submitted earlier than this after the start of the trace")
	flags.Var(&f.length, "for", "take what was submitted in this time (default: to the end)")
	flags.UintVar(&f.maxTasks, "max-tasks", 0, fmt.Sprintf("give up at more than this `NUMBER` of tasks (default %d)", trace.DefaultMaxTasks))
	flags.Var(&f.grow, "grow", "how long a task runs until it holds all of its memory, where the trace does not say")
	flags.Float64Var(&f.dirty, "dirty", 0.01, "the `SHARE` of its memory that a task changes in a second, where the trace does not say")
	f.given.define(flags)
	f.google.define(flags)
	f.swim.define(flags)
	f.yarn.define(flags)
	cli.CompleteValues(cmd, "swim-priority", "free", "low", "normal", "high", "production")
	cli.CompleteValues(cmd, "swim-small-priority", "free", "low", "normal", "high", "production")
	cli.CompleteValues(cmd, "yarn-priority", "free", "low", "normal", "high", "production")
}

func (f *givenFlags) define(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.priorities, "priority-by", nil, "priorities `BY` queue:NAME=PRIORITY, user:PATTERN=PRIORITY or name:PATTERN=PRIORITY, that of the job; the first that matches; @FILE: a line for each; may be repeated")
	flags.Var(&f.cores, "machine-cores", "google2019: the CPUs of the largest machine, of which requests are shares (default 32)")
	flags.Var(&f.memory, "machine-memory", "google2019, alibaba2018: its memory (default 128G)")
}

func (f *googleFlags) define(flags *pflag.FlagSet) {
	flags.Var(&f.cores, "google2011-cores", "google2011: the CPUs of the largest machine, of which requests are shares (default 32)")
	flags.Var(&f.memory, "google2011-memory", "google2011: its memory (default 128G)")
}

func (f *swimFlags) define(flags *pflag.FlagSet) {
	flags.Var(&f.block, "swim-block", "swim: what a map task reads (default 128M)")
	flags.Var(&f.reduce, "swim-reduce", "swim: what a reduce task is given (default 1G)")
	flags.Var(&f.rate, "swim-rate", "swim: what a task computes in a second (default 50MB)")
	flags.Var(&f.start, "swim-start", "swim: the least time that a task runs (default 1s)")
	flags.Var(&f.cores, "swim-cores", "swim: the CPUs of a task (default 1)")
	flags.Var(&f.memory, "swim-memory", "swim: the memory of a task (default 1G)")
	f.priority, f.small = cli.Priority(headrace.Normal), cli.Priority(headrace.Normal)
	flags.Var(&f.priority, "swim-priority", "swim: the priority of jobs")
	flags.Var(&f.small, "swim-small-priority", "swim: the priority of small jobs, if it is another")
	flags.Var(&f.smallBytes, "swim-small", "swim: what a small job reads, shuffles and writes at most (default 1G)")
}

func (f *yarnFlags) define(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.queues, "yarn-queue", nil, "yarn: the priority of a queue, as `QUEUE=PRIORITY`; may be repeated")
	f.priority = cli.Priority(headrace.Normal)
	flags.Var(&f.priority, "yarn-priority", "yarn: the priority of applications that have none, in other queues")
	flags.StringVar(&f.zone, "yarn-zone", "", "yarn: the time `ZONE` of the logs, such as Europe/Berlin (default: found out)")
}

// Load reads a trace, shows how far it is, and says what there is to note.
func Load(ctx context.Context, app *cli.App, name string, f *Flags) (*trace.Workload, error) {
	a := verbs{app}
	source, o, err := a.opening(name, f)
	if err != nil {
		return nil, err
	}
	w, err := reading(ctx, a.readBar(source, &o), func() (*trace.Workload, error) { return trace.Open(ctx, source, o) })
	if err != nil {
		return nil, err
	}
	a.Notes(w.Notes)
	return w, nil
}

// opening returns what package trace is asked for.
func (a verbs) opening(name string, f *Flags) (source string, o trace.OpenOptions, err error) {
	if source, err = a.source(name); err == nil {
		o, err = f.options(source)
	}
	return source, o, err
}

// readBar shows how far the reading of a trace is, until it is done.
func (a verbs) readBar(source string, o *trace.OpenOptions) *report.Progress {
	bar := a.Bar()
	o.Progress = func(p trace.Progress) { bar.Set(readShare(p), source+"  "+readText(p)) }
	return bar
}

// reading does something that ends when ctx does, or when whoever writes to a pipe
// that is read does something; it does not wait for that.
func reading[T any](ctx context.Context, bar *report.Progress, do func() (T, error)) (T, error) {
	defer bar.Done()
	type end struct {
		found T
		err   error
	}
	done := make(chan end, 1)
	go func() {
		found, err := do()
		done <- end{found, err}
	}()
	select {
	case e := <-done:
		return e.found, e.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func readShare(p trace.Progress) float64 {
	if p.Total <= 0 {
		return -1
	}
	return float64(p.Read) / float64(p.Total)
}

func readText(p trace.Progress) string {
	text := cli.Grouped(int(p.Records)) + " records"
	if p.Total > 0 {
		text = fmt.Sprintf("%s of %s, %s", report.Bytes(p.Read), report.Bytes(p.Total), text)
	}
	return text
}

func (f *Flags) options(source string) (trace.OpenOptions, error) {
	assumed := trace.Assumed{Grow: time.Duration(f.grow), Dirty: f.dirty}
	o := trace.OpenOptions{
		Seed: f.Seed, Scale: f.scale, From: time.Duration(f.start), For: time.Duration(f.length), MaxTasks: int(f.maxTasks),
		Given:  workload.Given{Assumed: assumed, CPUs: float64(f.given.cores), Memory: int64(f.given.memory)},
		Google: trace.GoogleOptions{CPUs: float64(f.google.cores), Memory: int64(f.google.memory), Assumed: assumed},
		Swim: trace.SwimOptions{Block: int64(f.swim.block), Reduce: int64(f.swim.reduce), Rate: float64(f.swim.rate),
			Start: time.Duration(f.swim.start), CPUs: float64(f.swim.cores), Memory: int64(f.swim.memory),
			Priority: (*headrace.Priority)(&f.swim.priority), SmallBytes: int64(f.swim.smallBytes), Assumed: assumed},
		Yarn: trace.YarnOptions{Priority: (*headrace.Priority)(&f.yarn.priority), Assumed: assumed},
	}
	if err := f.suits(source); err != nil {
		return o, err
	}
	if f.all.Changed("swim-small-priority") {
		o.Swim.Small = (*headrace.Priority)(&f.swim.small)
	}
	for _, assumed := range []*trace.Assumed{&o.Given.Assumed, &o.Google.Assumed, &o.Swim.Assumed, &o.Yarn.Assumed} {
		if f.dirty == 0 {
			assumed.Dirty = -1 // 0 stands for the default there
		}
	}
	var err error
	if o.Yarn.Queues, err = prioritiesOf("yarn-queue", f.yarn.queues); err != nil {
		return o, err
	}
	if err = f.given.rules(source, &o); err != nil {
		return o, err
	}
	if f.yarn.zone != "" {
		if o.Yarn.Zone, err = time.LoadLocation(f.yarn.zone); err != nil {
			return o, cli.UsageErrorf("--yarn-zone %q: want the name of a time zone, such as Europe/Berlin or UTC", f.yarn.zone)
		}
	}
	return o, nil
}

// suits refuses values out of range, and flags that are about another format.
func (f *Flags) suits(source string) error {
	format, _, _ := strings.Cut(source, ":")
	var needless error
	f.all.Visit(func(flag *pflag.Flag) {
		if of := aboutFormats[flag.Name]; needless == nil && of != "" && !about(of, format) {
			needless = cli.UsageErrorf("--%s is about %s; the trace is %s", flag.Name, of, source)
		}
	})
	switch {
	case needless != nil:
		return needless
	case !(f.scale > 0 && f.scale <= 1e6):
		return cli.UsageErrorf("--scale %v: want a number above 0, such as 0.1 or 10", f.scale)
	case !(f.dirty >= 0 && f.dirty <= 1):
		return cli.UsageErrorf("--dirty %v: want a share from 0 to 1", f.dirty)
	case f.swim.smallBytes > 0 && !f.all.Changed("swim-small-priority"):
		return cli.UsageErrorf("--swim-small says which jobs are small: say what becomes of them with --swim-small-priority")
	}
	return nil
}

// about reports whether a flag that is about some formats is about this one.
func about(formats, format string) bool {
	if others, all := strings.CutPrefix(formats, "all formats but "); all {
		return !strings.Contains(others, format)
	}
	return strings.Contains(formats, format)
}

// aboutFormats are the flags that only some formats have a use for.
var aboutFormats = map[string]string{
	"scale": "synthetic",
	"grow":  "all formats but synthetic", "dirty": "all formats but synthetic",
	"machine-cores": "google2019", "machine-memory": "google2019 and alibaba2018",
	"google2011-cores": "google2011", "google2011-memory": "google2011",
	"swim-block": "swim", "swim-reduce": "swim", "swim-rate": "swim", "swim-start": "swim", "swim-cores": "swim",
	"swim-memory": "swim", "swim-priority": "swim", "swim-small-priority": "swim", "swim-small": "swim",
	"yarn-queue": "yarn", "yarn-priority": "yarn", "yarn-zone": "yarn",
}

// withQueues are the formats in which jobs have queues, partitions, QOS or priority classes.
const withQueues = "swf, slurm, sls, rumen, kubernetes and yarn"

// rules reads --priority-by.
func (f *givenFlags) rules(source string, o *trace.OpenOptions) error {
	lines, err := cli.Lines("priority-by", f.priorities)
	if err != nil {
		return err
	}
	o.Given.Priorities = map[string]headrace.Priority{}
	for _, line := range lines {
		by, rest, _ := strings.Cut(line, ":")
		at := strings.LastIndexByte(rest, '=')
		if at <= 0 || by != "queue" && by != "user" && by != "name" {
			return cli.UsageErrorf("--priority-by %q: want queue:NAME=PRIORITY, user:PATTERN=PRIORITY or name:PATTERN=PRIORITY, such as user:alice=production", line)
		}
		var p cli.Priority
		if err := p.Set(rest[at+1:]); err != nil {
			return cli.UsageErrorf("--priority-by %q: %w", line, err)
		}
		if by != "queue" {
			o.Rules = append(o.Rules, workload.Rule{ByUser: by == "user", Pattern: rest[:at], Priority: headrace.Priority(p)})
			continue
		}
		if format, _, _ := strings.Cut(source, ":"); !about(withQueues, format) {
			return cli.UsageErrorf("--priority-by %q: there are queues in %s; the trace is %s", line, withQueues, source)
		}
		o.Given.Priorities[rest[:at]], o.Yarn.Queues[rest[:at]] = headrace.Priority(p), headrace.Priority(p)
	}
	if err := o.Rules.Check(); err != nil {
		return cli.UsageErrorf("--priority-by: %w", err)
	}
	return nil
}

// prioritiesOf reads the values of a flag that gives priorities to queues.
func prioritiesOf(flag string, values []string) (map[string]headrace.Priority, error) {
	queues := map[string]headrace.Priority{}
	for _, s := range values {
		queue, text, found := strings.Cut(s, "=")
		var p cli.Priority
		if !found || queue == "" {
			return nil, cli.UsageErrorf("--%s %q: want QUEUE=PRIORITY, such as root.prod=production", flag, s)
		}
		if err := p.Set(text); err != nil {
			return nil, cli.UsageErrorf("--%s %q: %w", flag, s, err)
		}
		queues[queue] = headrace.Priority(p)
	}
	return queues, nil
}
