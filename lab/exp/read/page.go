package read

import (
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/report"
)

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "Many readers, one disk",
		Intro: "Several consumers and several jobs read files at the same time. With own regions, each process reads its part of the file and the disk goes back and forth between them. " +
			"With a stream, the daemon reads the file from its beginning to its end and gives whole records to whoever is ready for more; jobs on one file share one reading. " +
			"The consumers are the same cheap program, and every record was checked to have been given once to every job.",
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	for _, place := range r.places() {
		r.placeSections(p, place)
	}
	if len(r.Calibration) > 0 {
		p.Add("The instrument", report.Block{Table: r.calibrationTable()})
	}
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

func (r *Results) placeSections(p *report.Page, place string) {
	at, tables := r.at(place), r.placeTables(place)
	title := placeTitle(place)
	next := func() report.Block {
		t := *tables[0]
		t.Title = ""
		tables = tables[1:]
		return report.Block{Table: &t}
	}
	if here := at.part(partConsumers); len(here.cases()) > 0 {
		p.Add("Consumers of one file: "+title,
			report.Text("Disk: "+r.sizes(place).About+". After veloxdfs, figures 1 and 4."),
			report.Block{Lines: here.lines(speedLine, at.plain()), Half: true},
			report.Block{Lines: here.lines(seekLine, at.plain()), Half: true},
			next())
	}
	for _, part := range []struct {
		name, heading, text string
		beside              readLine
	}{
		{partOwn, "Jobs on files of their own", "After veloxdfs, figure 8. No method can give more than cat alone reads: nothing is shared.", seekLine},
		{partShared, "Jobs at once on one file", "Whether own regions are read once or several times depends on whether the jobs keep up with each other; memory holds a sixteenth of the file only.", timesLine},
		{partSpread, "Jobs one after another on one file", "A job that comes later joins the reading where it is, and what it has missed is read again for all that lack it.", timesLine},
	} {
		here := at.part(part.name)
		if len(here.cases()) == 0 {
			continue
		}
		p.Add(part.heading+": "+title, report.Text(part.text),
			report.Block{Lines: here.lines(speedLine, at.plain()), Half: true},
			report.Block{Lines: here.lines(part.beside, at.plain()), Half: true},
			next())
	}
	if slow := at.part(partSlow); len(slow) > 0 {
		p.Add("One slow consumer: "+title,
			report.Text("Of a stream everybody takes as much as they can, so that a slow consumer gets less. With own regions the others wait for it (veloxdfs, figure 5)."),
			report.Block{Lines: slow.endLines()}, next())
	}
}

// A readLine is a metric as a chart shows it, with that of cat for comparison or
// without.
type readLine struct {
	title  string
	unit   report.Unit
	better report.Better
	of     metric
	cat    bool
}

var (
	speedLine = readLine{"Throughput, all consumers together", report.UnitBytesPerSecond, report.Higher, throughput, true}
	seekLine  = readLine{"Seeks for 100 MB", report.UnitNone, report.Lower, seeksFor100MB, true}
	timesLine = readLine{"Read from the disk, over the size of the file", report.UnitRatio, report.Lower, readTimes, false}
)

// lines show a metric over the number of consumers, or of jobs where there are
// several.
func (rs runs) lines(m readLine, plain runs) *report.Lines {
	l := &report.Lines{Title: m.title, Better: m.better, X: report.Axis{Label: "consumers"}, Y: report.Axis{Unit: m.unit}}
	cases, x := rs.cases(), func(c Case) float64 { return float64(c.Consumers) }
	if cases[0].Part != partConsumers {
		l.X.Label = "jobs"
		x = func(c Case) float64 { return float64(c.Jobs) }
	}
	for _, method := range []string{methodRegions, methodStream} {
		view.Series(l, method, cases, func(c Case) (float64, sample.Spread) { return x(c), rs.of(c).by(method).spread(m.of) })
	}
	if len(plain) > 0 && m.cat {
		view.Series(l, methodPlain, []Case{cases[0], cases[len(cases)-1]}, func(c Case) (float64, sample.Spread) { return x(c), plain.spread(m.of) })
	}
	return l
}

// endLines show when the consumers ended, in the order of their ends: for each
// method the repeat whose spread is the median.
func (rs runs) endLines() *report.Lines {
	l := &report.Lines{Title: "When the consumers ended", Note: "In the order of their ends; for each method the repeat with the median spread.", Better: report.Lower,
		X: report.Axis{Label: "consumer"}, Y: report.Axis{Unit: report.UnitTenths}}
	for _, method := range []string{methodRegions, methodStream} {
		mine := rs.by(method)
		if len(mine) == 0 {
			continue
		}
		s := report.Series{Name: method}
		for i, end := range sample.Middle(mine, endSpread).Ends {
			s.Points = append(s.Points, report.Point{X: float64(i + 1), Y: end})
		}
		l.Series = append(l.Series, s)
	}
	return l
}
