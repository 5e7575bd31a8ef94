package page

import (
	"fmt"

	"headrace"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// preemptionSection is who had to leave, how and how often: figure 1c and tables 1
// and 2 of checkpoint-preemption.
func (s set) preemptionSection(p *report.Page) {
	blocks := []report.Block{{Stacks: s.mechanisms()}}
	if panes := s.oftenPanes(); panes != nil {
		blocks = append(blocks, report.Block{Panes: panes})
	}
	blocks = append(blocks, report.Block{Table: s.preemptionTable()})
	for _, t := range []*report.Table{s.bandShares(), s.classShares()} {
		if t != nil {
			blocks = append(blocks, report.Block{Table: t})
		}
	}
	p.Add("Who has to leave", blocks...)
}

func (s set) mechanisms() *report.Stacks {
	stacks := &report.Stacks{
		Title: "How often tasks had to leave, and by what",
		Note:  "Preemptions for each task of the workload: a task counts each time. More is no harm where leaving costs little.",
		Parts: []report.Part{{Name: "kill", Kind: report.Lost}, {Name: "suspend", Kind: report.Suspended}, {Name: "checkpoint", Kind: report.Checkpointing}},
	}
	for i, r := range s.results {
		c := r.Counts
		stacks.Rows = append(stacks.Rows, report.Stack{
			Name: s.labels[i], Values: []float64{share(c.Kills, r.Tasks), share(c.Suspends, r.Tasks), share(c.Checkpoints, r.Tasks)},
			Label: grouped(c.Preemptions()) + " in all",
		})
	}
	return stacks
}

// publishedName is the series of published values.
const publishedName = "published"

// oftenPanes returns the distributions of preemptions per preempted task.
func (s set) oftenPanes() *report.Panes {
	panes := &report.Panes{
		Title: "How often the same task had to leave",
		Note: "Of the tasks that were preempted, the share that was at least so often. " +
			"A curve that falls steeply means that few tasks are hit again and again.",
		X: report.Axis{Label: "preemptions of a task, at least"}, Y: report.Axis{Label: "share of preempted tasks", Unit: report.UnitPercent},
	}
	found := false
	for _, f := range s.facets() {
		pane := report.Pane{Title: f.name}
		for i, r := range f.results {
			if points := often(r.Outcome); points != nil {
				found = true
				pane.Series = append(pane.Series, report.Series{Name: f.names[i], Points: points})
			}
		}
		if s.published {
			series := report.Series{Name: publishedName}
			for n := 1; n <= trace.OftenTimes; n++ {
				series.Points = append(series.Points, report.Point{X: float64(n), Y: publishedOften(n)})
			}
			pane.Series = append(pane.Series, series)
		}
		panes.Panes = append(panes.Panes, pane)
	}
	if !found {
		return nil
	}
	return panes
}

// often returns the share of preempted tasks that were preempted at least 1, 2, ...
// times; nil when none were.
func often(o trace.Outcome) []report.Point {
	some, _ := preempted(o)
	if some <= 0 {
		return nil
	}
	points := make([]report.Point, 0, len(o.Times))
	left := some
	for i := 1; i < len(o.Times); i++ {
		points = append(points, report.Point{X: float64(i), Y: share(left, some)})
		left -= o.Times[i]
	}
	return points
}

// rate returns the share of runs that ended by preemption, or, where it is not known
// how often tasks came to run, that of tasks that were preempted.
func rate(p trace.Preempted) float64 {
	if p.Scheduled > 0 {
		return share(p.Preemptions, p.Scheduled)
	}
	return share(p.Preempted, p.Tasks)
}

// shares has a row for each result and a column for each group of tasks that there
// are.
func (s set) shares(title string, names []string, of func(r *sim.Result, i int) trace.Preempted, published func(i int) float64) *report.Table {
	t := &report.Table{Title: title, Columns: []report.Column{{Title: "policy"}},
		Note: "Of the times that a task came to run, the share that ended because it had to leave."}
	tasks, known := []report.Cell{report.Toned("tasks", report.Dim)}, []report.Cell{report.Str(publishedName)}
	rows := make([][]report.Cell, len(s.results))
	for k, l := range s.labels {
		rows[k] = []report.Cell{report.Str(l)}
	}
	for i, name := range names {
		n := 0
		for _, r := range s.results {
			n = max(n, of(r, i).Tasks)
		}
		if n == 0 {
			continue
		}
		t.Columns = append(t.Columns, right(name))
		tasks = append(tasks, report.Toned(grouped(n), report.Dim))
		known = append(known, fine(published(i)))
		for k, r := range s.results {
			rows[k] = append(rows[k], fine(rate(of(r, i))))
		}
	}
	if len(tasks) == 1 {
		return nil
	}
	if t.Add(tasks...); s.published {
		t.Add(known...)
		t.Note += " Published: checkpoint-preemption, tables 1 and 2, which are about a month, under kills."
	}
	t.Rows = append(t.Rows, rows...)
	return t
}

// fine returns a share with two decimals, as the tables of the paper have it.
func fine(v float64) report.Cell {
	c := report.Num(v, report.UnitPercent)
	if c.Value != nil {
		c.Text = fmt.Sprintf("%.2f %%", v*100)
	}
	return c
}

// bandShares is table 1: bands, from priorities.
func (s set) bandShares() *report.Table {
	names := []string{"free", "middle", "production", "all"}
	of := func(r *sim.Result, i int) trace.Preempted {
		var sum trace.Preempted
		for p, v := range r.Outcome.ByPriority {
			if name := headrace.Priority(p).Band(); i == len(names)-1 || name == names[i] {
				sum = plus(sum, v)
			}
		}
		return sum
	}
	return s.shares("Preempted, by priority", names, of, publishedBands)
}

// classShares is table 2: how sensitive to latency.
func (s set) classShares() *report.Table {
	names := []string{"class 0 (lowest)", "class 1", "class 2", "class 3 (highest)"}
	of := func(r *sim.Result, i int) trace.Preempted {
		if i < len(r.Outcome.ByClass) {
			return r.Outcome.ByClass[i]
		}
		return trace.Preempted{}
	}
	return s.shares("Preempted, by sensitivity to latency", names, of, publishedClasses)
}

func plus(a, b trace.Preempted) trace.Preempted {
	a.Tasks += b.Tasks
	a.Preempted += b.Preempted
	a.Preemptions += b.Preemptions
	a.Scheduled += b.Scheduled
	return a
}
