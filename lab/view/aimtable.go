package view

import (
	"fmt"
	"math"
	"strings"

	"headrace/lab/sample"
	"headrace/report"
)

// AimTable shows the aims beside what was measured.
func AimTable(aims []sample.Aim) *report.Table {
	t := &report.Table{
		Title: "Aims",
		Note:  "Medians over the repeats, in brackets from the least to the greatest.",
		Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "paper", Align: report.Right}, {Title: "aim", Align: report.Right},
			{Title: "measured", Align: report.Right}, {Title: ""}, {Title: "at"}},
	}
	for _, a := range aims {
		verdict, tone := a.Verdict()
		t.Add(report.Str(a.What), report.Str(a.Paper), report.Str(a.Limit()), reached(a), report.Toned(verdict, tone), report.Str(a.Where))
	}
	return t
}

// reached is what was measured, as its aim is shown.
func reached(a sample.Aim) report.Cell {
	if !a.Excess {
		return Figure(a.Value, a.Unit)
	}
	c := Excess(a.Value)
	if lo, hi := a.Show(a.Value.Min), a.Show(a.Value.Max); a.Value.Min < a.Value.Max && lo != hi {
		c.Text += " (" + lo + " to " + hi + ")"
	}
	return c
}

// AimFigures returns the aims for the head of a page.
func AimFigures(aims []sample.Aim) []report.Figure {
	var out []report.Figure
	for _, a := range aims {
		verdict, tone := a.Verdict()
		note := "aim: " + a.Limit() + ", " + verdict
		if a.Paper != "" {
			note += "; paper: " + a.Paper
		}
		switch {
		case a.Part != "":
			note = fmt.Sprintf("(%s) %s", a.Part, note)
			if a.Where != "" {
				note += " (worst: " + a.Where + ")"
			}
		case a.Where != "":
			note += " (" + a.Where + ")"
		}
		out = append(out, report.Figure{Value: a.Show(a.Value.Median), Label: a.What, Note: note, Tone: tone})
	}
	return out
}

// AimNote says how far from their aims the figures of a table are.
func AimNote(aims []sample.Aim) string {
	var words []string
	for _, a := range aims {
		verdict, _ := a.Verdict()
		if by := math.Abs(a.Value.Median - a.Bound); !math.IsNaN(by) {
			verdict += " by " + a.Unit.Format(by)
		}
		where := ""
		if a.Where != "" {
			where = " (" + a.Where + ")"
		}
		words = append(words, fmt.Sprintf("Aim: %s%s: %s, is %s: %s.", a.What, where, a.Limit(), a.Show(a.Value.Median), verdict))
	}
	return strings.Join(words, " ")
}
