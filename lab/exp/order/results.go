package order

import (
	"fmt"
	"math"

	"headrace/lab/sample"
	"headrace/lab/trial"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Results is everything that `bench order` has measured.
type Results struct {
	trial.Circumstances
	// Memory is what may be used; File the size of a file.
	Memory int64 `json:"memory"`
	File   int64 `json:"file"`
	Runs   []Run `json:"runs,omitempty"`
}

// Run is two identical jobs in a row. Times are seconds, sizes bytes.
type Run struct {
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int `json:"repeat"`
	Order  int `json:"order"`
	// Factor is the data set as a part of the memory allowed.
	Factor  float64 `json:"factor"`
	How     string  `json:"how"`
	Ordered bool    `json:"ordered"`

	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// First and Second are how long the jobs took, FirstRead and SecondRead what
	// came from the disk, Resident what was in memory when the second began.
	First      float64 `json:"first"`
	Second     float64 `json:"second"`
	FirstRead  int64   `json:"first_read"`
	SecondRead int64   `json:"second_read"`
	Resident   int64   `json:"resident"`

	// Failure says why there are no numbers.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (r Run) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// hits returns what the second job did not read from the disk.
func (r Run) hits() int64 { return max(0, r.Bytes-r.SecondRead) }

func (r *Results) Any() bool { return len(r.Runs) > 0 }

// at returns the spread of a measure over the runs at a point.
func (r *Results) at(p orderPoint, f func(Run) float64) sample.Spread {
	return sample.Of(sample.Where(sample.Good(r.Runs), func(x Run) bool { return x.Factor == p.factor && x.How == p.how && x.Ordered == p.ordered }), f)
}

func hitRate(x Run) float64       { return float64(x.hits()) / float64(x.Bytes) }
func residentShare(x Run) float64 { return float64(x.Resident) / float64(x.Bytes) }
func hitsOfResident(x Run) float64 {
	return float64(x.hits()) / float64(x.Resident)
}
func secondOverFirst(x Run) float64 { return x.Second / x.First }

// points returns those that occur, without and with the order after each other.
func (r *Results) points() []orderPoint {
	var out []orderPoint
	for _, how := range []string{howDealt, howQueued} {
		for _, f := range orderFactors {
			for _, ordered := range []bool{false, true} {
				p := orderPoint{f, how, ordered}
				if !math.IsNaN(r.at(p, hitRate).Median) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

func (r *Results) Tables() []*report.Table {
	return []*report.Table{r.table(), view.AimTable(r.aims())}
}

func (r *Results) table() *report.Table {
	t := &report.Table{
		Title: "The second of two identical jobs (quartet, figures 1 and 2)",
		Note: fmt.Sprintf("Files of %s; daemon, tasks and page cache have %s together. Hit rate: what did not come from the disk. "+
			"Medians, in brackets from the least to the greatest. The paper's cluster chooses replicas, which this machine does not, and so misses even where all data are in memory.",
			report.Bytes(r.File), report.Bytes(r.Memory)),
		Columns: []report.Column{{Title: "how"}, {Title: "data over memory", Align: report.Right}, {Title: "in memory first"},
			{Title: "in memory before", Align: report.Right}, {Title: "hit rate", Align: report.Right}, {Title: "paper", Align: report.Right},
			{Title: "of what was in memory", Align: report.Right}, {Title: "first job", Align: report.Right}, {Title: "second job", Align: report.Right}, {Title: "second over first", Align: report.Right}},
	}
	how := ""
	for _, p := range r.points() {
		name := ""
		if p.how != how {
			name, how = p.how, p.how
		}
		yes := "no"
		if p.ordered {
			yes = "yes"
		}
		t.Add(report.Str(name), report.Num(p.factor, report.UnitRatio), report.Str(yes), view.Figure(r.at(p, residentShare), report.UnitPercent),
			view.Figure(r.at(p, hitRate), report.UnitPercent), report.Str(paper.SecondJobHits(p.factor, p.ordered)), view.Figure(r.at(p, hitsOfResident), report.UnitPercent),
			view.Figure(r.at(p, func(x Run) float64 { return x.First }), report.UnitSeconds),
			view.Figure(r.at(p, func(x Run) float64 { return x.Second }), report.UnitSeconds),
			view.Figure(r.at(p, secondOverFirst), report.UnitPercent))
	}
	return t
}

// aims returns that nothing which was in memory is read again, at the worst point.
func (r *Results) aims() []sample.Aim {
	var out []sample.Aim
	for _, how := range []string{howDealt, howQueued} {
		a := sample.Aim{What: "hits of the second job, of what is in memory when it starts: " + how, Unit: report.UnitPercent, Bound: 0.95, AtLeast: true, Value: sample.Unmeasured()}
		for _, p := range r.points() {
			if p.how != how || !p.ordered {
				continue
			}
			a.Worst(r.at(p, hitsOfResident), fmt.Sprintf("%.2f times the memory", p.factor))
		}
		out = append(out, a)
	}
	return out
}

func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "What is in memory goes first",
		Intro: fmt.Sprintf("Two identical jobs read the same files, one job after the other. Daemon, tasks and page cache have %s together. "+
			"When the files do not all fit, the first job leaves the last of them in memory; a second one that begins with the first of them throws out what it will need. "+
			"The files lie on this disk: %s. Every task's answer was checked.", report.Bytes(r.Memory), r.Disk),
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	p.Add("Hit rate and duration", report.Block{Lines: r.lines("Hit rate of the second job", hitRate), Half: true},
		report.Block{Lines: r.lines("Second job over the first", secondOverFirst), Half: true}, report.Block{Table: r.table()})
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

func (r *Results) lines(title string, f func(Run) float64) *report.Lines {
	l := &report.Lines{Title: title, X: report.Axis{Label: "data over memory", Unit: report.UnitRatio}, Y: report.Axis{Unit: report.UnitPercent}}
	for _, ordered := range []bool{false, true} {
		name := "in order of the files"
		if ordered {
			name = "what is in memory first"
		}
		points := sample.Where(r.points(), func(p orderPoint) bool { return p.how == howDealt && p.ordered == ordered })
		view.Series(l, name, points, func(p orderPoint) (float64, sample.Spread) { return p.factor, r.at(p, f) })
	}
	return l
}
