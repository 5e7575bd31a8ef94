package share

import (
	"fmt"
	"slices"
	"time"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Tables returns what was measured, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	for _, part := range []struct {
		name  string
		table func() *report.Table
	}{{partRow, r.rowTable}, {partApart, r.apartTable}, {partFrameworks, r.frameworksTable}} {
		if len(r.places(part.name)) > 0 {
			out = append(out, part.table())
		}
	}
	return append(out, r.costTable(), view.AimTable(r.aims()))
}

// cacheNote says what HDFS's own cache may hold, where it is compared with.
func (r *Results) cacheNote() string {
	if !slices.ContainsFunc(r.Runs, func(x Run) bool { return x.Mode == modeCached }) {
		return "HDFS's own cache (cache directives) was not compared with."
	}
	return fmt.Sprintf("Cached: stock, with the files of the jobs in directives of HDFS's own cache, one replica of each block, given just before the first job begins; each DataNode may lock %s.", report.Bytes(r.Plan.Locked))
}

func (r *Results) rowTable() *report.Table {
	t := &report.Table{
		Title: "The second of two identical line counts of Spark (quartet, figures 1 and 2)",
		Note: fmt.Sprintf("%d machines with %s of page cache each, %d replicas of blocks of %s. Hit rate: what the disks did not deliver of what the second job reads. "+
			"In memory before: when the first has ended, of each block the replica of which most is. Medians, in brackets from the least to the greatest; differences are formed within each repeat. %s",
			r.Plan.Servers, report.Bytes(r.Plan.Cache), r.Plan.Replication, report.Bytes(r.Plan.Block), r.cacheNote()),
		Columns: []report.Column{{Title: "data over page cache", Align: report.Right}, {Title: "mode"}, {Title: "in memory before", Align: report.Right},
			{Title: "hit rate", Align: report.Right}, {Title: "paper", Align: report.Right}, {Title: "of what was in memory", Align: report.Right},
			{Title: "first job", Align: report.Right}, {Title: "second job", Align: report.Right}, {Title: "second over first", Align: report.Right}, {Title: "second less than stock", Align: report.Right}},
	}
	r.rows(t, partRow, func(p place) report.Cell { return report.Num(p.factor, report.UnitRatio) }, func(p place, mode string, runs []Run) []report.Cell {
		return []report.Cell{view.Share(sample.Of(runs, residentShare)), view.Share(sample.Of(runs, hitRate)), report.Str(paperHits(p.factor, mode)),
			view.Share(sample.Of(runs, hitsOfResident)), view.Figure(sample.Of(runs, firstTime), report.UnitSeconds), view.Figure(sample.Of(runs, secondTime), report.UnitSeconds),
			view.Share(sample.Of(runs, secondOverFirst)), r.less(p, mode, secondTime)}
	})
	return t
}

// paperHits is quartet's figure for a mode; it has none for HDFS's cache.
func paperHits(factor float64, mode string) string {
	if mode == modeCached {
		return ""
	}
	return paper.SecondJobHits(factor, ours(mode))
}

// rows adds a row for each place of a part and mode.
func (r *Results) rows(t *report.Table, part string, name func(place) report.Cell, cells func(p place, mode string, runs []Run) []report.Cell) {
	for _, p := range r.places(part) {
		first := name(p)
		for _, mode := range r.modes(p) {
			t.Add(append([]report.Cell{first, report.Str(mode)}, cells(p, mode, r.at(p, mode))...)...)
			first = report.Str("")
		}
	}
}

// less shows how much less a measure is than stock; nothing for stock.
func (r *Results) less(p place, mode string, f measure) report.Cell {
	if mode == modeStock {
		return report.Str("")
	}
	return view.Share(r.over(p, mode, f).Less())
}

func (r *Results) apartTable() *report.Table {
	t := &report.Table{
		Title: "Two identical line counts of Spark that begin some time apart (quartet, section 1)",
		Note: fmt.Sprintf("Data %.2f times the page cache; the paper's minutes are %g times shorter here. Read: what the disks delivered of what both jobs read together. "+
			"Over started together: the time of the second job over that in the same mode with no time between. "+
			"Quartet: stock jobs 4 minutes apart take 145 %% longer than jobs started together.", factors[1], r.Plan.TimeScale),
		Columns: []report.Column{{Title: "apart", Align: report.Right}, {Title: "mode"}, {Title: "read", Align: report.Right}, {Title: "first job", Align: report.Right},
			{Title: "second job", Align: report.Right}, {Title: "over started together", Align: report.Right}, {Title: "second less than stock", Align: report.Right},
			{Title: "both", Align: report.Right}, {Title: "both less than stock", Align: report.Right}},
	}
	apart := func(p place) report.Cell { return report.Str((time.Duration(p.gap * float64(time.Second))).String()) }
	r.rows(t, partApart, apart, func(p place, mode string, runs []Run) []report.Cell {
		together := r.at(place{partApart, p.factor, 0}, mode)
		return []report.Cell{view.Share(sample.Of(runs, readOfBoth)), view.Figure(sample.Of(runs, firstTime), report.UnitSeconds),
			view.Figure(sample.Of(runs, secondTime), report.UnitSeconds), view.Share(sample.Over(runs, together, secondTime)), r.less(p, mode, secondTime),
			view.Figure(sample.Of(runs, bothTime), report.UnitSeconds), r.less(p, mode, bothTime)}
	})
	return t
}

func (r *Results) frameworksTable() *report.Table {
	t := &report.Table{
		Title: "A line count of Spark after a job of MapReduce on the same files",
		Note: "The job of MapReduce reads all blocks; its tasks are not ordered by what is in memory. " +
			"Quartet leaves different frameworks on the same data to future work.",
		Columns: []report.Column{{Title: "data over page cache", Align: report.Right}, {Title: "mode"}, {Title: "in memory before", Align: report.Right}, {Title: "hit rate", Align: report.Right},
			{Title: "of what was in memory", Align: report.Right}, {Title: "MapReduce", Align: report.Right}, {Title: "Spark", Align: report.Right}, {Title: "Spark less than stock", Align: report.Right}},
	}
	r.rows(t, partFrameworks, func(p place) report.Cell { return report.Num(p.factor, report.UnitRatio) }, func(p place, mode string, runs []Run) []report.Cell {
		return []report.Cell{view.Share(sample.Of(runs, residentShare)), view.Share(sample.Of(runs, hitRate)), view.Share(sample.Of(runs, hitsOfResident)),
			view.Figure(sample.Of(runs, firstTime), report.UnitSeconds), view.Figure(sample.Of(runs, secondTime), report.UnitSeconds), r.less(p, mode, secondTime)}
	})
	return t
}

// costTable shows what Headrace takes for it.
func (r *Results) costTable() *report.Table {
	t := &report.Table{
		Title: "What it takes",
		Note: "Over the time of both jobs. Node daemon: that of the machine whose daemon has used most, as a part of one core. Traffic: between manager and node daemons, both ways, for each application that follows what is in memory. " +
			"Longest offer: of the callbacks of Spark's scheduler in which tasks are put into order; all offers: their time together, of both jobs. Quartet: below 20 % of a core for a watcher, below 5 % for the manager, 10 to 100 kB/s.",
		Columns: []report.Column{{Title: "part"}, {Title: "mode"}, {Title: "node daemon", Align: report.Right}, {Title: "manager", Align: report.Right}, {Title: "traffic a second", Align: report.Right},
			{Title: "longest offer", Align: report.Right}, {Title: "all offers", Align: report.Right}, {Title: "left in Spark's order", Align: report.Right}},
	}
	for _, part := range Parts {
		name := report.Str(part)
		for _, mode := range Modes {
			runs := sample.Good(sample.Where(r.Runs, func(x Run) bool { return x.Part == part && x.Mode == mode }))
			if len(runs) == 0 || !ours(mode) {
				continue
			}
			t.Add(name, report.Str(mode), view.Share(sample.Of(runs, nodeCPU)), view.Share(sample.Of(runs, managerCPU)), view.Figure(sample.Of(runs, traffic), report.UnitBytes),
				view.Figure(sample.Of(runs, longestOffer), report.UnitSeconds), view.Figure(sample.Of(runs, allOffers), report.UnitSeconds), report.Num(sample.Of(runs, doubts).Max, report.UnitNone))
			name = report.Str("")
		}
	}
	return t
}

// aims are those of quartet and more, for the jobs of Spark one after the other. They judge what goes by what is in memory, not what reads ahead besides.
func (r *Results) aims() []sample.Aim {
	fits := sample.Aim{What: "hits of the second job where the data fit", Part: partRow, Paper: "92 to 98 %", Unit: report.UnitPercent, Bound: 0.95, AtLeast: true, Value: sample.Unmeasured()}
	ofResident := sample.Aim{What: "hits where they do not, of what is in memory when it starts", Part: partRow, Unit: report.UnitPercent, Bound: 0.9, AtLeast: true, Value: sample.Unmeasured()}
	faster := sample.Aim{What: "less time than stock for the second job where the data fit", Part: partRow, Paper: "45 %", Unit: report.UnitPercent, Bound: 0.45, AtLeast: true, Value: sample.Unmeasured()}
	fasterAbove := sample.Aim{What: "less time than stock for the second job at 1.33", Part: partRow, Paper: "21 to 43 %", Unit: report.UnitPercent, Bound: 0.43, AtLeast: true, Value: sample.Unmeasured()}
	alone := sample.Aim{What: "time over stock of a job that finds nothing in memory", Part: partRow, Unit: report.UnitPercent, Bound: 1.02, Excess: true, Value: sample.Unmeasured()}
	for _, p := range r.places(partRow) {
		where := fmt.Sprintf("%s, %.2f times the page cache", modeOrdered, p.factor)
		if p.factor < 1 {
			fits.Worst(sample.Of(r.at(p, modeOrdered), hitRate), where)
			faster.Worst(r.over(p, modeOrdered, secondTime).Less(), where)
		} else {
			ofResident.Worst(sample.Of(r.at(p, modeOrdered), hitsOfResident), where)
		}
		if p.factor == factors[1] {
			fasterAbove.Worst(r.over(p, modeOrdered, secondTime).Less(), where)
		}
		alone.Worst(r.over(p, modeOrdered, firstTime), where)
	}
	return append([]sample.Aim{fits, ofResident, faster, fasterAbove, alone}, r.costAims()...)
}

// costAims hold at every place.
func (r *Results) costAims() []sample.Aim {
	node := sample.Aim{What: "processor time of a node daemon, of one core", Paper: "20 %", Unit: report.UnitPercent, Bound: 0.01, Value: sample.Unmeasured()}
	manager := sample.Aim{What: "processor time of the manager, of one core", Paper: "5 %", Unit: report.UnitPercent, Bound: 0.05, Value: sample.Unmeasured()}
	talk := sample.Aim{What: "traffic a second and application", Paper: "10 to 100 kB", Unit: report.UnitBytes, Bound: 100e3, Value: sample.Unmeasured()}
	offer := sample.Aim{What: "longest offer in which tasks are put into order", Unit: report.UnitSeconds, Bound: 0.001, Value: sample.Unmeasured()}
	for _, part := range Parts {
		for _, p := range r.places(part) {
			where, runs := modeOrdered+": "+p.String(), r.at(p, modeOrdered)
			node.Worst(sample.Of(runs, nodeCPU), where)
			manager.Worst(sample.Of(runs, managerCPU), where)
			talk.Worst(sample.Of(runs, traffic), where)
			offer.Worst(sample.Of(runs, longestOffer), where)
		}
	}
	return []sample.Aim{node, manager, talk, offer}
}

func (p place) String() string {
	s := fmt.Sprintf("%s, %.2f times the page cache", p.part, p.factor)
	if p.part == partApart {
		s += fmt.Sprintf(", %v apart", time.Duration(p.gap*float64(time.Second)))
	}
	return s
}

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "Jobs of a cluster that share what is in memory",
		Intro: fmt.Sprintf("Pairs of jobs on the same files of a real HDFS, on a real YARN: %d machines, each with a network, a DataNode, a modelled disk and %s of page cache of its own. "+
			"Spark as it comes (stock), with the files in HDFS's own cache (cached), with what is in memory first, where hosts take what others have in memory at once (at-once) or wait a little (ordered), and with input read ahead as well (warmed). Every job's answer was compared.",
			r.Plan.Servers, report.Bytes(r.Plan.Cache)),
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	tables := r.Tables()
	if len(r.places(partRow)) > 0 {
		p.Add("One after the other", report.Block{Lines: r.lines("Hit rate of the second job", report.Higher, hitRate), Half: true},
			report.Block{Lines: r.lines("Second job over the first", report.Lower, secondOverFirst), Half: true})
	}
	for _, t := range tables[:len(tables)-1] {
		p.Add(t.Title, report.Block{Table: t})
		t.Title = ""
	}
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

func (r *Results) lines(title string, better report.Better, f measure) *report.Lines {
	l := &report.Lines{Title: title, Better: better, X: report.Axis{Label: "data over page cache", Unit: report.UnitRatio}, Y: report.Axis{Unit: report.UnitPercent}}
	for _, mode := range Modes {
		points := sample.Where(r.places(partRow), func(p place) bool { return len(r.at(p, mode)) > 0 })
		view.Series(l, mode, points, func(p place) (float64, sample.Spread) { return p.factor, sample.Of(r.at(p, mode), f) })
	}
	return l
}
