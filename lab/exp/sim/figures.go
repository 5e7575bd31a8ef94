package sim

import (
	"fmt"
	"math"

	"headrace/lab/sample"
	"headrace/report"
)

// The bands of priorities, as the simulator and as the paper call them.
var simBands = []struct{ name, paper string }{
	{"free", "low"}, {"middle", "medium"}, {"production", "high"},
}

// simFigure is a number of a day that was published, and how to tell whether ours
// points the same way. Values are shares, or changes: 0.05 is 5 % more.
type simFigure struct {
	experiment string
	name       string
	paper      string
	change     bool
	of         func(aDay) float64
	// expected says what holds asks for, in words.
	expected string
	holds    func(d aDay, v float64) bool
}

func (f simFigure) show(v float64) string {
	if f.change {
		return sample.Signed(v)
	}
	return report.Percent(v)
}

func (f simFigure) cell(s sample.Spread) report.Cell {
	c := report.Num(s.Median, report.UnitPercent)
	if c.Value == nil {
		return c
	}
	c.Text = f.show(s.Median)
	if lo, hi := f.show(s.Min), f.show(s.Max); lo != hi {
		c.Text += " (" + lo + " to " + hi + ")"
	}
	return c
}

const wasteOfKill = "waste: kill"

// publishedWaste is figure 3a of checkpoint-preemption, by SimRun.called.
var publishedWaste = map[string]float64{"kill": 0.35, "checkpoint hdd": 0.146, "checkpoint ssd": 0.111, "checkpoint nvm": 0.085}

// wasteOf is the share of the time of CPUs that was wasted.
func wasteOf(policy, medium string) func(aDay) float64 {
	return func(d aDay) float64 {
		if r := d.run(policy, medium); r != nil {
			return r.Work.WasteShare()
		}
		return math.NaN()
	}
}

// changeOf compares a number of two runs.
func changeOf(policy, medium, with string, of func(*Run) float64) func(aDay) float64 {
	return func(d aDay) float64 {
		a, b := d.run(policy, medium), d.run(with, medium)
		if a == nil || b == nil || of(b) == 0 {
			return math.NaN()
		}
		return of(a)/of(b) - 1
	}
}

func joules(r *Run) float64 { return r.Energy.Joules }

func responseIn(band string) func(*Run) float64 {
	return func(r *Run) float64 { return r.response(band) }
}

// What counts as the same direction: alike is within alikeBand, more and less are
// beyond it. A published change below it is no direction.
const alikeBand = 0.03

func isLess(_ aDay, v float64) bool    { return v < 0 }
func isMore(_ aDay, v float64) bool    { return v > 0 }
func isAlike(_ aDay, v float64) bool   { return math.Abs(v) <= alikeBand }
func isNotMore(_ aDay, v float64) bool { return v <= alikeBand }
func atMost(bound float64) func(aDay, float64) bool {
	return func(_ aDay, v float64) bool { return v <= bound }
}

// simFigures are all of them.
func simFigures() []simFigure {
	var out []simFigure
	out = append(out, wasteFigures()...)
	out = append(out, energyFigures()...)
	out = append(out, responseFigures()...)
	out = append(out, adaptiveFigures()...)
	return append(out, costFigures()...)
}

// wasteFigures are figure 3a: who wastes less than whom.
func wasteFigures() []simFigure {
	paper := func(run string) string { return report.Percent(publishedWaste[run]) }
	out := []simFigure{{experiment: simFigure3, name: wasteOfKill, paper: paper("kill"), of: wasteOf("kill", ""), expected: "25 to 45 %",
		holds: func(_ aDay, v float64) bool { return v >= 0.25 && v <= 0.45 }}}
	before := simFigure{name: "kill", of: wasteOf("kill", "")}
	for _, medium := range dayMedia {
		than := before
		f := simFigure{experiment: simFigure3, name: "waste: checkpoint on " + medium, paper: paper("checkpoint " + medium), of: wasteOf("checkpoint", medium),
			expected: "less than " + than.name,
			holds:    func(d aDay, v float64) bool { return v < than.of(d) }}
		out = append(out, f)
		before = simFigure{name: "on " + medium, of: f.of}
	}
	return out
}

func energyFigures() []simFigure {
	figure := func(medium, paper, expected string, holds func(aDay, float64) bool) simFigure {
		return simFigure{experiment: simFigure3, name: "energy: checkpoint on " + medium + ", over kill", paper: paper, change: true,
			of: changeOf("checkpoint", medium, "kill", joules), expected: expected, holds: holds}
	}
	return []simFigure{
		figure("hdd", "alike", "within 3 %", isAlike),
		figure("ssd", "alike", "within 3 %", isAlike),
		figure("nvm", "-5 %", "less", isLess),
	}
}

// responseFigures are figure 3c: responses over those of kill.
func responseFigures() []simFigure {
	var out []simFigure
	for _, c := range []struct {
		medium, band, paper, expected string
		holds                         func(aDay, float64) bool
	}{
		{"hdd", "free", "less", "less", isLess},
		{"hdd", "middle", "more", "more", isMore},
		{"hdd", "production", "more", "more", isMore},
		{"ssd", "free", "less", "less", isLess},
		{"ssd", "middle", "a little more", "more", isMore},
		{"ssd", "production", "alike", "within 3 %", isAlike},
		{"nvm", "free", "-74 %", "less", isLess},
		{"nvm", "middle", "-23 %", "less", isLess},
		{"nvm", "production", "alike", "within 3 %", isAlike},
	} {
		out = append(out, simFigure{experiment: simFigure3, name: fmt.Sprintf("response, %s: checkpoint on %s, over kill", c.band, c.medium),
			paper: c.paper, change: true, of: changeOf("checkpoint", c.medium, "kill", responseIn(c.band)), expected: c.expected, holds: c.holds})
	}
	return out
}

// adaptiveFigures are figure 5: adaptive over checkpoint.
func adaptiveFigures() []simFigure {
	papers := map[string][]string{
		"free":       {"-36 %", "-12 %", "-3 %"},
		"middle":     {"-55 %", "-17 %", "-8 %"},
		"production": {"-29 %", "-8 %", "as kill"},
	}
	var out []simFigure
	for _, b := range simBands {
		for i, medium := range dayMedia {
			f := simFigure{experiment: simFigure5, name: fmt.Sprintf("response, %s: adaptive on %s, over checkpoint", b.name, medium), paper: papers[b.name][i],
				change: true, of: changeOf("adaptive", medium, "checkpoint", responseIn(b.name)), expected: "less", holds: isLess}
			if f.paper == "as kill" {
				f.name = fmt.Sprintf("response, %s: adaptive on %s, over kill", b.name, medium)
				f.of, f.expected, f.holds = changeOf("adaptive", medium, "kill", responseIn(b.name)), "within 3 %", isAlike
			}
			out = append(out, f)
		}
	}
	return out
}

// The aims of the policy cost.
const (
	costWaste    = 0.05
	costResponse = 0.02
)

func costFigures() []simFigure {
	var out []simFigure
	for _, medium := range dayMedia {
		waste := simFigure{experiment: simCost, name: "waste: cost on " + medium, of: wasteOf("cost", medium), expected: "at most 5 %", holds: atMost(costWaste)}
		urgent := simFigure{experiment: simCost, name: fmt.Sprintf("response, production: cost on %s, over kill", medium), change: true,
			of: changeOf("cost", medium, "kill", responseIn("production")), expected: "at most +2 %", holds: atMost(costResponse)}
		out = append(out, waste, urgent)
	}
	for _, b := range simBands[:2] {
		out = append(out, simFigure{experiment: simCost, name: fmt.Sprintf("response, %s: cost on ssd, over kill", b.name), change: true,
			of: changeOf("cost", "ssd", "kill", responseIn(b.name)), expected: "not more", holds: isNotMore})
	}
	return out
}
