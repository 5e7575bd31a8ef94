package sim

import (
	"fmt"
	"math"

	"headrace/lab/sample"
	"headrace/paper"
	"headrace/policy"
	"headrace/report"
)

// simBands are the bands of priorities; the paper calls them low, medium and high.
var simBands = []string{"free", "middle", "production"}

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

// wasteOf returns the share of the time of CPUs that was wasted.
func wasteOf(name policy.Name, medium string) func(aDay) float64 {
	return func(d aDay) float64 {
		if r := d.run(name, medium); r != nil {
			return r.Work.WasteShare()
		}
		return math.NaN()
	}
}

// changeOf compares a number of two runs.
func changeOf(name policy.Name, medium string, with policy.Name, of func(*Run) float64) func(aDay) float64 {
	return func(d aDay) float64 {
		a, b := d.run(name, medium), d.run(with, medium)
		if a == nil || b == nil || of(b) == 0 {
			return math.NaN()
		}
		return of(a)/of(b) - 1
	}
}

func joules(r *Run) float64 { return r.Energy.Joules }

func responseIn(band string) func(*Run) float64 {
	return func(r *Run) float64 { return r.Band(band).Response.Mean }
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

// simFigures returns all of them.
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
	published := func(name, medium string) string {
		share, _ := paper.GoogleDay().Waste(name, medium)
		return report.Percent(share)
	}
	out := []simFigure{{experiment: simFigure3, name: wasteOfKill, paper: published("kill", ""), of: wasteOf("kill", ""), expected: "25 to 45 %",
		holds: func(_ aDay, v float64) bool { return v >= 0.25 && v <= 0.45 }}}
	before := simFigure{name: "kill", of: wasteOf("kill", "")}
	for _, medium := range dayMedia {
		than := before
		f := simFigure{experiment: simFigure3, name: "waste: checkpoint on " + medium, paper: published("checkpoint", medium), of: wasteOf("checkpoint", medium),
			expected: "less than " + than.name,
			holds:    func(d aDay, v float64) bool { return v < than.of(d) }}
		out = append(out, f)
		before = simFigure{name: "on " + medium, of: f.of}
	}
	return out
}

// asPublished asks for the direction that the paper has: a change, or words where it
// has no number.
func (f simFigure) asPublished(change float64, words string) simFigure {
	f.change, f.paper = true, words
	switch {
	case change != 0:
		f.paper, f.expected, f.holds = fmt.Sprintf("%.0f %%", 100*change), "less", isLess
	case words == "less":
		f.expected, f.holds = words, isLess
	case words == "more" || words == "a little more":
		f.expected, f.holds = "more", isMore
	default:
		f.expected, f.holds = "within 3 %", isAlike
	}
	return f
}

// energyFigures are figure 3b.
func energyFigures() []simFigure {
	var out []simFigure
	for _, medium := range dayMedia {
		change := 0.0
		if medium == "nvm" {
			change = paper.GoogleDay().Energy
		}
		f := simFigure{experiment: simFigure3, name: "energy: checkpoint on " + medium + ", over kill", of: changeOf("checkpoint", medium, "kill", joules)}
		out = append(out, f.asPublished(change, "alike"))
	}
	return out
}

// responseFigures are figure 3c: responses over those of kill.
func responseFigures() []simFigure {
	var out []simFigure
	for _, medium := range dayMedia {
		for _, b := range simBands {
			r, _ := paper.GoogleDay().Response("checkpoint", "kill", medium, b)
			f := simFigure{experiment: simFigure3, name: fmt.Sprintf("response, %s: checkpoint on %s, over kill", b, medium),
				of: changeOf("checkpoint", medium, "kill", responseIn(b))}
			out = append(out, f.asPublished(r.Change, inWords[r.Words]))
		}
	}
	return out
}

// inWords is what we call what the paper has words for only.
var inWords = map[string]string{"shorter": "less", "longer": "more", "slightly longer": "a little more", "comparable": "alike", "similar": "alike", "comparable to kill": "as kill"}

// adaptiveFigures are figure 5: adaptive over checkpoint.
func adaptiveFigures() []simFigure {
	var out []simFigure
	for _, b := range simBands {
		for _, medium := range dayMedia {
			r, _ := paper.GoogleDay().Response("adaptive", "checkpoint", medium, b)
			than := r.Against
			if r.Change == 0 {
				than = "kill"
			}
			f := simFigure{experiment: simFigure5, name: fmt.Sprintf("response, %s: adaptive on %s, over %s", b, medium, than),
				of: changeOf("adaptive", medium, policy.Name(than), responseIn(b))}
			out = append(out, f.asPublished(r.Change, inWords[r.Words]))
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
		out = append(out, simFigure{experiment: simCost, name: fmt.Sprintf("response, %s: cost on ssd, over kill", b), change: true,
			of: changeOf("cost", "ssd", "kill", responseIn(b)), expected: "not more", holds: isNotMore})
	}
	return out
}
