package page

import (
	"headrace/report"
	"headrace/sim"
)

// timeSection is load, waiting and preemption over time.
func (s set) timeSection(p *report.Page) {
	var blocks []report.Block
	for _, c := range []struct {
		title, note string
		y           report.Axis
		of          func(*sim.Result) []report.Point
	}{
		{"CPUs held", "The share of all CPUs that tasks hold. What is wasted is held too, so that a higher curve is not more work done. Points are means of about a hundredth of the time.",
			report.Axis{Label: "share of the CPUs", Unit: report.UnitPercent},
			func(r *sim.Result) []report.Point { return steps(r.Load, r.Step) }},
		{"Tasks that wait", "How many tasks want to run and do not: those that were never started, and those that had to leave. Lower is better.",
			report.Axis{Label: "tasks"},
			func(r *sim.Result) []report.Point { return steps(r.Waiting, r.Step) }},
		{"Preempted, hour by hour", "Of the times that tasks came to run, the share that ended because they had to leave (checkpoint-preemption, figure 1a).",
			report.Axis{Label: "share preempted", Unit: report.UnitPercent}, hourly},
	} {
		if panes := s.overTime(c.of); panes != nil {
			panes.Title, panes.Note, panes.Y = c.title, c.note, c.y
			blocks = append(blocks, report.Block{Panes: panes, Half: len(panes.Panes) == 1})
		}
	}
	if len(blocks)%2 == 1 && len(blocks) > 0 {
		blocks[len(blocks)-1].Half = false
	}
	if len(blocks) > 0 {
		p.Add("Over time", blocks...)
	}
}

// overTime has a pane for each medium; nil when there is nothing to draw.
func (s set) overTime(of func(*sim.Result) []report.Point) *report.Panes {
	panes := &report.Panes{X: report.Axis{Label: "time since the first submission", Unit: report.UnitSeconds}, Columns: 2}
	found := false
	for _, f := range s.facets() {
		pane := report.Pane{Title: f.name}
		for i, r := range f.results {
			points := of(r)
			found = found || len(points) > 0
			pane.Series = append(pane.Series, report.Series{Name: f.names[i], Points: points})
		}
		panes.Panes = append(panes.Panes, pane)
	}
	if !found {
		return nil
	}
	return panes
}

// mostSteps is how many points a curve over time has at most.
const mostSteps = 96

// steps places means of equal parts of time in their middles. Of many parts,
// neighbours are put together.
func steps(means []float64, step float64) []report.Point {
	if !(step > 0) {
		return nil
	}
	each := max(1, (len(means)+mostSteps-1)/mostSteps)
	var points []report.Point
	for i := 0; i < len(means); i += each {
		some := means[i:min(i+each, len(means))]
		sum := 0.0
		for _, v := range some {
			sum += v
		}
		points = append(points, report.Point{X: (float64(i) + float64(len(some))/2) * step, Y: sum / float64(len(some))})
	}
	return points
}

func hourly(r *sim.Result) []report.Point {
	var points []report.Point
	for i, h := range r.Outcome.Hourly {
		points = append(points, report.Point{X: (float64(i) + 0.5) * 3600, Y: share(h.Preemptions, h.Scheduled)})
	}
	return points
}
