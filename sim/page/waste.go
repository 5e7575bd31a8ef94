package page

import (
	"headrace/report"
	"headrace/sim"
)

// wasteSection is figures 3a and 3b of checkpoint-preemption.
func (s set) wasteSection(p *report.Page) {
	stacks := &report.Stacks{
		Title: "Wasted time of CPUs, by cause",
		Note: "Each bar is the share of all CPU time held that brought nothing to its end; shorter is better. " +
			"Hatched: thrown away by kills; purple: standing still while memory is written (solid) and read back (striped).",
		Unit: report.UnitPercent, Better: report.Lower, Targets: "published for kill and checkpoint",
	}
	for _, c := range causes {
		stacks.Parts = append(stacks.Parts, report.Part{Name: c.title, Kind: c.kind})
	}
	for i, r := range s.results {
		row := report.Stack{Name: s.labels[i], Target: s.published.of(publishedWaste(r)), Label: coreHours(wasted(r)) + " core-h"}
		for _, c := range causes {
			row.Values = append(row.Values, ratio(c.of(r.Work), r.Work.Used()))
		}
		stacks.Rows = append(stacks.Rows, row)
	}
	bars := &report.Bars{
		Title: "Energy and time",
		Note: "Energy is the utilisation of each node turned into watts, times the makespan. The dotted line is " + s.refName + ". " +
			"Differences are small where idle nodes draw most of it.",
		Rows: s.labels,
		Groups: []report.BarGroup{
			s.group(column{"Energy", unitEnergy, report.Lower, energy}, true),
			s.group(column{"Makespan", report.UnitHours, report.Lower, makespan}, true),
			s.group(column{"Nodes busy", report.UnitPercent, "", func(r *sim.Result) float64 { return r.Energy.Utilisation }}, false),
		},
	}
	p.Add("What is wasted", report.Block{Stacks: stacks}, report.Block{Bars: bars},
		report.Block{Table: s.wasteTable()}, report.Block{Table: s.causeTable()})
}

// group returns a measure as bars, with a line at the reference's if asked for.
func (s set) group(c column, line bool) report.BarGroup {
	g := report.BarGroup{Title: c.title, Unit: c.unit, Better: c.better, Values: s.values(c.of)}
	if same(g.Values) {
		g.Better = ""
	}
	if v := c.of(s.reference); line && len(s.results) > 1 && v > 0 {
		g.Line = v
	}
	return g
}
