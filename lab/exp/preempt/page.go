package preempt

import (
	"fmt"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/report"
)

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	p := &report.Page{
		Title: "Making room for an urgent task",
		Intro: "A low-priority task has the only slot when an urgent one arrives. Each policy makes room in its own way: " +
			"let it finish, kill it and start it over, suspend it, write it to storage, or take whichever is expected to cost least. " +
			"All of it was measured in one run with the real daemon; every task's answer was checked.",
		Figures: view.AimFigures(r.aims()),
		Facts:   r.Facts(),
	}
	r.lightSection(p)
	r.dirtySection(p)
	r.storageSection(p)
	r.secondSection(p)
	p.Add("Aims and environment", report.Block{Table: r.aimTable()}, report.Block{Table: r.storeTable()}, r.RemarksText())
	return p
}

func (r *Results) lightSection(p *report.Page) {
	all := r.good(ExpLight)
	if len(all) == 0 {
		return
	}
	mid := middle(all.points(nil))
	p.Add("Light tasks",
		report.Text("Two tasks that parse text and need next to no memory (os-assisted-preemption, figure 2). "+
			"Waiting helps only when little is left to wait for, killing is harmless only when little was done."),
		report.Block{Lines: shareLines(all, "Urgent task: sojourn time", sojourn), Half: true},
		report.Block{Lines: shareLines(all, "Both tasks: makespan", makespan), Half: true},
		report.Block{Timeline: TimelineOf(all.at(mid), "What the two tasks did, "+pointName(ExpLight, mid))},
		report.Block{Bars: BarsOf(all.at(mid), "What each policy costs, "+pointName(ExpLight, mid))},
		report.Block{Table: r.runTable(ExpLight, "", "done on arrival")})
}

func (r *Results) dirtySection(p *report.Page) {
	if all := r.good(expDirty); len(all) > 0 {
		s := r.setup(expDirty)
		mid := middle(all.points(nil))
		p.Add("Large dirty memory",
			report.Text(fmt.Sprintf("Each task fills %s and reads it back at its end; the limit is %s, so that one of them has to be paged out (os-assisted-preemption, figure 3).",
				report.Bytes(s.LowBytes), report.Bytes(s.Limit))),
			report.Block{Lines: shareLines(all, "Urgent task: sojourn time", sojourn), Half: true},
			report.Block{Lines: shareLines(all, "Both tasks: makespan", makespan), Half: true},
			report.Block{Timeline: TimelineOf(all.at(mid), "What the two tasks did, "+pointName(expDirty, mid))},
			report.Block{Bars: BarsOf(all.at(mid), "What each policy costs, "+pointName(expDirty, mid))},
			report.Block{Table: r.runTable(expDirty, "", "done on arrival")})
	}
	if all := r.good(expFootprint); len(all) > 0 {
		s := r.setup(expFootprint)
		p.Add("What paging costs",
			report.Text(fmt.Sprintf("The low-priority task fills %s, the limit is %s; the memory of the urgent task varies (os-assisted-preemption, figure 4).",
				report.Bytes(s.LowBytes), report.Bytes(s.Limit))),
			report.Block{Lines: overheadLines(all), Half: true},
			report.Block{Lines: swappedLines(all), Half: true},
			report.Block{Table: r.footprintTable()})
	}
}

func (r *Results) storageSection(p *report.Page) {
	for _, part := range []struct{ experiment, heading, text string }{
		{expStorage, "Slow and fast storage",
			"Two k-means jobs; memory holds one of them only and nothing can be paged out, so that suspending is impossible (checkpoint-preemption, figures 4 and 6). " +
				"A checkpoint pays once the storage takes it faster than the work could be done again."},
		{expRoomy, "The same where memory holds both tasks", "Here suspending is possible, and nothing is cheaper."},
	} {
		all := r.good(part.experiment)
		if len(all) == 0 {
			continue
		}
		stores := r.setup(part.experiment).Stores
		blocks := []report.Block{report.Text(part.text),
			{Lines: storeLines(all, stores, "Urgent task: sojourn time", sojourn), Half: true},
			{Lines: storeLines(all, stores, "Both tasks: makespan", makespan), Half: true},
			{Lines: storeLines(all, stores, fmt.Sprintf("Weighted: %.3g × sojourn + makespan", urgency), weighed)}}
		if len(stores) > 0 {
			s := stores[len(stores)/2].Name
			blocks = append(blocks, report.Block{Timeline: TimelineOf(all.atStore(s), "What the two tasks did, "+s)})
		}
		blocks = append(blocks, report.Block{Table: r.storageTable(part.experiment, "")})
		p.Add(part.heading, blocks...)
	}
}

func (r *Results) secondSection(p *report.Page) {
	groups := r.dumpGroups()
	if len(groups) == 0 {
		return
	}
	var rows []string
	named := map[string]dumpGroup{}
	for _, g := range groups {
		rows = append(rows, g.name())
		named[g.name()] = g
	}
	measure := func(title string, unit report.Unit, m func(Dump) float64) view.Measure {
		return view.Measure{Title: title, Unit: unit, Better: report.Lower, Of: func(row string) sample.Spread { return named[row].of(m) }}
	}
	b := view.Bars("Two checkpoints of one task", rows,
		measure("First: bytes", report.UnitBytes, func(d Dump) float64 { return float64(d.FirstBytes) }),
		measure("Second: bytes", report.UnitBytes, func(d Dump) float64 { return float64(d.SecondBytes) }),
		measure("First: time", report.UnitSeconds, func(d Dump) float64 { return d.First }),
		measure("Second: time", report.UnitSeconds, func(d Dump) float64 { return d.Second }))
	p.Add("A second checkpoint",
		report.Text("10 % of the memory is changed between two checkpoints; only changed pages are written again (checkpoint-preemption, table 3)."),
		report.Block{Bars: b}, report.Block{Table: r.dumpTable()})
}

func middle(points []Point) Point {
	if len(points) == 0 {
		return Point{}
	}
	return points[len(points)/2]
}

// shareLines show a measure over the share done when the urgent task arrives.
func shareLines(all Runs, title string, m metric) *report.Lines {
	l := &report.Lines{Title: title, Better: report.Lower,
		X: report.Axis{Label: "done when the urgent task arrives", Unit: report.UnitPercent},
		Y: report.Axis{Unit: report.UnitTenths}}
	for _, policy := range all.Policies() {
		view.Series(l, policy, all.points(nil), func(p Point) (float64, sample.Spread) { return p.Share, all.at(p).By(policy).of(m) })
	}
	return l
}

// storeLines show a measure over the measured write bandwidth of the storage.
func storeLines(all Runs, stores []rig.StoreFact, title string, m metric) *report.Lines {
	l := &report.Lines{Title: title, Better: report.Lower,
		X: report.Axis{Label: "bandwidth of the storage", Unit: report.UnitBytesPerSecond, Log: true},
		Y: report.Axis{Unit: report.UnitTenths}}
	for _, policy := range all.Policies() {
		at := func(s rig.StoreFact) Runs { return all.atStore(s.Name).By(policy) }
		view.Series(l, policy, sample.Where(stores, func(s rig.StoreFact) bool { return len(at(s)) > 0 }),
			func(s rig.StoreFact) (float64, sample.Spread) { return s.Write, at(s).of(m) })
	}
	for _, store := range stores {
		if store.Name == rig.StoreMemory {
			l.Markers = append(l.Markers, report.Marker{At: store.Write, Label: rig.StoreMemory})
		}
	}
	return l
}

// overheadLines are os-assisted-preemption, figure 4, without the bytes.
func overheadLines(all Runs) *report.Lines {
	l := &report.Lines{Title: "Suspend compared with the best of the others", Better: report.Lower,
		X: report.Axis{Label: "memory of the urgent task", Unit: report.UnitBytes},
		Y: report.Axis{Unit: report.UnitPercent}}
	over := func(policy string, m metric) func(Point) (float64, sample.Spread) {
		return func(p Point) (float64, sample.Spread) {
			return float64(p.UrgentBytes), all.at(p).against("suspend", policy, m).Plus(-1)
		}
	}
	view.Series(l, "sojourn, over kill", all.points(nil), over("kill", sojourn))
	view.Series(l, "makespan, over wait", all.points(nil), over("wait", makespan))
	return l
}

func swappedLines(all Runs) *report.Lines {
	l := &report.Lines{Title: "Memory paged out", Better: report.Lower,
		X: report.Axis{Label: "memory of the urgent task", Unit: report.UnitBytes},
		Y: report.Axis{Unit: report.UnitBytes}}
	for _, policy := range all.Policies() {
		out := func(r Run) float64 { return float64(r.PagedOut) }
		view.Series(l, policy, all.points(nil), func(p Point) (float64, sample.Spread) { return float64(p.UrgentBytes), all.at(p).By(policy).of(out) })
	}
	return l
}

// TimelineOf draws a panel for each policy: the run with the median makespan.
func TimelineOf(here Runs, title string) *report.Timeline {
	t := &report.Timeline{Title: title, Note: "For each policy, the repeat whose makespan is the median."}
	for _, policy := range here.Policies() {
		t.Panels = append(t.Panels, PanelOf(sample.Middle(here.By(policy), makespan)))
	}
	return t
}

// PanelOf draws what the two tasks of a run did.
func PanelOf(r Run) report.Panel {
	p := report.Panel{Name: r.Policy, Lanes: r.Lanes,
		Note: fmt.Sprintf("urgent done after %s, all done after %s", report.UnitTenths.Format(r.Sojourn), report.UnitTenths.Format(r.Makespan))}
	if r.Policy != r.Mechanism {
		p.Note += " (did: " + r.Mechanism + ")"
	}
	if r.Arrived > 0 {
		p.Markers = []report.Marker{{At: r.Arrived, Label: "urgent arrives"}}
	}
	return p
}

// BarsOf compares the policies at one point.
func BarsOf(here Runs, title string) *report.Bars {
	measure := func(title string, unit report.Unit, of func(policy string) sample.Spread) view.Measure {
		return view.Measure{Title: title, Unit: unit, Better: report.Lower, Of: of}
	}
	return view.Bars(title, here.Policies(),
		measure("Urgent: sojourn", report.UnitTenths, func(p string) sample.Spread { return here.By(p).of(sojourn) }),
		measure("Makespan", report.UnitTenths, func(p string) sample.Spread { return here.By(p).of(makespan) }),
		measure("Work lost", report.UnitTenths, func(p string) sample.Spread { return here.By(p).of(lostCPU) }),
		measure("More CPU than wait", report.UnitTenths, func(p string) sample.Spread { return here.Beyond(p, "wait", Run.CPU) }),
		measure("Moved by preemption", report.UnitBytes, func(p string) sample.Spread { return here.By(p).of(moved) }))
}
