package sim

import (
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Page is the whole report for people who would rather look.
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
	if len(r.points()) > 0 {
		p.Add("Reading", report.Block{Lines: r.warmLines()}, report.Block{Table: r.warmTable()}, report.Block{Table: r.residencyTable()})
	}
	r.calibrationSection(p)
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
	p.Add("The day", report.Block{Stacks: wasteStacks(d)}, report.Block{Bars: responseBars(d)}, report.Block{Table: r.dayTable(d)})
	for _, e := range r.figuresShown() {
		switch table := (report.Block{Table: r.figureTable(e)}); e {
		case simFigure3:
			p.Add("What was published", table)
		case simFigure5:
			p.Add("Adaptive", report.Block{Bars: adaptiveBars(d)}, table)
		case simCost:
			p.Add("The policy cost", table)
		}
	}
	if len(seeds) > 1 {
		p.Add("Several days", report.Block{Table: r.seedTable()})
	}
}

// called is the policy and the medium.
func (r *Run) called() string {
	if r.Medium == "" {
		return r.Policy
	}
	return r.Policy + " " + r.Medium
}

// wasteStacks show what the wasted time went into.
func wasteStacks(d aDay) *report.Stacks {
	s := &report.Stacks{Title: "Time of CPUs that was wasted, as a share of what was used", Unit: report.UnitPercent, Better: report.Lower, Targets: "published",
		Parts: []report.Part{{Name: "killed work", Kind: report.Lost}, {Name: "dumps", Kind: report.Checkpointing}, {Name: "restores", Kind: report.Restoring},
			{Name: "page-ins", Kind: report.Suspended}, {Name: "starts and stops", Kind: report.Waiting}}}
	for i := range d {
		w := d[i].Work
		used := w.Used()
		if used == 0 {
			continue
		}
		published, _ := paper.GoogleDay().Waste(d[i].Policy, d[i].Medium)
		s.Rows = append(s.Rows, report.Stack{Name: d[i].called(), Target: published,
			Values: []float64{w.Killed / used, w.Dump / used, w.Restore / used, w.PageIn / used, w.Stop / used}})
	}
	return s
}

// responseBars are the responses over those of kill, a group for each band.
func responseBars(d aDay) *report.Bars {
	b := &report.Bars{Title: "Mean response of jobs, over that with kill"}
	kill := d.run("kill", "")
	if kill == nil {
		return b
	}
	for i := range d {
		b.Rows = append(b.Rows, d[i].called())
	}
	for _, band := range simBands {
		g := report.BarGroup{Title: band.name, Unit: report.UnitRatio, Better: report.Lower, Line: 1}
		for i := range d {
			g.Values = append(g.Values, d[i].response(band.name)/kill.response(band.name))
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// adaptiveBars are figure 5 of checkpoint-preemption.
func adaptiveBars(d aDay) *report.Bars {
	b := &report.Bars{Title: "Mean response of jobs: adaptive over checkpoint", Rows: dayMedia, Targets: "published"}
	for _, band := range simBands {
		g := report.BarGroup{Title: band.name, Unit: report.UnitRatio, Better: report.Lower, Line: 1}
		for _, medium := range dayMedia {
			if r, _ := paper.GoogleDay().Response("adaptive", "checkpoint", medium, band.name); r.Change != 0 {
				g.Targets = append(g.Targets, 1+r.Change)
			}
			g.Values = append(g.Values, 1+changeOf("adaptive", medium, "checkpoint", responseIn(band.name))(d))
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

func (r *Results) calibrationSection(p *report.Page) {
	if len(r.Calibrated) == 0 {
		return
	}
	p.Add("Live and simulated", report.Block{Bars: r.calibrationBars()}, report.Block{Table: r.calibrationTable()}, report.Block{Table: r.calibratedTaskTable()})
}
