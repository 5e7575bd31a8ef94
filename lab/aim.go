package lab

import (
	"fmt"
	"math"
	"strings"

	"headrace/report"
)

// An Aim is a figure to be reached, and what was measured: at the worst point, where
// there are several.
type Aim struct {
	What string
	// Paper is what the paper has, for comparison.
	Paper string
	Unit  report.Unit
	// Part is the part of the experiment that it belongs to; empty: all of it.
	Part string
	// Bound must be reached with AtLeast, else not be exceeded.
	Bound   float64
	AtLeast bool
	// Excess shows values as what they are above one.
	Excess bool

	Value Spread
	Where string
}

// Worst takes a point into account. Before the first one, Value is Unmeasured.
func (a *Aim) Worst(v Spread, where string) {
	now := a.Value.Median
	if math.IsNaN(v.Median) || a.AtLeast && now <= v.Median || !a.AtLeast && now >= v.Median {
		return
	}
	a.Value, a.Where = v, where
}

// Unmeasured is the value of an aim before any point was taken into account.
func Unmeasured() Spread { return SpreadOf(nil) }

// Measured reports whether there is a value to be judged.
func (a Aim) Measured() bool { return !math.IsNaN(a.Value.Median) }

// Verdict judges in a word.
func (a Aim) Verdict() (string, report.Tone) {
	v := a.Value.Median
	switch {
	case math.IsNaN(v):
		return "not measured", report.Dim
	case a.AtLeast && v >= a.Bound, !a.AtLeast && v <= a.Bound:
		return "met", report.Good
	}
	return "missed", report.Bad
}

// Limit is the bound in words.
func (a Aim) Limit() string {
	if a.AtLeast {
		return "at least " + a.Show(a.Bound)
	}
	return "at most " + a.Show(a.Bound)
}

// Show is a value as a person reads it.
func (a Aim) Show(v float64) string {
	if a.Excess {
		return Signed(v - 1)
	}
	return a.Unit.Format(v)
}

// Signed is a change in percent.
func Signed(fraction float64) string {
	s := report.Percent(fraction)
	if fraction > 0 && !strings.HasPrefix(s, "0.0") {
		return "+" + s
	}
	return s
}

// AimTable has the aims beside what was measured.
func AimTable(aims []Aim) *report.Table {
	t := &report.Table{
		Title: "Aims",
		Note:  "Medians over the repeats, in brackets from the least to the greatest.",
		Columns: []report.Column{{Title: "figure", Flex: true}, {Title: "paper", Align: report.Right}, {Title: "aim", Align: report.Right},
			{Title: "measured", Align: report.Right}, {Title: ""}, {Title: "at"}},
	}
	for _, a := range aims {
		verdict, tone := a.Verdict()
		t.Add(report.Str(a.What), report.Str(a.Paper), report.Str(a.Limit()), Figure(a.Value, a.Unit), report.Toned(verdict, tone), report.Str(a.Where))
	}
	return t
}

// AimFigures are the aims for the head of a page.
func AimFigures(aims []Aim) []report.Figure {
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
func AimNote(aims []Aim) string {
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
		words = append(words, fmt.Sprintf("Aim: %s%s: %s, is %s: %s.", a.What, where, a.Limit(), a.Unit.Format(a.Value.Median), verdict))
	}
	return strings.Join(words, " ")
}
