package sim

import (
	"headrace/lab/view"
	"headrace/report"
	"headrace/sim/page"
)

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "The simulator: the published figures, and how far to trust it",
		Intro: "The policies of the daemon decide for a cluster that does not exist. A day like the one of Google's cluster is run under each of them, " +
			"with checkpoints on storage of three speeds that were measured; a day of Facebook's shows what reading ahead and reading in order gain. " +
			"The same small workload, live and simulated, shows how far the simulator is off.",
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	r.daySection(p)
	if len(r.points(expSwim)) > 0 {
		p.Add("Reading", report.Block{Lines: r.warmLines()}, report.Block{Table: r.warmTable()}, report.Block{Table: r.residencyTable()})
	}
	var published []report.Block
	for _, t := range r.publishedTables() {
		published = append(published, report.Block{Table: t})
	}
	if len(published) > 0 {
		p.Add("The papers' workloads", published...)
	}
	r.calibrationSection(p)
	var shapes []report.Block
	if panes := r.tradeoff(); panes != nil {
		shapes = append(shapes, report.Block{Panes: panes})
	}
	for _, t := range r.shapeTables() {
		shapes = append(shapes, report.Block{Table: t})
	}
	if len(shapes) > 0 {
		p.Add("Shapes that nobody had tuned on", shapes...)
	}
	if len(aims) > 0 {
		p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	}
	return p
}

func (r *Results) daySection(p *report.Page) {
	seeds := r.seeds()
	if len(seeds) == 0 {
		return
	}
	d := r.day(seeds[0])
	p.Add("The day", report.Block{Table: r.dayTable(d)})
	for _, e := range r.figuresShown() {
		titles := map[string]string{simFigure3: "What was published", simFigure5: "Adaptive", simCost: "The policy cost"}
		p.Add(titles[e], report.Block{Table: r.figureTable(e)})
	}
	page.Compare(p, d.results())
	if len(seeds) > 1 {
		p.Add("Several days", report.Block{Table: r.seedTable()})
	}
}

func (r *Results) calibrationSection(p *report.Page) {
	if len(r.Calibrated) == 0 {
		return
	}
	p.Add("Live and simulated", report.Block{Bars: r.calibrationBars()}, report.Block{Table: r.calibrationTable()}, report.Block{Table: r.calibratedTaskTable()})
}
