package trace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"headrace/trace/alibaba"
	"headrace/trace/google"
	"headrace/trace/google2019"
	"headrace/trace/input"
	"headrace/trace/kubernetes"
	"headrace/trace/native"
	"headrace/trace/rumen"
	"headrace/trace/sls"
	"headrace/trace/slurm"
	"headrace/trace/swf"
	"headrace/trace/swim"
	"headrace/trace/synthetic"
	"headrace/trace/workload"
	"headrace/trace/yarn"
)

// OpenOptions say how a workload is made of a trace. The zero value is fine.
type OpenOptions struct {
	// Seed and Scale are for synthetic traces: what chance begins with, and times as
	// many jobs; 0: 1.
	Seed  uint64
	Scale float64
	// From and For are the window of the trace: only tasks submitted at From or
	// later and before From+For are kept, and Submit counts from From. For 0: all
	// from From on.
	From, For time.Duration
	// MaxTasks is how many tasks Open makes at most; more are an error. 0:
	// DefaultMaxTasks.
	MaxTasks int

	// Rules give tasks priorities by who submitted them and by the names of their jobs.
	Rules workload.Rules

	// Given is for the formats that have no options of their own.
	Given workload.Given

	Google google.Options
	Swim   swim.Options
	Yarn   yarn.Options

	// Progress, if not nil, is called now and then, from the goroutine that calls
	// Open.
	Progress func(input.Progress)
}

// Sources returns the forms of Open's source, for help texts.
func Sources() []string {
	return []string{"google2011:DIR", "google2019:DIR", "alibaba2018:DIR", "swf:FILE", "slurm:FILE", "kubernetes:PATH", "swim:FILE", "swim:facebook-day",
		"csv:FILE", "yarn:PATH", "sls:FILE", "rumen:FILE", "synthetic:google-day", "synthetic:FILE"}
}

// Open returns the workload of a trace:
//
//	google2011:DIR        clusterdata-2011-2 as published: DIR/task_events/part-*.csv.gz
//	google2019:DIR        clusterdata-2019: DIR/instance_events*, and collection_events*
//	alibaba2018:DIR       cluster-trace-v2018: DIR/batch_task.*, and batch_instance.*
//	swf:FILE              the Standard Workload Format
//	slurm:FILE            what sacct --parsable2 prints
//	kubernetes:PATH       pods as kubectl prints them: a file or a directory
//	swim:FILE             jobs in the format of SWIM
//	swim:facebook-day     swim.FacebookDay
//	csv:FILE              what WriteCSV writes
//	yarn:PATH             applications and containers: a file or a directory
//	sls:FILE              jobs of Hadoop's Scheduler Load Simulator
//	rumen:FILE            jobs as Hadoop's Rumen writes them
//	synthetic:google-day  a day like Google's, generated
//	synthetic:FILE        the same with the parameters in FILE
//
// Any FILE may end in .gz.
//
// It holds about a hundred bytes for each task, twice that before it returns. When
// ctx ends it returns its error.
func Open(ctx context.Context, source string, o OpenOptions) (*workload.Workload, error) {
	part := o.part()
	part.Names = true
	w, err := workload.Gather(part, func(to workload.Sink) (workload.About, error) { return read(ctx, source, o, part, to) })
	if errors.Is(err, workload.ErrNoTasks) {
		err = fmt.Errorf("%s: %w", source, err)
	}
	return w, err
}

func (o *OpenOptions) part() workload.Part {
	return workload.Part{From: o.From, For: o.For, Tasks: cmp.Or(o.MaxTasks, workload.DefaultMaxTasks)}
}

// read reads a trace into a sink.
func read(ctx context.Context, source string, o OpenOptions, part workload.Part, to workload.Sink) (workload.About, error) {
	kind, name, ok := strings.Cut(source, ":")
	if !ok || name == "" {
		return workload.About{}, unknownSource(source)
	}
	if o.From < 0 || o.For < 0 || o.MaxTasks < 0 {
		return workload.About{}, fmt.Errorf("trace: a window from %v for %v, %d tasks at most: want no negative values", o.From, o.For, o.MaxTasks)
	}
	if err := o.Rules.Check(); err != nil {
		return workload.About{}, err
	}
	var ruled *workload.Ruled
	if len(o.Rules) > 0 {
		ruled = o.Rules.Over(to)
		part.Names, to = true, ruled
	}
	m := input.NewMeter(ctx, o.Progress)
	var a workload.About
	err := ctx.Err()
	switch {
	case err != nil:
	case source == "swim:facebook-day":
		a, err = swim.Tasks(m, swim.FacebookDay(), o.Swim, part, to)
	case kind == "google2011":
		a, err = google.Read(m, name, o.Google, part, to)
	case kind == "swim":
		err = m.WithFile(name, func(r io.Reader) (err error) {
			a, err = swim.Tasks(m, swim.Read(r), o.Swim, part, to)
			return err
		})
	case readers[kind] != nil:
		a, err = readers[kind](m, name, o.Given, part, to)
	case kind == "yarn":
		a, err = yarn.Read(m, name, o.Yarn, part, to)
	case kind == "synthetic":
		a, err = synthetic.Read(m, name, o.Seed, o.Scale, to)
	default:
		err = unknownSource(source)
	}
	if err != nil {
		return workload.About{}, err
	}
	m.Done()
	if a.Name == "" {
		a.Name = source
	}
	if ruled != nil {
		for _, rule := range ruled.Unused() {
			a.Note("no task is under the rule %v", rule)
		}
	}
	return a, nil
}

// readers are the formats that have no options of their own.
var readers = map[string]func(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (workload.About, error){
	"csv":         native.Read,
	"swf":         swf.Read,
	"slurm":       slurm.Read,
	"sls":         sls.Read,
	"rumen":       rumen.Read,
	"google2019":  google2019.Read,
	"alibaba2018": alibaba.Read,
	"kubernetes":  kubernetes.Read,
}

func unknownSource(source string) error {
	return fmt.Errorf("trace %q: want one of %s", source, strings.Join(Sources(), ", "))
}
