package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"headrace/lab/sample"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// Point is where on the axes of an experiment on reading a run lies. What is not
// varied is zero.
type Point struct {
	// Cache is the page cache of a node, Buffer the part of it that warming may pin; 0:
	// no warming.
	Cache  int64 `json:"cache,omitempty"`
	Buffer int64 `json:"buffer,omitempty"`
	// Lead is how long jobs are known before their tasks, in seconds.
	Lead float64 `json:"lead,omitempty"`
	// InMemory: everything is there when it is wanted, which is the most that warming
	// can gain.
	InMemory bool `json:"in_memory,omitempty"`
	// ByResidency: what is in memory goes first, where it is.
	ByResidency bool `json:"by_residency,omitempty"`
	// Factor is how many times the page caches of all nodes the data are.
	Factor float64 `json:"factor,omitempty"`
}

// String says what it is.
func (p Point) String() string {
	switch {
	case p.InMemory:
		return "all in memory"
	case p.Buffer > 0:
		return fmt.Sprintf("warm buffer of %s, %s ahead", report.Capacity(p.Buffer), report.Seconds(p.Lead))
	case p.Factor > 0 && p.ByResidency:
		return fmt.Sprintf("data of %.2f times the page caches, what is in memory first", p.Factor)
	case p.Factor > 0:
		return fmt.Sprintf("data of %.2f times the page caches", p.Factor)
	case p.ByResidency:
		return fmt.Sprintf("page cache of %s, what is in memory first", report.Capacity(p.Cache))
	case p.Cache > 0:
		return fmt.Sprintf("page cache of %s", report.Capacity(p.Cache))
	}
	return "cold"
}

// The grids: what a node keeps for warming and for reading again, and the lead time.
// Ignem's jobs have 10 s (section IV-F); quartet's nodes have 24 GB (section 5.1).
var (
	warmBuffers = []int64{1e9, 4e9, 16e9}
	warmLeads   = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second}
	readCaches  = []int64{4e9, 16e9, 64e9}
)

// warmCache is the page cache where the buffer is what is varied.
const warmCache = 16e9

// swim runs the day of SWIM with and without warming, and with and without going by
// what is in memory.
func (s *runner) swim(ctx context.Context) error {
	s.say(0, "reading the trace of SWIM")
	w, err := trace.Open(ctx, s.o.Swim, trace.OpenOptions{Seed: s.o.Seed})
	if err != nil {
		return err
	}
	if s.o.Quick {
		w = firstTasks(w, 2000)
	}
	base, err := s.swimTask(w, Point{})
	if err != nil {
		return err
	}
	s.res.Swim = setupOf(w, base.config)
	if err := s.simulate(ctx, w, []simTask{base}, 0, 0.1); err != nil {
		return err
	}
	switch cold := s.res.Runs[len(s.res.Runs)-1]; {
	case cold.Failure != "":
		return nil
	case cold.Reading == nil:
		s.res.Skip("(swim) gains of warming and of order", "the simulator says nothing about reading for "+s.o.Swim+": its tasks have no inputs, or it does not simulate reading yet")
		s.res.Runs, s.res.Swim = s.res.Runs[:len(s.res.Runs)-1], nil
		return nil
	}
	if err := s.swimAt(ctx, w, warmPoints(s.o.Quick), 0.1, 0.5); err != nil {
		return err
	}
	return s.swimAt(ctx, again(w, repeatAfter), residencyPoints(s.o.Quick), 0.5, 1)
}

// swimAt runs w at all points.
func (s *runner) swimAt(ctx context.Context, w *trace.Workload, points []Point, from, to float64) error {
	var tasks []simTask
	for _, p := range points {
		t, err := s.swimTask(w, p)
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	return s.simulate(ctx, w, tasks, from, to)
}

// warmPoints returns those that are compared with the cold one.
func warmPoints(quick bool) []Point {
	buffers, leads := warmBuffers, warmLeads
	if quick {
		buffers, leads = buffers[1:2], leads[1:2]
	}
	out := []Point{{InMemory: true}}
	for _, b := range buffers {
		for _, l := range leads {
			out = append(out, Point{Buffer: b, Lead: l.Seconds()})
		}
	}
	return out
}

// residencyPoints are pairs, without and with the order.
func residencyPoints(quick bool) []Point {
	caches := readCaches
	if quick {
		caches = caches[1:2]
	}
	var out []Point
	for _, c := range caches {
		for _, by := range []bool{false, true} {
			out = append(out, Point{Cache: c, ByResidency: by})
		}
	}
	return out
}

// repeatAfter is when each job comes again where order is compared. The jobs of the
// trace have files of their own; quartet's come twice.
const repeatAfter = 10 * time.Minute

// again returns a workload in which every job comes a second time, on the same files.
func again(w *trace.Workload, after time.Duration) *trace.Workload {
	twice := *w
	twice.Jobs = slices.Clone(w.Jobs)
	for _, name := range w.Jobs {
		twice.Jobs = append(twice.Jobs, name+" again")
	}
	twice.Tasks = slices.Clone(w.Tasks)
	for _, t := range w.Tasks {
		t.Job += int32(len(w.Jobs))
		t.Submit += after
		twice.Tasks = append(twice.Tasks, t)
	}
	slices.SortStableFunc(twice.Tasks, func(a, b trace.Task) int { return cmp.Compare(a.Submit, b.Submit) })
	return &twice
}

// The servers are Ignem's (section IV-C), which has eight of them for a day of SWIM
// that is scaled down; so many take the day as it is.
const swimNodes = 64

// swimTask returns the run at a point. Nobody is preempted: reading is what is
// compared.
func (s *runner) swimTask(w *trace.Workload, p Point) (simTask, error) {
	c, err := s.simConfig(w, policy.Wait, s.media.Names()[0])
	if err != nil {
		return simTask{}, err
	}
	if w.Cluster.Nodes == 0 {
		c.Nodes, c.Node.CPUs, c.Node.Memory, c.Node.Net = swimNodes, 12, 128e9, 1.25e9
	}
	c.Reading.Cache = warmCache
	return s.readingTask(expSwim, p, c), nil
}

// readingTask returns the run of an experiment at a point, in a cluster.
func (s *runner) readingTask(experiment string, p Point, c sim.Config) simTask {
	r := &c.Reading
	r.Buffer, r.Lead, r.ByResidency = p.Buffer, time.Duration(p.Lead*float64(time.Second)), p.ByResidency
	if p.Cache > 0 {
		r.Cache = p.Cache
	}
	if p.InMemory {
		r.Disk, r.Shared = r.Memory, r.Memory
	}
	return simTask{run: Run{Experiment: experiment, Seed: s.o.Seed, Point: p, Result: sim.Result{Policy: policy.Wait}}, config: c}
}

// firstTasks returns a workload with the first n tasks of another one.
func firstTasks(w *trace.Workload, n int) *trace.Workload {
	short := *w
	short.Tasks = w.Tasks[:min(n, len(w.Tasks))]
	return &short
}

// points returns those of an experiment that have numbers.
func (r *Results) points(experiment string) []Point {
	return sample.Distinct(sample.Where(r.in(experiment), func(x Run) bool { return x.Failure == "" }), func(x Run) Point { return x.Point })
}

// at returns the run of an experiment at a point, nil if there is none.
func (r *Results) at(experiment string, p Point) *Run {
	for i := range r.Runs {
		if x := &r.Runs[i]; x.Experiment == experiment && x.Point == p && x.Failure == "" {
			return x
		}
	}
	return nil
}

var swimColumns = []report.Column{{Title: ""}, {Title: "jobs: response", Align: report.Right}, {Title: "over cold", Align: report.Right},
	{Title: "tasks: reading", Align: report.Right}, {Title: "over cold", Align: report.Right},
	{Title: "from memory", Align: report.Right}, {Title: "warmed", Align: report.Right}, {Title: "from other nodes", Align: report.Right}}

func swimRow(x, cold *Run) []report.Cell {
	row := []report.Cell{report.Str(x.Point.String()), report.Num(x.meanResponse(), report.UnitSeconds), changeCell(x, cold, (*Run).meanResponse)}
	if x.Reading == nil {
		return row
	}
	share := func(bytes int64) report.Cell {
		return report.Num(float64(bytes)/float64(max(x.Reading.Bytes, 1)), report.UnitPercent)
	}
	return append(row, report.Num(x.Reading.Time, report.UnitSeconds), changeCell(x, cold, readingTime),
		share(x.Reading.FromMemory), share(x.Reading.Warmed), share(x.Reading.Remote))
}

func readingTime(r *Run) float64 {
	if r.Reading == nil {
		return 0
	}
	return r.Reading.Time
}

// warmTable returns what warming gains (ignem, section IV-D).
func (r *Results) warmTable() *report.Table {
	t := &report.Table{Title: "Inputs warmed while jobs wait (ignem, section IV-D)", Columns: swimColumns,
		Note: "Means. " + ofIgnem() + " " + r.Swim.String() + "."}
	cold := r.at(expSwim, Point{})
	for _, p := range r.points(expSwim) {
		if p == (Point{}) || p.InMemory || p.Buffer > 0 {
			t.Add(swimRow(r.at(expSwim, p), cold)...)
		}
	}
	return t
}

// residencyTable returns what going by what is in memory gains (quartet, section 5.2).
func (r *Results) residencyTable() *report.Table {
	t := &report.Table{Title: "What is in memory goes first, where it is (quartet, section 5.2)", Columns: slices.Clone(swimColumns),
		Note: fmt.Sprintf("Means. Every job of the day comes a second time after %s, on the same files, so that at most half of what is read can come from memory. "+
			"The second row of each pair is compared with the first. The paper compares two identical jobs alone: up to 54 %% more of the reads come from memory.", report.Duration(repeatAfter))}
	t.Columns[2].Title, t.Columns[4].Title = "over without", "over without"
	for _, p := range r.points(expSwim) {
		if p.Cache == 0 {
			continue
		}
		without := p
		without.ByResidency = false
		t.Add(swimRow(r.at(expSwim, p), r.at(expSwim, without))...)
	}
	return t
}

// warmLines returns the mean response over the lead time, one line for each buffer.
func (r *Results) warmLines() *report.Lines {
	l := &report.Lines{Title: "Response of jobs, of that cold", Better: report.Lower,
		X: report.Axis{Label: "known ahead", Unit: report.UnitSeconds}, Y: report.Axis{Unit: report.UnitPercent}}
	cold := r.at(expSwim, Point{})
	if cold == nil || cold.meanResponse() == 0 {
		return l
	}
	for _, b := range warmBuffers {
		s := report.Series{Name: report.Capacity(b) + " a node"}
		for _, p := range r.points(expSwim) {
			if p.Buffer == b {
				s.Points = append(s.Points, report.Point{X: p.Lead, Y: r.at(expSwim, p).meanResponse() / cold.meanResponse()})
			}
		}
		if len(s.Points) > 0 {
			l.Series = append(l.Series, s)
		}
	}
	return l
}
