package hdfs

import (
	"fmt"
	"math"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Tables returns what was measured, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	if r.ran(partSwim) {
		out = append(out, r.jobTable(), r.classTable(), r.blockTable(), r.memoryTable())
	}
	if r.ran(partSort) {
		out = append(out, r.pointTable(partSort, "Hadoop's sort (ignem, table III)", "Ignem took 22 % less than HDFS; with its input in RAM the job took 49 % less."))
	}
	if r.ran(partWordcount) {
		out = append(out, r.pointTable(partWordcount, "A word count alone (ignem, figure 8)",
			fmt.Sprintf("Inputs are what three of eight servers have of 1 to 12 GB, %.0f times smaller. Delayed: the job is submitted when its input is in memory, at most %.3g s later, which count in its duration; "+
				"in the paper always 10 s later. Ignem is as fast as RAM up to 2 GB, and up to 30 %% faster than HDFS.", r.Plan.Shrink, r.Plan.Delay)))
	}
	if r.ran(partQueries) {
		out = append(out, r.queryTable())
	}
	return append(out, r.slowestTable(), view.AimTable(r.aims()))
}

func (r *Results) aims() []sample.Aim {
	all := meanDuration("")
	worst := sample.Aim{What: "time of a job, of stock: the greatest median of all jobs", Unit: report.UnitPercent, Bound: 1.02, Value: sample.Unmeasured()}
	for _, part := range Parts {
		v, name := r.slowest(part, modeWarmed)
		worst.Worst(v, name)
	}
	memory := sample.Of(r.of(partSwim, modeWarmed), func(x Run) float64 {
		ram, ok := sample.Beside(x, r.of(partSwim, modeRAM))
		if !ok {
			return math.NaN()
		}
		return ram.instantaneous().Mean / x.kept().Mean
	})
	return []sample.Aim{
		{What: "share of what inputs in RAM could gain at most that Headrace gains, mean duration of all jobs", Part: partSwim, Paper: "60 %", Unit: report.UnitPercent,
			Bound: 0.8, AtLeast: true, Value: r.reached(partSwim, modeWarmed, "", all)},
		{What: "mean time to read a block, less than stock", Part: partSwim, Paper: "40 %", Unit: report.UnitPercent, Bound: 0.5, AtLeast: true, Value: r.less(partSwim, modeWarmed, "", meanRead)},
		{What: "memory that the instantaneous scheme needs over that of Headrace", Part: partSwim, Paper: "2.6", Unit: report.UnitRatio, Bound: 2.6, AtLeast: true, Value: memory},
		worst,
		{What: "mean of how much less time than stock queries take", Part: partQueries, Paper: "20 %", Unit: report.UnitPercent, Bound: 0.25, AtLeast: true,
			Value: r.lessOnAverage(partQueries, modeWarmed)},
	}
}

// jobTable is ignem, table I.
func (r *Results) jobTable() *report.Table {
	of := paper.OfIgnem()
	t := &report.Table{
		Title: "Mean duration of the jobs (ignem, table I)",
		Note: fmt.Sprintf("Medians over the repeats, in brackets from the least to the greatest; differences are formed within each repeat, the share of the possible over all together. "+
			"Ignem: %s less than stock, 60 %% of what was possible; inputs in RAM: %s less.", report.Percent(of.Shorter), report.Percent(of.InMemory)),
		Columns: []report.Column{{Title: "inputs"}, {Title: "mean duration", Align: report.Right}, {Title: "less than stock", Align: report.Right},
			{Title: "share of the possible", Align: report.Right}, {Title: "read from disks", Align: report.Right}, {Title: "seeks per 100 MB", Align: report.Right},
			{Title: "disks busy", Align: report.Right}},
	}
	all := meanDuration("")
	for _, mode := range r.modes(partSwim) {
		runs := r.of(partSwim, mode)
		t.Add(report.Str(called(mode)), view.Figure(sample.Of(runs, all), report.UnitSeconds), view.Share(r.less(partSwim, mode, "", all)), view.Share(r.reached(partSwim, mode, "", all)),
			report.Num(sample.Of(runs, func(x Run) float64 { return float64(x.Disk.Read) }).Median, report.UnitBytes),
			report.Num(math.Round(sample.Of(runs, func(x Run) float64 { return float64(x.Disk.Seeks) / (float64(x.Disk.Read+x.Disk.Written) / 100e6) }).Median), report.UnitNone),
			report.Num(sample.Of(runs, func(x Run) float64 { return x.Disk.Busy }).Median, report.UnitSeconds))
	}
	return t
}

// classTable is ignem, figure 5.
func (r *Results) classTable() *report.Table {
	t := &report.Table{
		Title: "Mean duration by size of the input (ignem, figure 5)",
		Note: "Small: up to a block of 64 MB in the paper, medium: up to 512 MB. " +
			"Ignem: 8.8, 7.7 and 25 % less than stock; inputs in RAM: about the same for small and medium ones, 60 % less for large ones.",
		Columns: []report.Column{{Title: "jobs"}, {Title: "number", Align: report.Right}, {Title: "inputs"}, {Title: "mean duration", Align: report.Right},
			{Title: "less than stock", Align: report.Right}, {Title: "share of the possible", Align: report.Right}},
	}
	for _, class := range classes {
		of, n := meanDuration(class), r.number(class)
		if n == 0 {
			continue
		}
		name, number := report.Str(class), report.Num(float64(n), report.UnitNone)
		for _, mode := range r.modes(partSwim) {
			t.Add(name, number, report.Str(called(mode)), view.Figure(sample.Of(r.of(partSwim, mode), of), report.UnitSeconds),
				view.Share(r.less(partSwim, mode, "", of)), view.Share(r.reached(partSwim, mode, "", of)))
			name, number = report.Str(""), report.Str("")
		}
	}
	return t
}

// number returns how many jobs of a class there are.
func (r *Results) number(class string) (n int) {
	for _, x := range sample.Good(r.Runs) {
		if x.Part == partSwim {
			return len(sample.Where(x.Jobs, func(j Job) bool { return j.Class == class }))
		}
	}
	return 0
}

// blockTable is ignem, figure 6.
func (r *Results) blockTable() *report.Table {
	of := paper.OfIgnem()
	t := &report.Table{
		Title: "Reading one block (ignem, figure 6)",
		Note: fmt.Sprintf("A block has %s. From memory: read in less time than a disk takes to transfer it, %s; the others: all that took longer. "+
			"Ignem: %s less, about %s from memory.", report.Bytes(r.Plan.Block), report.Seconds(transfer), report.Percent(of.Reads), report.Percent(of.FromMemory)),
		Columns: []report.Column{{Title: "inputs"}, {Title: "mean", Align: report.Right}, {Title: "less than stock", Align: report.Right},
			{Title: "half below", Align: report.Right}, {Title: "90 % below", Align: report.Right}, {Title: "99 % below", Align: report.Right},
			{Title: "from memory", Align: report.Right}, {Title: "mean of the others", Align: report.Right}},
	}
	for _, mode := range r.modes(partSwim) {
		runs := r.of(partSwim, mode)
		row := []report.Cell{report.Str(called(mode)), view.Figure(sample.Of(runs, meanRead), report.UnitSeconds), view.Share(r.less(partSwim, mode, "", meanRead))}
		for _, q := range []float64{0.5, 0.9, 0.99} {
			row = append(row, report.Num(sample.Of(runs, func(x Run) float64 { return sample.Quantile(x.reads(), q) }).Median, report.UnitSeconds))
		}
		t.Add(append(row, report.Num(sample.Of(runs, fromMemory).Median, report.UnitPercent), report.Num(sample.Of(runs, meanColdRead).Median, report.UnitSeconds))...)
	}
	return t
}

// memoryTable is ignem, figure 7.
func (r *Results) memoryTable() *report.Table {
	t := &report.Table{
		Title: "Memory that is kept for jobs, of a server (ignem, figure 7)",
		Note: "Means over the time in which anything was kept. Instantaneous: a scheme that reads all of an input in no time when its job is submitted and drops it when the job ends, " +
			"computed from the runs with inputs in RAM. Ignem kept 2.6 times less on average.",
		Columns: []report.Column{{Title: "scheme"}, {Title: "mean", Align: report.Right}, {Title: "most", Align: report.Right}},
	}
	add := func(name string, runs []Run, of func(Run) held) {
		t.Add(report.Str(name), view.Figure(sample.Of(runs, func(x Run) float64 { return of(x).Mean }), report.UnitBytes),
			view.Figure(sample.Of(runs, func(x Run) float64 { return of(x).Max }), report.UnitBytes))
	}
	add(modeWarmed, r.of(partSwim, modeWarmed), Run.kept)
	add("instantaneous", r.of(partSwim, modeRAM), Run.instantaneous)
	return t
}

// pointTable has a row for each size and mode of a job that runs alone.
func (r *Results) pointTable(part, title, note string) *report.Table {
	t := &report.Table{Title: title, Note: note,
		Columns: []report.Column{{Title: "input", Align: report.Right}, {Title: "inputs"}, {Title: "duration", Align: report.Right}, {Title: "less than stock", Align: report.Right},
			{Title: "share of the possible", Align: report.Right}}}
	all := meanDuration("")
	for _, name := range r.names(part) {
		size := report.Num(float64(r.inputOf(part, name)), report.UnitBytes)
		for _, mode := range r.modes(part) {
			t.Add(size, report.Str(called(mode)), view.Figure(sample.Of(r.at(part, mode, name), all), report.UnitSeconds), view.Share(r.less(part, mode, name, all)), view.Share(r.reached(part, mode, name, all)))
			size = report.Str("")
		}
	}
	return t
}

// queryTable is ignem, figure 9.
func (r *Results) queryTable() *report.Table {
	t := &report.Table{Title: "Queries (ignem, figure 9)",
		Note:    fmt.Sprintf("TPC-H by Spark SQL, scale %g, tables as text, with executors that are asked for when a query has tasks. Ignem, with Hive and TPC-DS: up to 34 %% less than HDFS, on average 20 %%, less with large inputs.", r.Plan.Scale),
		Columns: []report.Column{{Title: "query"}, {Title: "input", Align: report.Right}}}
	modes, all := r.modes(partQueries), meanDuration("")
	for _, mode := range modes {
		t.Columns = append(t.Columns, report.Column{Title: called(mode), Align: report.Right})
		if mode != modeStock {
			t.Columns = append(t.Columns, report.Column{Title: "less", Align: report.Right})
		}
	}
	for _, name := range r.names(partQueries) {
		row := []report.Cell{report.Str(name), report.Num(float64(r.inputOf(partQueries, name)), report.UnitBytes)}
		for _, mode := range modes {
			row = append(row, view.Figure(sample.Of(r.at(partQueries, mode, name), all), report.UnitSeconds))
			if mode != modeStock {
				row = append(row, view.Share(r.less(partQueries, mode, name, all)))
			}
		}
		t.Add(row...)
	}
	row := []report.Cell{report.Str("mean"), report.Str("")}
	for _, mode := range modes {
		row = append(row, report.Str(""))
		if mode != modeStock {
			row = append(row, view.Share(r.lessOnAverage(partQueries, mode)))
		}
	}
	t.Add(row...)
	return t
}

// slowestTable shows whom something harms.
func (r *Results) slowestTable() *report.Table {
	t := &report.Table{Title: "The job that gains least", Note: "Its time over that stock, the median of the repeats, of all jobs that were run. Inputs in RAM can harm nobody: what is above 100 % there is how far apart two runs of a job are.",
		Columns: []report.Column{{Title: "part"}, {Title: "inputs"}, {Title: "job"}, {Title: "time, of stock", Align: report.Right}}}
	for _, part := range Parts {
		name := report.Str(part)
		for _, mode := range r.modes(part) {
			if v, job := r.slowest(part, mode); mode != modeStock && job != "" {
				t.Add(name, report.Str(called(mode)), report.Str(job), view.Share(v))
				name = report.Str("")
			}
		}
	}
	return t
}

// Page returns the whole report for people who would rather look.
func (r *Results) Page() *report.Page {
	aims := r.aims()
	p := &report.Page{
		Title: "Files of HDFS that are in memory when their jobs come to read them",
		Intro: fmt.Sprintf("The jobs of ignem on a real HDFS and YARN: %d machines, each with a network, a DataNode and a modelled disk of its own; %.0f times less data than in the paper on as much slower disks. "+
			"Inputs are on the disks, read into memory by Headrace when a job is submitted, or in memory beforehand. Every job's answer was compared.",
			r.Plan.Servers, r.Plan.Shrink),
		Figures: view.AimFigures(aims),
		Facts:   r.Facts(),
	}
	if r.ran(partSwim) {
		p.Add("A day of a cluster", report.Block{Table: r.jobTable()}, report.Block{Bars: r.classBars()}, report.Block{Table: r.classTable()})
		p.Add("Blocks", report.Block{Lines: r.blockLines()}, report.Block{Table: r.blockTable()})
		p.Add("Memory", report.Block{Table: r.memoryTable()})
	}
	tables := r.Tables()
	for _, t := range tables[:len(tables)-1] {
		if first := t.Columns[0].Title; first == "input" || first == "query" || first == "part" {
			p.Add(t.Title, report.Block{Table: t})
			t.Title = ""
		}
	}
	if len(r.names(partWordcount)) > 1 {
		p.Add("By size", report.Block{Lines: r.sizeLines()})
	}
	p.Add("Aims", report.Block{Table: view.AimTable(aims)}, r.RemarksText())
	return p
}

// called returns what a mode is called in reports.
func called(mode string) string {
	if mode == modeRAM {
		return "in RAM"
	}
	return mode
}

// classBars show how much less time jobs took than stock.
func (r *Results) classBars() *report.Bars {
	rows := slices.DeleteFunc(r.modes(partSwim), func(mode string) bool { return mode == modeStock })
	measures := []view.Measure{{Title: "all", Unit: report.UnitPercent, Better: report.Higher, Of: func(mode string) sample.Spread { return r.less(partSwim, mode, "", meanDuration("")) }}}
	for _, class := range classes {
		if r.number(class) > 0 {
			measures = append(measures, view.Measure{Title: class, Unit: report.UnitPercent, Better: report.Higher,
				Of: func(mode string) sample.Spread { return r.less(partSwim, mode, "", meanDuration(class)) }})
		}
	}
	return view.Bars("Less time than stock, by size of the input", rows, measures...)
}

// blockLines returns the distribution of the times in which blocks were read.
func (r *Results) blockLines() *report.Lines {
	l := &report.Lines{Title: "Blocks that were read within a time",
		X: report.Axis{Label: "time to read a block", Unit: report.UnitSeconds, Log: true}, Y: report.Axis{Label: "share of the blocks", Unit: report.UnitPercent}}
	for _, mode := range r.modes(partSwim) {
		s := report.Series{Name: called(mode)}
		var all []float64
		for _, x := range r.of(partSwim, mode) {
			all = append(all, x.reads()...)
		}
		slices.Sort(all)
		for i := range 51 {
			q := float64(i) / 50
			s.Points = append(s.Points, report.Point{X: sample.Quantile(all, q), Y: q})
		}
		l.Series = append(l.Series, s)
	}
	return l
}

// sizeLines are ignem, figure 8.
func (r *Results) sizeLines() *report.Lines {
	l := &report.Lines{Title: "A word count alone: duration, of that stock", Better: report.Lower,
		X: report.Axis{Label: "input", Unit: report.UnitBytes}, Y: report.Axis{Unit: report.UnitPercent}}
	for _, mode := range r.modes(partWordcount) {
		if mode != modeStock {
			view.Series(l, called(mode), r.names(partWordcount), func(name string) (float64, sample.Spread) {
				return float64(r.inputOf(partWordcount, name)), sample.Over(r.at(partWordcount, mode, name), r.at(partWordcount, modeStock, name), meanDuration(""))
			})
		}
	}
	return l
}
