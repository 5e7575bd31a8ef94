package read

import (
	"fmt"

	"headrace/lab/rig"
	"headrace/lab/slowdisk"
	"headrace/lab/view"
	"headrace/report"
)

func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	if len(r.Calibration) > 0 {
		out = append(out, r.calibrationTable())
	}
	for _, place := range r.places() {
		out = append(out, r.placeTables(place)...)
	}
	return append(out, view.AimTable(r.aims()))
}

// placeTables has a table for each part that was run at a place.
func (r *Results) placeTables(place string) []*report.Table {
	at, z := r.at(place), r.sizes(place)
	var out []*report.Table
	for _, t := range []struct{ part, title string }{
		{partConsumers, fmt.Sprintf("One job reads a file of %s", report.Bytes(z.Large))},
		{partOwn, fmt.Sprintf("Jobs read files of their own, %s each, with %d consumers each", report.Bytes(z.Own), jobConsumers)},
		{partShared, fmt.Sprintf("Jobs read one file of %s at once, with %d consumers each; memory holds %s of it", report.Bytes(z.Shared), jobConsumers, report.Bytes(z.Cache))},
		{partSpread, fmt.Sprintf("Jobs come to the same file one after another, over %s, which one of them alone takes with own regions", report.Seconds(z.Alone))},
	} {
		if here := at.part(t.part); len(here.cases()) > 0 {
			out = append(out, here.table(placeTitle(place)+": "+t.title, at.plain()))
		}
	}
	if slow := at.part(partSlow); len(slow) > 0 {
		out = append(out, slow.slowTable(place, z))
	}
	return out
}

// A readColumn is a number of every run.
type readColumn struct {
	title string
	note  string
	unit  report.Unit
	of    metric
}

// columns are those that say something about a part at a place.
func readColumns(place, part string) []readColumn {
	all := []readColumn{
		{"seeks/s", "", report.UnitNone, seekRate},
		{"per 100 MB", "", report.UnitNone, seeksFor100MB},
	}
	if place == rig.Modelled {
		all = append(all, readColumn{"busy", "Busy: the share of the time in which the modelled head was.", report.UnitPercent, headBusy})
	}
	if part == partShared || part == partSpread {
		all = append(all, readColumn{"read", "Read: bytes from the disk, over the size of the file.", report.UnitRatio, readTimes},
			readColumn{"cached", "Cached: the most that was in memory of the file; the stream has its buffer beside that.", report.UnitBytes, mostCached})
	}
	return append(all, readColumn{"CPU/GB", "CPU: processor time for each GB given to consumers, their own,", report.UnitSeconds, ownPerGB},
		readColumn{"beyond", "and beyond that (daemon, supervisors, ends of the stream, starting up).", report.UnitSeconds, beyondOwn})
}

// table has a row for each case and method of one part.
func (rs runs) table(title string, plain runs) *report.Table {
	cases := rs.cases()
	columns := readColumns(rs[0].Place, cases[0].Part)
	t := &report.Table{Title: title, Columns: []report.Column{{Title: ""}, {Title: "method"},
		{Title: "throughput", Align: report.Right}, {Title: "over cat", Align: report.Right}}}
	t.Note = "Medians, in brackets from the least to the greatest. Throughput is what all consumers were given, from the first submission to the last end."
	for _, c := range columns {
		t.Columns = append(t.Columns, report.Column{Title: c.title, Align: report.Right})
		if c.note != "" {
			t.Note += " " + c.note
		}
	}
	if len(plain) > 0 {
		t.Add(plain.row("", methodPlain, plain, columns)...)
	}
	for _, c := range cases {
		first := c.readers()
		for _, method := range []string{methodRegions, methodStream} {
			if here := rs.of(c).by(method); len(here) > 0 {
				t.Add(here.row(first, method, plain, columns)...)
				first = ""
			}
		}
	}
	return t
}

func (rs runs) row(first, method string, plain runs, columns []readColumn) []report.Cell {
	cells := []report.Cell{report.Str(first), report.Str(method), view.Figure(rs.spread(throughput), report.UnitBytesPerSecond),
		report.Num(rs.over(plain, throughput).Median, report.UnitPercent)}
	for _, c := range columns {
		cells = append(cells, report.Num(rs.spread(c.of).Median, c.unit))
	}
	return cells
}

// slowTable is about the consumers' ends when one of them is slow.
func (rs runs) slowTable(place string, z Sizes) *report.Table {
	t := &report.Table{Title: fmt.Sprintf("%s: one of several consumers of %s is held to %s/s", placeTitle(place), report.Bytes(z.Shared), report.Bytes(z.Slow)),
		Note: "That is a quarter of its share of what cat reads. The spread is the time between the first and the last end of a consumer.",
		Columns: []report.Column{{Title: "readers"}, {Title: "method"}, {Title: "first end", Align: report.Right},
			{Title: "last end", Align: report.Right}, {Title: "spread", Align: report.Right}}}
	for _, c := range rs.cases() {
		for _, method := range []string{methodRegions, methodStream} {
			here := rs.of(c).by(method)
			if len(here) == 0 {
				continue
			}
			t.Add(report.Str(c.String()), report.Str(method), view.Figure(here.spread(firstEnd), report.UnitSeconds),
				view.Figure(here.spread(lastEnd), report.UnitSeconds), view.Figure(here.spread(endSpread), report.UnitSeconds))
		}
	}
	return t
}

// calibrationTable compares what the modelled disk states with the clock.
func (r *Results) calibrationTable() *report.Table {
	var m slowdisk.Model
	if r.Model != nil {
		m = *r.Model
	}
	t := &report.Table{Title: "The instrument: " + m.String(),
		Note: fmt.Sprintf("Readers without anything else to do, before the experiment. Stated: how long the model says that its head was busy. "+
			"In a row the head serves up to %s before older requests elsewhere.", report.Bytes(m.Slice)),
		Columns: []report.Column{{Title: "readers"}, {Title: "throughput", Align: report.Right}, {Title: "seeks/s", Align: report.Right},
			{Title: "per 100 MB", Align: report.Right}, {Title: "a request, stated", Align: report.Right}, {Title: "by the clock", Align: report.Right}}}
	for _, c := range r.Calibration {
		name := fmt.Sprintf("%d sequential", c.Readers)
		if c.Readers == 0 {
			name = "1, random 1 MiB"
		}
		each := float64(c.Requests)
		t.Add(report.Str(name), report.Num(float64(c.Read)/c.Took, report.UnitBytesPerSecond), report.Num(float64(c.Seeks)/c.Took, report.UnitNone),
			report.Num(float64(c.Seeks)/(float64(c.Read)/100e6), report.UnitNone),
			report.Num(c.Busy/each, report.UnitSeconds), report.Num(c.Took/each, report.UnitSeconds))
	}
	return t
}
