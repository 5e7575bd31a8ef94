package page

import (
	"math"
	"slices"
	"strings"

	"headrace/paper"
	"headrace/policy"
	"headrace/report"
	"headrace/sim"
	"headrace/trace"
)

// published reports whether the workload is like the one that checkpoint-preemption
// simulated, so that what it published is shown beside the results.
type published bool

func isGoogleDay(results []*sim.Result) published {
	return published(len(results) > 0 && !slices.ContainsFunc(results, func(r *sim.Result) bool {
		return !strings.HasPrefix(strings.TrimPrefix(r.Workload, "synthetic:"), trace.GoogleDayName)
	}))
}

// of is v if it is shown; 0 is where the paper has no number.
func (p published) of(v float64) float64 {
	if !p || v == 0 {
		return math.NaN()
	}
	return v
}

func (p published) note(v float64) string {
	if v = p.of(v); math.IsNaN(v) {
		return ""
	}
	return "; published: " + report.Percent(v)
}

// publishedWaste returns the share of what was used that was wasted.
func publishedWaste(r *sim.Result) float64 {
	share, _ := paper.GoogleDay().Waste(string(r.Policy), r.Medium)
	return share
}

// publishedChange returns how a policy changes the response of a band's jobs, against
// another on the same medium: -0.74 is 74 % shorter.
func publishedChange(p, against policy.Name, medium, band string) float64 {
	r, _ := paper.GoogleDay().Response(string(p), string(against), medium, band)
	return r.Change
}

// publishedResponse returns that against kill, as a multiple.
func publishedResponse(r *sim.Result, band string) float64 {
	if change := publishedChange(r.Policy, policy.Kill, r.Medium, band); change != 0 {
		return 1 + change
	}
	return 0
}

// publishedOften returns the share of preempted tasks that were preempted at least so
// often (figure 1c).
func publishedOften(times int) float64 {
	p := paper.GoogleDay()
	switch times {
	case 1:
		return 1
	case 2:
		return p.Repeated
	case trace.OftenTimes:
		return p.Often
	}
	return missing
}

// publishedBands returns the rates of table 1, with that of all tasks behind them.
func publishedBands(i int) float64 {
	p := paper.GoogleDay()
	if i < len(p.Bands) {
		return p.Bands[i].Preempted
	}
	return p.Preempted
}

func publishedClasses(i int) float64 {
	if p := paper.GoogleDay(); i < len(p.Classes) {
		return p.Classes[i].Preempted
	}
	return missing
}

// publishedSection sets what killing did beside what the paper says of it.
func (s set) publishedSection(p *report.Page) {
	if !s.published || s.reference.Policy != policy.Kill {
		return
	}
	r := s.reference
	scale := share(r.Tasks, paper.GoogleDay().Tasks)
	t := &report.Table{
		Title:   "Kill, beside checkpoint-preemption",
		Note:    "What is in core-hours is taken for the size of the workload. Tables 1 and 2 and figure 1 of the paper are about a month of a real cluster, the rest about a simulated day.",
		Columns: []report.Column{{Title: "", Flex: true}, right(publishedName), right("here"), {Title: "where"}},
	}
	for _, c := range trace.CompareOutcome(&r.Outcome, r.Work.Used()/coreHour, r.Work.Wasted()/coreHour, scale) {
		show := func(v float64) report.Cell {
			switch {
			case c.Unit == "%":
				return fine(v / 100)
			case v >= 100:
				return report.Str(grouped(int(v+0.5)) + " " + c.Unit)
			}
			return report.Num(v, report.Unit(c.Unit))
		}
		t.Add(report.Str(c.What), show(c.Published), show(c.Ours), report.Str(c.Source))
	}
	p.Add("How far this is like the published day", report.Block{Table: t})
}
