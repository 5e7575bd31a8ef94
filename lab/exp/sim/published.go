package sim

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"headrace/lab/sample"
	"headrace/paper"
	"headrace/policy"
	"headrace/report"
	"headrace/trace"
	"headrace/trace/swim"
)

// The workloads of the papers on reading, at the papers' scale: that of ignem (section
// IV.B) and the two jobs of quartet (figure 1).
const (
	expIgnem   = "ignem"
	expQuartet = "quartet"

	ignemBlock = 64 << 20
	// ignemRate is what a task does with its input, in bytes per second: little, say the
	// authors of tasks of SWIM.
	ignemRate = 400e6

	quartetBlock  = 128 << 20
	quartetBlocks = 50 // that the page cache of a node has room for
	quartetNodes  = 12
)

// ignemPoints are warming with all memory and more and more time, and with little memory.
func ignemPoints(quick bool) []Point {
	out := []Point{{}, {InMemory: true}}
	ahead := paper.OfIgnem().Ahead
	leads, buffers := []float64{0, 2, 5, ahead, 20}, []int64{1 << 28, 1 << 29, 1 << 30, 1 << 31}
	if quick {
		leads, buffers = []float64{ahead}, nil
	}
	for _, l := range leads {
		out = append(out, Point{Buffer: ignemBuffer, Lead: l})
	}
	for _, b := range buffers {
		out = append(out, Point{Buffer: b, Lead: ahead})
	}
	return out
}

const ignemBuffer = 32 << 30

func (s *runner) ignem(ctx context.Context) error {
	w, err := s.ignemWorkload(ctx)
	if err != nil {
		return err
	}
	c, err := s.simConfig(w, policy.Wait, s.media.Names()[0])
	if err != nil {
		return err
	}
	c.Nodes, c.Node.CPUs, c.Node.Net, c.Interval = paper.OfIgnem().Nodes, 12, 1.25e9, time.Second
	c.Reading.Block, c.Reading.Cache = ignemBlock, 64<<30
	var tasks []simTask
	for _, p := range ignemPoints(s.o.Quick) {
		tasks = append(tasks, s.readingTask(expIgnem, p, c))
	}
	return s.simulate(ctx, w, tasks, 0, 1)
}

// ignemWorkload returns the first jobs of the trace that comes with the program, scaled
// as the paper's.
func (s *runner) ignemWorkload(ctx context.Context) (*trace.Workload, error) {
	p := paper.OfIgnem()
	first := swim.First(swim.FacebookDay(), p.Jobs)
	var sum int64
	for j, err := range first {
		if err != nil {
			return nil, err
		}
		sum += j.Input
	}
	var tsv strings.Builder
	for j, err := range swim.Scaled(first, swim.Scale{Bytes: p.Input / float64(sum), Time: 1 / p.Faster}) {
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&tsv, "%s\t%d\t0\t%d\t%d\t%d\n", j.ID, j.Submit/time.Second, j.Input, j.Shuffle, j.Output)
	}
	dir, err := os.MkdirTemp(s.o.Dir, "headrace-ignem")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "jobs.tsv")
	if err := os.WriteFile(file, []byte(tsv.String()), 0o600); err != nil {
		return nil, err
	}
	return trace.Open(ctx, "swim:"+file, trace.OpenOptions{Swim: trace.SwimOptions{Block: ignemBlock, Rate: ignemRate}})
}

// quartet runs two jobs on the same file, one after the other.
func (s *runner) quartet(ctx context.Context) error {
	factors := []float64{2. / 3, 4. / 3, 8. / 3}
	if s.o.Quick {
		factors = factors[:2]
	}
	for i, f := range factors {
		w := quartetWorkload(int(f * quartetNodes * quartetBlocks))
		c, err := s.simConfig(w, policy.Wait, s.media.Names()[0])
		if err != nil {
			return err
		}
		c.Nodes, c.Node.CPUs, c.Interval = quartetNodes, 8, 100*time.Millisecond
		c.Reading.Cache = quartetBlocks * quartetBlock
		var tasks []simTask
		for _, by := range []bool{false, true} {
			tasks = append(tasks, s.readingTask(expQuartet, Point{Factor: f, ByResidency: by}, c))
		}
		if err := s.simulate(ctx, w, tasks, float64(i)/float64(len(factors)), float64(i+1)/float64(len(factors))); err != nil {
			return err
		}
	}
	return nil
}

func quartetWorkload(blocks int) *trace.Workload {
	w := &trace.Workload{Name: expQuartet, Jobs: []string{"first", "second"}, Files: []trace.File{{Name: "file"}}}
	for i := range 2 * blocks {
		w.Tasks = append(w.Tasks, trace.Task{
			Job: int32(i / blocks), Submit: time.Duration(i/blocks) * time.Hour, Run: 300 * time.Millisecond,
			File: 1, Offset: int64(i%blocks) * quartetBlock, Input: quartetBlock, CPUs: 1, Memory: 1 << 20,
		})
	}
	return w
}

// publishedTables are those of the experiments that were run.
func (r *Results) publishedTables() (out []*report.Table) {
	if cold := r.at(expIgnem, Point{}); cold != nil {
		t := &report.Table{Title: "Ignem's workload, on servers like its own (section IV)", Columns: swimColumns,
			Note: "Means. The response has no time in it from the submission to the first task. " + ofIgnem()}
		for _, p := range r.points(expIgnem) {
			t.Add(swimRow(r.at(expIgnem, p), cold)...)
		}
		out = append(out, t)
	}
	if points := r.points(expQuartet); len(points) > 0 {
		t := &report.Table{Title: "The second of two identical jobs, on servers like quartet's (figure 1)",
			Columns: []report.Column{{Title: ""}, {Title: "from memory", Align: report.Right}, {Title: "paper", Align: report.Right}}}
		for _, p := range points {
			t.Add(report.Str(p.String()), report.Num(secondHits(r.at(expQuartet, p)), report.UnitPercent), report.Str(paper.SecondJobHits(p.Factor, p.ByResidency)))
		}
		out = append(out, t)
	}
	return out
}

// ofIgnem says in a line what was published.
func ofIgnem() string {
	p := paper.OfIgnem()
	return fmt.Sprintf("The paper's cluster, with %.0f s ahead: jobs -%.0f %% (-%.0f %% with all inputs in memory), reading of blocks -%.0f %%, %.0f %% of the blocks from memory.",
		p.Ahead, 100*p.Shorter, 100*p.InMemory, 100*p.Reads, 100*p.FromMemory)
}

// secondHits is which part of what the second job has read came from memory: the first
// finds nothing there.
func secondHits(x *Run) float64 {
	return float64(x.Reading.FromMemory) / (float64(x.Reading.Bytes) / 2)
}

// ignemAims hold for the time ahead that the paper's jobs have, which is part of their
// duration.
func (r *Results) ignemAims() []sample.Aim {
	p := paper.OfIgnem()
	cold, warm := r.at(expIgnem, Point{}), r.at(expIgnem, Point{Buffer: ignemBuffer, Lead: p.Ahead})
	if cold == nil || warm == nil {
		return nil
	}
	once := func(v float64) sample.Spread { return sample.SpreadOf([]float64{v}) }
	return []sample.Aim{
		{What: "ignem's workload: jobs shorter, warmed", Paper: report.Percent(p.Shorter), Part: simIgnem, Unit: report.UnitPercent, AtLeast: true,
			Bound: 0.08, Value: once(1 - (warm.meanResponse()+p.Ahead)/(cold.meanResponse()+p.Ahead))},
		{What: "ignem's workload: reads shorter, warmed", Paper: report.Percent(p.Reads), Part: simIgnem, Unit: report.UnitPercent, AtLeast: true,
			Bound: p.Reads, Value: once(1 - readingTime(warm)/readingTime(cold))},
		{What: "ignem's workload: from memory, warmed", Paper: report.Percent(p.FromMemory), Part: simIgnem, Unit: report.UnitPercent, AtLeast: true,
			Bound: 0.5, Value: once(float64(warm.Reading.FromMemory) / float64(warm.Reading.Bytes))},
	}
}

// quartetAims ask for what is in memory, which is all of a small file.
func (r *Results) quartetAims() (out []sample.Aim) {
	for _, p := range r.points(expQuartet) {
		if !p.ByResidency {
			continue
		}
		a := sample.Aim{What: "quartet's second job: from memory, of what can be", Paper: paper.SecondJobHits(p.Factor, true), Part: simQuartet, Unit: report.UnitPercent,
			AtLeast: true, Bound: 0.95, Where: p.String()}
		if p.Factor > 1 {
			a.Bound = 0.9
		}
		a.Value = sample.SpreadOf([]float64{secondHits(r.at(expQuartet, p)) * max(1, p.Factor)})
		out = append(out, a)
	}
	return out
}
