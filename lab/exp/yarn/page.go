package yarn

import (
	"fmt"
	"slices"
	"strings"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "Preemption on YARN: killed, suspended, checkpointed",
		Intro: "YARN's own scheduler chooses containers that have to give way to a job of higher priority. Stock YARN kills them. With Headrace's plug-ins the same containers are " +
			"suspended or written to storage, and go on later where they were. All of it was measured on real daemons; every task's answer was checked, and a run in which something else happened to a container than its policy says does not count.",
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	r.pairSections(p)
	r.workloadSection(p)
	if len(r.Stores) > 0 {
		p.Add("Storage", report.Block{Table: storesTable(r.Stores)})
	}
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

func (r *Results) pairSections(p *report.Page) {
	all := r.good(expPair)
	for _, c := range all.cases() {
		here := all.in(c)
		table := pairTable(c, here)
		table.Title = ""
		p.Add("A pair of jobs: "+c,
			report.Block{Timeline: pairTimeline(here)},
			report.Block{Bars: pairBars(here)},
			report.Block{Table: table})
	}
	if len(all.stops()) > 0 {
		p.Add("How soon processes stand still", report.Block{Table: r.stopTable()})
	}
}

// pairTimeline has a panel for each policy: the run with the median makespan.
func pairTimeline(here runs) *report.Timeline {
	t := &report.Timeline{Title: "What the tasks did", Note: "For each policy, the repeat whose makespan is the median."}
	for _, name := range here.names() {
		x := sample.Middle(here.by(name), lasted)
		t.Panels = append(t.Panels, report.Panel{Name: name, Lanes: x.Lanes,
			Note:    fmt.Sprintf("urgent done after %s, all done after %s; %v", report.UnitTenths.Format(x.sojourn()), report.UnitTenths.Format(x.Makespan), x.Counts),
			Markers: []report.Marker{{At: x.Arrived, Label: "urgent arrives"}}})
	}
	return t
}

// measure returns one of a chart that compares all that was run.
func (rs runs) measure(title string, unit report.Unit, of metric) view.Measure {
	return view.Measure{Title: title, Unit: unit, Better: report.Lower, Of: func(name string) sample.Spread { return rs.by(name).of(of) }}
}

func kilo(r Run) float64 { return energy(r) / 1000 }

func pairBars(here runs) *report.Bars {
	return view.Bars("What each policy costs", here.names(),
		here.measure("Urgent: sojourn", report.UnitTenths, Run.sojourn), here.measure("Makespan", report.UnitTenths, lasted),
		here.measure("Wasted processor time", report.UnitTenths, Run.wasted), here.measure("Energy, kJ", report.UnitNone, kilo))
}

func (r *Results) workloadSection(p *report.Page) {
	all := r.good(expWorkload)
	if len(all) == 0 {
		return
	}
	w := r.Workload
	text := fmt.Sprintf("%d jobs, one after the other from job %d of %s on: their gaps, made %.3g s long in all, and their sizes, a task for each %s and at most %d. "+
		"A task keeps %s in memory and takes %s of processor time, that of one of the %d high-priority jobs %s; %d run at a time. Their work alone would fill %s of the slots' time from the first submission to the last.",
		len(w.Jobs), w.From, w.Trace, w.Span, report.Bytes(w.Block), w.most(), report.Bytes(w.Bytes), report.Seconds(w.Low), w.highs(), report.Seconds(w.High), w.Slots, report.Percent(w.load()))
	blocks := []report.Block{report.Text(text), {Stacks: wastedStacks(all)},
		{Bars: view.Bars("Energy and response", all.names(), all.measure("Energy, kJ", report.UnitNone, kilo),
			all.measure("Low: mean response", report.UnitTenths, lowMean), all.measure("High: mean response", report.UnitTenths, Run.sojourn))},
		{Table: r.workloadTable()}, {Panes: responsePanes(all)}, {Table: r.responseTable()}}
	if len(r.adaptives()) > 0 {
		blocks = append(blocks, report.Block{Table: r.adaptiveTable()})
	}
	if all.moves() {
		blocks = append(blocks, report.Block{Table: r.overheadTable()})
	}
	if r.calibrate {
		blocks = append(blocks, report.Block{Table: r.likenessTable()})
	}
	p.Add("The workload", blocks...)
}

// most returns how many tasks the largest job has.
func (p *WorkloadPlan) most() int {
	n := 0
	for _, j := range p.Jobs {
		n = max(n, j.Tasks)
	}
	return n
}

// highs returns how many jobs are of high priority.
func (p *WorkloadPlan) highs() int {
	n := 0
	for _, j := range p.Jobs {
		if j.High {
			n++
		}
	}
	return n
}

// publishedMedium is the medium of the paper that is like a store of ours.
var publishedMedium = map[string]string{storeHDD: "hdd", rig.StoreDisk: "ssd", storeTmp: "nvm"}

// wastedStacks show what the wasted processor time went into.
func wastedStacks(all runs) *report.Stacks {
	s := &report.Stacks{Title: "Processor time that was wasted, as a share of what was used", Unit: report.UnitPercent, Better: report.Lower,
		Targets: "published", Parts: []report.Part{{Name: "killed work", Kind: report.Lost}, {Name: "dumps and restores", Kind: report.Checkpointing}}}
	published := paper.OnYARN()
	for _, name := range all.names() {
		mine := all.by(name)
		row := report.Stack{Name: name}
		for _, part := range []metric{lost, func(r Run) float64 { return r.OverheadCPU }} {
			row.Values = append(row.Values, mine.of(func(r Run) float64 { return part(r) / (r.TaskCPU + r.OverheadCPU) }).Median)
		}
		store, checkpoint := strings.CutPrefix(name, "checkpoint ")
		switch less, ok := published.Less[publishedMedium[store]]; {
		case name == "kill":
			row.Target = published.KillWastes
		case checkpoint && ok:
			row.Target = published.KillWastes * (1 - less)
		}
		s.Rows = append(s.Rows, row)
	}
	return s
}

// responsePanes returns the distributions of figures 9 and 11: each policy beside kill.
func responsePanes(all runs) *report.Panes {
	p := &report.Panes{Title: "Response of jobs", Cumulative: true,
		X: report.Axis{Label: "response", Unit: report.UnitTenths}, Y: report.Axis{Label: "share of the jobs", Unit: report.UnitPercent}}
	for _, high := range []bool{false, true} {
		for _, name := range all.names() {
			if name == "kill" && len(all.names()) > 1 {
				continue
			}
			pane := report.Pane{Title: jobsCalled(high) + ": " + name}
			for _, curve := range slices.Compact([]string{"kill", name}) {
				if responses := all.by(curve).responses(high); len(responses) > 0 {
					pane.Series = append(pane.Series, cumulative(curve, responses))
				}
			}
			p.Panes = append(p.Panes, pane)
		}
	}
	return p
}

func cumulative(name string, sorted []float64) report.Series {
	s := report.Series{Name: name}
	for i, v := range sorted {
		s.Points = append(s.Points, report.Point{X: v, Y: float64(i+1) / float64(len(sorted))})
	}
	return s
}
