package trace

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
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

	Google GoogleOptions
	Swim   SwimOptions
	Yarn   YarnOptions

	// Progress, if not nil, is called now and then, from the goroutine that calls
	// Open.
	Progress func(Progress)
}

// DefaultMaxTasks takes about 1 GB when a workload is held, and for a moment twice
// as much.
const DefaultMaxTasks = 10_000_000

// Progress is how far the reading of a trace has come.
type Progress struct {
	// Read are the bytes read, as they are stored, of Total; 0: not known.
	Read, Total int64
	// Records are the lines, events, jobs or containers read.
	Records int64
}

// Sources returns the forms of Open's source, for help texts.
func Sources() []string {
	return []string{"google2011:DIR", "swim:FILE", "swim:facebook-day", "csv:FILE", "yarn:PATH", "synthetic:google-day", "synthetic:FILE"}
}

// Open returns the workload of a trace:
//
//	google2011:DIR        clusterdata-2011-2 as published: DIR/task_events/part-*.csv.gz
//	swim:FILE             jobs in the format of SWIM; FILE may end in .gz
//	swim:facebook-day     FacebookDay
//	csv:FILE              what WriteCSV writes; FILE may end in .gz
//	yarn:PATH             applications and containers: a file or a directory
//	synthetic:google-day  a day like Google's, generated
//	synthetic:FILE        the same with the parameters in FILE
//
// It holds about a hundred bytes for each task, twice that before it returns. When
// ctx ends it returns its error.
func Open(ctx context.Context, source string, o OpenOptions) (*Workload, error) {
	c := &collector{most: o.mostTasks()}
	a, err := read(ctx, source, o, &window{to: c, from: o.From, length: o.For})
	if err != nil {
		return nil, err
	}
	if c.n == 0 {
		return nil, fmt.Errorf("%s: %w", source, errNoTasks)
	}
	return c.workload(a), nil
}

func (o *OpenOptions) mostTasks() int {
	if o.MaxTasks == 0 {
		return DefaultMaxTasks
	}
	return o.MaxTasks
}

// read reads a trace into a sink.
func read(ctx context.Context, source string, o OpenOptions, to sink) (about, error) {
	kind, name, ok := strings.Cut(source, ":")
	if !ok || name == "" {
		return about{}, unknownSource(source)
	}
	if o.From < 0 || o.For < 0 || o.MaxTasks < 0 {
		return about{}, fmt.Errorf("trace: a window from %v for %v, %d tasks at most: want no negative values", o.From, o.For, o.MaxTasks)
	}
	m := newMeter(ctx, o.Progress)
	var a about
	err := ctx.Err()
	switch {
	case err != nil:
	case source == "swim:facebook-day":
		a, err = readSwim(m, FacebookDay(), o, to)
	case kind == "google2011":
		a, err = readGoogle(m, name, o, to)
	case kind == "swim":
		err = m.withFile(name, func(r io.Reader) (err error) {
			a, err = readSwim(m, Read(r), o, to)
			return err
		})
	case kind == "csv":
		err = m.withFile(name, func(r io.Reader) (err error) {
			a, err = readCSV(m, r, to)
			return err
		})
	case kind == "yarn":
		a, err = readYarn(m, name, o, to)
	case kind == "synthetic":
		a, err = readSynthetic(m, name, o, to)
	default:
		err = unknownSource(source)
	}
	if err != nil {
		return about{}, err
	}
	m.done()
	if a.Name == "" {
		a.Name = source
	}
	return a, nil
}

// readSynthetic generates a day.
func readSynthetic(m *meter, name string, o OpenOptions, to sink) (about, error) {
	d := GoogleDay()
	if name != GoogleDayName {
		err := m.withFile(name, func(r io.Reader) (err error) {
			d, err = ReadDay(r)
			return err
		})
		if err != nil {
			return about{}, err
		}
	}
	scale := o.Scale
	if scale == 0 {
		scale = 1
	}
	w, err := d.Generate(o.Seed, scale)
	if err != nil {
		return about{}, err
	}
	return about{Name: w.Name, Cluster: w.Cluster, Notes: w.Notes}, pour(m, w, to)
}

// pour puts the tasks of a workload into a sink.
func pour(m *meter, w *Workload, to sink) error {
	for _, name := range w.Jobs {
		to.job(name)
	}
	for _, f := range w.Files {
		to.size(to.file(f.Name), f.Bytes)
	}
	for _, t := range w.Tasks {
		m.record()
		if err := to.task(t); err != nil {
			return err
		}
	}
	return nil
}

func unknownSource(source string) error {
	return fmt.Errorf("trace %q: want one of %s", source, strings.Join(Sources(), ", "))
}
