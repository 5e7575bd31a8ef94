package view

import (
	"headrace/lab/sample"
	"headrace/report"
)

// Figure returns a median with its range.
func Figure(s sample.Spread, u report.Unit) report.Cell {
	c := report.Num(s.Median, u)
	if lo, hi := u.Format(s.Min), u.Format(s.Max); s.Min < s.Max && lo != hi {
		c.Text += " (" + lo + " to " + hi + ")"
	}
	return c
}

// Excess returns the median of ratios as the part above one.
func Excess(s sample.Spread) report.Cell {
	c := report.Num(s.Median-1, report.UnitPercent)
	if c.Value != nil {
		c.Text = sample.Signed(*c.Value)
	}
	return c
}

// Share returns a median with its range, in percent.
func Share(s sample.Spread) report.Cell { return Figure(s, report.UnitPercent) }
