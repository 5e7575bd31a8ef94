package view

import (
	"headrace/lab/sample"
	"headrace/report"
)

// Figure is a median with its range.
func Figure(s sample.Spread, u report.Unit) report.Cell {
	c := report.Num(s.Median, u)
	if lo, hi := u.Format(s.Min), u.Format(s.Max); s.Min < s.Max && lo != hi {
		c.Text += " (" + lo + " to " + hi + ")"
	}
	return c
}

// Excess is the median of ratios as the part above one.
func Excess(s sample.Spread) report.Cell {
	c := report.Num(s.Median-1, report.UnitPercent)
	if c.Value != nil {
		c.Text = sample.Signed(*c.Value)
	}
	return c
}

// LinePoint is a median with its range, in a chart.
func LinePoint(x float64, s sample.Spread) report.Point {
	p := report.Point{X: x, Y: s.Median}
	if s.Min < s.Max {
		p.Min, p.Max = s.Min, s.Max
	}
	return p
}

// AddBar adds a median with its range to a group.
func AddBar(g *report.BarGroup, s sample.Spread) {
	g.Values = append(g.Values, s.Median)
	g.Min, g.Max = append(g.Min, s.Min), append(g.Max, s.Max)
}

// Share is a median with its range, in percent.
func Share(s sample.Spread) report.Cell { return Figure(s, report.UnitPercent) }
