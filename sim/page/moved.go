package page

import (
	"headrace/report"
	"headrace/sim"
)

// ioSection is what preemption wrote and read.
func (s set) ioSection(p *report.Page) {
	bars := &report.Bars{
		Title: "Written and read to make room",
		Note:  "Bytes of checkpoints, of paging and over the network, and how busy and how full the stores were at most. What nobody did is left out.",
		Rows:  s.labels,
	}
	for _, c := range moved {
		if s.any(c.of) {
			bars.Groups = append(bars.Groups, s.group(c, false))
		}
	}
	if len(bars.Groups) == 0 {
		p.Add("What is moved", report.Text("Nothing was written or read to make room: no checkpoints, no paging."))
		return
	}
	p.Add("What is moved", report.Block{Bars: bars}, report.Block{Table: s.ioTable()})
}

// readingSection is how inputs were read.
func (s set) readingSection(p *report.Page) {
	if !s.reads() {
		return
	}
	part := func(of func(*sim.ReadingResult) int64) func(*sim.Result) float64 {
		return reading(func(r *sim.ReadingResult) float64 { return ratio(float64(of(r)), float64(r.Bytes)) })
	}
	bars := &report.Bars{
		Title: "Where inputs were read from",
		Note: "Shares of the bytes that tasks read. What was in memory when it was wanted had been put there by warming, or read by somebody before. " +
			"The time is the mean of a task's reading.",
		Rows: s.labels,
		Groups: []report.BarGroup{
			s.group(column{"From memory", report.UnitPercent, report.Higher, reading(fromMemory)}, false),
			s.group(column{"of it warmed", report.UnitPercent, "", part(func(r *sim.ReadingResult) int64 { return r.Warmed })}, false),
			s.group(column{"Another node's disk", report.UnitPercent, report.Lower, part(func(r *sim.ReadingResult) int64 { return r.Remote })}, false),
			s.group(column{"Mean time of reading", report.UnitSeconds, report.Lower, reading(func(r *sim.ReadingResult) float64 { return r.Time })}, false),
		},
	}
	p.Add("How inputs are read", report.Block{Bars: bars}, report.Block{Table: s.readingTable()})
}
