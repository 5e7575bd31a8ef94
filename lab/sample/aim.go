package sample

import (
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

// Unmeasured returns the value of an aim before any point was taken into account.
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

// Limit returns the bound in words.
func (a Aim) Limit() string {
	if a.AtLeast {
		return "at least " + a.Show(a.Bound)
	}
	return "at most " + a.Show(a.Bound)
}

// Show returns a value as a person reads it.
func (a Aim) Show(v float64) string {
	if a.Excess {
		return Signed(v - 1)
	}
	return a.Unit.Format(v)
}

// Signed returns a change in percent.
func Signed(fraction float64) string {
	s := report.Percent(fraction)
	if fraction > 0 && !strings.HasPrefix(s, "0.0") {
		return "+" + s
	}
	return s
}
