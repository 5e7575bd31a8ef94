package sim

import (
	"fmt"
	"math"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Tables returns all of them, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	if seeds := r.seeds(); len(seeds) > 0 {
		first := r.day(seeds[0])
		out = append(out, r.dayTable(first))
		for _, e := range r.figuresShown() {
			out = append(out, r.figureTable(e))
		}
		if len(seeds) > 1 {
			out = append(out, r.seedTable())
		}
	}
	if len(r.points(expSwim)) > 0 {
		out = append(out, r.warmTable(), r.residencyTable())
	}
	out = append(out, r.publishedTables()...)
	if len(r.Calibrated) > 0 {
		out = append(out, r.calibrationTable(), r.calibratedTaskTable())
	}
	out = append(out, r.shapeTables()...)
	if aims := r.aims(); len(aims) > 0 {
		out = append(out, view.AimTable(aims))
	}
	return out
}

// aims returns the figures to be reached of the experiments that were run.
func (r *Results) aims() []sample.Aim {
	var out []sample.Aim
	if slices.Contains(r.figuresShown(), simCost) {
		out = append(out, r.costAims()...)
	}
	out = append(out, r.ignemAims()...)
	out = append(out, r.quartetAims()...)
	if len(r.Calibrated) > 0 {
		out = append(out, r.calibrationAims()...)
	}
	return append(out, r.shapeAims()...)
}

// figuresShown returns the experiments with figures of the day that have some.
func (r *Results) figuresShown() []string {
	seeds := r.seeds()
	if len(seeds) == 0 {
		return nil
	}
	d := r.day(seeds[0])
	var out []string
	for _, f := range simFigures() {
		// Kill alone, which everything is compared with, is no experiment.
		if f.name != wasteOfKill && !math.IsNaN(f.of(d)) && !slices.Contains(out, f.experiment) {
			out = append(out, f.experiment)
		}
	}
	return out
}

// costAims returns those of the policy cost on SSD, over all seeds.
func (r *Results) costAims() []sample.Aim {
	waste := sample.Aim{What: "cost on ssd: wasted", Paper: "11.1 % (checkpoint)", Unit: report.UnitPercent, Bound: costWaste, Value: r.over(wasteOf("cost", "ssd"))}
	urgent := sample.Aim{What: "cost on ssd: response of production, more than kill", Unit: report.UnitPercent, Bound: costResponse,
		Value: r.over(changeOf("cost", "ssd", "kill", responseIn("production")))}
	return []sample.Aim{waste, urgent}
}

// over returns the spread of a number over the seeds.
func (r *Results) over(of func(aDay) float64) sample.Spread {
	return sample.Of(r.seeds(), func(seed uint64) float64 { return of(r.day(seed)) })
}

// dayTable returns all runs of a seed side by side.
func (r *Results) dayTable(d aDay) *report.Table {
	t := &report.Table{
		Title: "The day under each policy (checkpoint-preemption, figure 3)",
		Note: "Wasted: the share of the time of CPUs that was held and brought nothing to its end. Responses are means of jobs over those of kill. " +
			"Moved: checkpoints written and read, memory paged out and in. The paper knows neither suspend nor cost. " + r.Day.String() + ".",
		Columns: []report.Column{{Title: "policy"}, {Title: "storage"}, {Title: "wasted", Align: report.Right}, {Title: "paper", Align: report.Right},
			{Title: "CPU hours", Align: report.Right}, {Title: "energy over kill", Align: report.Right},
			{Title: "free: response", Align: report.Right}, {Title: "middle", Align: report.Right}, {Title: "production", Align: report.Right},
			{Title: "preemptions", Align: report.Right}, {Title: "of them kills", Align: report.Right}, {Title: "moved", Align: report.Right}},
	}
	kill := d.run("kill", "")
	for i := range d {
		x := &d[i]
		name := string(x.Policy)
		if i > 0 && x.Policy == d[i-1].Policy {
			name = ""
		}
		row := []report.Cell{report.Str(name), report.Str(x.Medium), report.Num(x.Work.WasteShare(), report.UnitPercent),
			publishedCell(x), hours(x.Work.Wasted())}
		row = append(row, changeCell(x, kill, joules))
		for _, b := range simBands {
			row = append(row, changeCell(x, kill, responseIn(b)))
		}
		row = append(row, count(x.Counts.Preemptions()), count(x.Counts.Kills),
			report.Num(float64(x.IO.Dumped+x.IO.Restored+x.IO.PagedOut+x.IO.PagedIn), report.UnitBytes))
		t.Add(row...)
	}
	return t
}

func publishedCell(x *Run) report.Cell {
	if v, ok := paper.GoogleDay().Waste(string(x.Policy), x.Medium); ok {
		return report.Num(v, report.UnitPercent)
	}
	return report.Str("")
}

func hours(seconds float64) report.Cell { return report.Num(math.Round(seconds/3600), report.UnitNone) }

func count(n int) report.Cell { return report.Num(float64(n), report.UnitNone) }

// changeCell returns how much more a run has than another.
func changeCell(a, b *Run, of func(*Run) float64) report.Cell {
	if b == nil || of(b) == 0 {
		return report.Str("")
	}
	return view.Excess(sample.SpreadOf([]float64{of(a) / of(b)}))
}

// figureTable returns what was published beside what the first seed has, of one
// experiment.
func (r *Results) figureTable(experiment string) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "published", Align: report.Right},
		{Title: "here", Align: report.Right}, {Title: "asked for"}, {Title: ""}}}
	met, all := 0, 0
	d := r.day(r.seeds()[0])
	for _, f := range simFigures() {
		if f.experiment != experiment {
			continue
		}
		v := f.of(d)
		verdict, tone := "not measured", report.Dim
		if !math.IsNaN(v) {
			all++
			verdict, tone = "not met", report.Bad
			if f.holds(d, v) {
				met++
				verdict, tone = "met", report.Good
			}
		}
		t.Add(report.Str(f.name), report.Str(f.paper), f.cell(sample.SpreadOf([]float64{v})), report.Str(f.expected), report.Toned(verdict, tone))
	}
	switch experiment {
	case simFigure3:
		t.Title = "What was published of killing and checkpointing, and ours (checkpoint-preemption, figure 3)"
		t.Note = fmt.Sprintf("Directions met: %d of %d.", met, all)
	case simFigure5:
		t.Title = "Adaptive against always checkpointing (checkpoint-preemption, figure 5)"
		t.Note = fmt.Sprintf("Directions met: %d of %d.", met, all)
	case simCost:
		t.Title = "The policy cost"
		t.Note = view.AimNote(r.costAims())
	}
	return t
}

// seedTable has all figures over all seeds.
func (r *Results) seedTable() *report.Table {
	seeds := r.seeds()
	t := &report.Table{
		Title: fmt.Sprintf("The figures over %d seeds", len(seeds)),
		Note: "Medians, in brackets from the least to the greatest; comparisons are made within each seed. " +
			"Met: for how many seeds the direction, or the bound, is as asked for. " + view.AimNote(r.costAims()),
		Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "published", Align: report.Right}, {Title: "here", Align: report.Right}, {Title: "met", Align: report.Right}},
	}
	for _, f := range simFigures() {
		met, all := 0, 0
		for _, seed := range seeds {
			d := r.day(seed)
			if v := f.of(d); !math.IsNaN(v) {
				all++
				if f.holds(d, v) {
					met++
				}
			}
		}
		t.Add(report.Str(f.name), report.Str(f.paper), f.cell(r.over(f.of)), report.Toned(fmt.Sprintf("%d of %d", met, all), portion(met, all)))
	}
	return t
}

func portion(met, all int) report.Tone {
	switch {
	case all == 0:
		return report.Dim
	case met == all:
		return report.Good
	case met == 0:
		return report.Bad
	}
	return report.Caution
}
