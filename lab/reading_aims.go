package lab

import (
	"math"

	"headrace/report"
)

// readingAim is a figure to be reached in an experiment on reading, what was
// measured, and what the paper has.
type readingAim struct {
	what  string
	paper string
	unit  report.Unit
	// bound must be reached with atLeast, else not be exceeded.
	bound   float64
	atLeast bool
	value   spread
	where   string
}

func (a readingAim) verdict() (string, report.Tone) {
	v := a.value.Median
	switch {
	case math.IsNaN(v):
		return "not measured", report.Dim
	case a.atLeast && v >= a.bound, !a.atLeast && v <= a.bound:
		return "met", report.Good
	}
	return "missed", report.Bad
}

func (a readingAim) limit() string {
	if a.atLeast {
		return "at least " + a.unit.Format(a.bound)
	}
	return "at most " + a.unit.Format(a.bound)
}

// readingAimTable has the aims beside what was measured.
func readingAimTable(aims []readingAim) *report.Table {
	t := &report.Table{
		Title: "Aims",
		Note:  "Medians over the repeats, in brackets from the least to the greatest.",
		Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "paper", Align: report.Right}, {Title: "aim", Align: report.Right},
			{Title: "measured", Align: report.Right}, {Title: ""}, {Title: "at"}},
	}
	for _, a := range aims {
		verdict, tone := a.verdict()
		t.Add(report.Str(a.what), report.Str(a.paper), report.Str(a.limit()), figure(a.value, a.unit), report.Toned(verdict, tone), report.Str(a.where))
	}
	return t
}

// readingFigures are the aims for the head of a page.
func readingFigures(aims []readingAim) []report.Figure {
	var out []report.Figure
	for _, a := range aims {
		verdict, tone := a.verdict()
		note := "aim: " + a.limit() + ", " + verdict
		if a.paper != "" {
			note += "; paper: " + a.paper
		}
		if a.where != "" {
			note += " (" + a.where + ")"
		}
		out = append(out, report.Figure{Value: a.unit.Format(a.value.Median), Label: a.what, Note: note, Tone: tone})
	}
	return out
}
