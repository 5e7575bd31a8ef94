package view

import (
	"headrace/lab/sample"
	"headrace/report"
)

// A Measure is what a group of bars shows of each row.
type Measure struct {
	Title  string
	Unit   report.Unit
	Better report.Better
	// Line is drawn across the group; 0: none.
	Line float64
	Of   func(row string) sample.Spread
}

// Bars compares the rows, a group of bars for each measure: medians with their ranges.
func Bars(title string, rows []string, measures ...Measure) *report.Bars {
	b := &report.Bars{Title: title, Note: "Medians; thin lines from the least to the greatest.", Rows: rows}
	for _, m := range measures {
		g := report.BarGroup{Title: m.Title, Unit: m.Unit, Better: m.Better, Line: m.Line}
		for _, row := range rows {
			s := m.Of(row)
			g.Values = append(g.Values, s.Median)
			g.Min, g.Max = append(g.Min, s.Min), append(g.Max, s.Max)
		}
		b.Groups = append(b.Groups, g)
	}
	return b
}

// Series adds a line to a chart: a median with its range at each of the places.
func Series[P any](l *report.Lines, name string, places []P, at func(P) (x float64, s sample.Spread)) {
	line := report.Series{Name: name}
	for _, place := range places {
		x, s := at(place)
		p := report.Point{X: x, Y: s.Median}
		if s.Min < s.Max {
			p.Min, p.Max = s.Min, s.Max
		}
		line.Points = append(line.Points, p)
	}
	l.Series = append(l.Series, line)
}
