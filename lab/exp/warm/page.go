package warm

import (
	"cmp"
	"fmt"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/report"
)

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "Inputs that are in memory when their jobs come to read them",
		Intro: fmt.Sprintf("The first %d jobs of a day of Facebook's cluster, replayed on one machine: what one of eight servers sees of them, %.0f times smaller and faster, submitted within %s. "+
			"Each job is held back for %s, as by a scheduler and the start of its containers, then reads its input in blocks, %d at a time, and does the rest; %d jobs run at a time. "+
			"While a job waits its input is read into memory, that of the smallest job first. "+
			"The inputs lie on this disk: %s. Every job's answer was checked.",
			r.Plan.Jobs, r.Plan.Shrink, report.Seconds(r.Plan.Span), report.Seconds(r.Plan.Lead), r.Plan.Readers, r.Plan.Slots, r.Disk),
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	if len(r.Replays) > 0 {
		p.Add("The day", report.Block{Table: r.jobTable()}, report.Block{Bars: r.classBars()}, report.Block{Table: r.classTable()})
		p.Add("Blocks", report.Block{Lines: r.blockLines()}, report.Block{Table: r.blockTable()})
	}
	if len(r.in(modeWarmed)) > 0 {
		p.Add("Memory", report.Block{Lines: r.memoryLines()}, report.Block{Table: r.memoryTable()})
	}
	r.singleSection(p)
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

func (r *Results) singleSection(p *report.Page) {
	if len(r.inputsOf(kindWordcount)) == 0 {
		return
	}
	blocks := []report.Block{{Lines: r.singleLines()}}
	for _, t := range r.Tables() {
		if len(t.Columns) > 0 && t.Columns[0].Title == "input" {
			blocks = append(blocks, report.Block{Table: t, Half: true})
		}
	}
	p.Add("One job alone", blocks...)
}

// classBars show how much less time jobs took than cold.
func (r *Results) classBars() *report.Bars {
	rows := slices.DeleteFunc(r.replayModes(), func(mode string) bool { return mode == modeCold })
	var measures []view.Measure
	for _, class := range append([]string{""}, classes...) {
		measures = append(measures, view.Measure{Title: cmp.Or(class, "all"), Unit: report.UnitPercent, Better: report.Higher,
			Of: func(mode string) sample.Spread { return r.against(mode, meanDuration(class)) }})
	}
	return view.Bars("Less time than cold, by size of the input", rows, measures...)
}

// blockLines returns the distribution of the times in which blocks were read.
func (r *Results) blockLines() *report.Lines {
	l := &report.Lines{Title: "Blocks that were read within a time",
		X: report.Axis{Label: "time to read a block", Unit: report.UnitSeconds, Log: true},
		Y: report.Axis{Label: "share of the blocks", Unit: report.UnitPercent}}
	for _, mode := range r.replayModes() {
		s := report.Series{Name: mode}
		reads := r.reads(mode)
		for i := range 51 {
			if q := float64(i) / 50; len(reads) > 0 {
				s.Points = append(s.Points, report.Point{X: sample.Quantile(reads, q), Y: q})
			}
		}
		l.Series = append(l.Series, s)
	}
	return l
}

// memoryLines returns what was kept over the time of the first replay of each mode
// that has numbers.
func (r *Results) memoryLines() *report.Lines {
	l := &report.Lines{Title: "Memory kept for jobs", Note: "The first replay of each.",
		X: report.Axis{Label: "time", Unit: report.UnitTenths}, Y: report.Axis{Unit: report.UnitBytes}}
	for _, mode := range []string{modeWarmed, modeFIFO} {
		for _, x := range r.Replays {
			if x.Mode != mode || x.Failure != "" {
				continue
			}
			s := report.Series{Name: mode}
			for _, m := range x.thinned() {
				s.Points = append(s.Points, report.Point{X: m.At, Y: float64(m.Bytes)})
			}
			l.Series = append(l.Series, s)
			break
		}
	}
	return l
}

// singleLines are ignem, figure 8.
func (r *Results) singleLines() *report.Lines {
	l := &report.Lines{Title: "A word count alone: duration, of that cold", Better: report.Lower,
		X: report.Axis{Label: "input", Unit: report.UnitBytes}, Y: report.Axis{Unit: report.UnitPercent}}
	for _, mode := range []string{modeWarmed, modeDelayed, modeRAM} {
		view.Series(l, mode, r.inputsOf(kindWordcount), func(input int64) (float64, sample.Spread) {
			_, ratios := r.singleSpread(kindWordcount, mode, input)
			return float64(input), ratios
		})
	}
	return l
}
