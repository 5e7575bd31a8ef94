package warm

import (
	"fmt"
	"math"
	"slices"

	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/report"
)

func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	add := func(any bool, t func() *report.Table) {
		if any {
			out = append(out, t())
		}
	}
	add(len(r.Replays) > 0, r.jobTable)
	add(len(r.Replays) > 0, r.classTable)
	add(len(r.Replays) > 0, r.blockTable)
	add(len(r.in(modeWarmed))+len(r.in(modeFIFO)) > 0, r.memoryTable)
	add(len(r.inputsOf(kindWordcount)) > 0, func() *report.Table {
		return r.singleTable(kindWordcount, "One word count alone (ignem, figure 8)",
			fmt.Sprintf("Delayed: it is held back for %.3g s longer, which count in its duration.", r.Plan.Lead))
	})
	add(len(r.inputsOf(kindSort)) > 0, func() *report.Table {
		return r.singleTable(kindSort, "One sort alone (ignem, table III)", "Ignem took 22 % less than HDFS; with its input in RAM the job took 49 % less.")
	})
	return append(out, view.AimTable(r.aims()))
}

func (r *Results) aims() []sample.Aim {
	aims := []sample.Aim{{What: "share of what inputs in RAM could gain at most that warming gains, mean duration of all jobs",
		Paper: "60 %", Unit: report.UnitPercent, Bound: 0.8, AtLeast: true, Value: r.reached(modeWarmed, meanDuration(""))}}
	return aims
}

// replayModes returns those that occur among the replays.
func (r *Results) replayModes() []string {
	return modesOf(r.Replays, func(x Replay) string { return x.Mode })
}

// modesWithIdeal has the computed one where that can be computed.
func (r *Results) modesWithIdeal() []string {
	modes := r.replayModes()
	if i := slices.Index(modes, modeRAM); i >= 0 && len(r.ideal()) > 0 {
		modes = slices.Insert(modes, i, modeIdeal)
	}
	return modes
}

// jobTable is ignem, table I.
func (r *Results) jobTable() *report.Table {
	t := &report.Table{
		Title: "Mean duration of the jobs (ignem, table I)",
		Note: "Medians over the repeats, in brackets from the least to the greatest; differences are formed within each repeat, the share of the possible over all together. " +
			"Ideal is computed: the disk does nothing but read ahead, at full speed, without a seek inside a file, and gives way at any byte to a smaller job. " +
			"Ignem: 12 % less than cold, 60 % of what was possible; inputs in RAM: 21 % less. Without its order by size 2 points fewer.",
		Columns: []report.Column{{Title: "inputs"}, {Title: "mean duration", Align: report.Right}, {Title: "less than cold", Align: report.Right},
			{Title: "share of the possible", Align: report.Right}, {Title: "read from the disk", Align: report.Right}, {Title: "seeks per 100 MB", Align: report.Right},
			{Title: "CPU of the daemon", Align: report.Right}},
	}
	all := meanDuration("")
	for _, mode := range r.modesWithIdeal() {
		row := []report.Cell{report.Str(mode), view.Figure(r.of(mode, all), report.UnitSeconds), view.Share(r.against(mode, all)), view.Share(r.reached(mode, all))}
		if mode == modeIdeal {
			t.Add(row...)
			continue
		}
		t.Add(append(row,
			report.Num(r.of(mode, func(x Replay) float64 { return float64(x.Disk.Read) }).Median, report.UnitBytes),
			report.Num(r.of(mode, seeksPer100MB).Median, report.UnitNone),
			report.Num(r.of(mode, func(x Replay) float64 { return x.DaemonCPU }).Median, report.UnitSeconds))...)
	}
	return t
}

// seeksPer100MB is NaN for a replay that read next to nothing, and where nobody
// counts seeks.
func seeksPer100MB(x Replay) float64 {
	if x.Disk.Read < 1<<20 || x.Disk.Seeks < 0 {
		return math.NaN()
	}
	return math.Round(float64(x.Disk.Seeks) / (float64(x.Disk.Read) / 100e6))
}

// classTable is ignem, figure 5.
func (r *Results) classTable() *report.Table {
	t := &report.Table{
		Title: "Mean duration by size of the input (ignem, figure 5)",
		Note: fmt.Sprintf("Small: up to a block of 64 MB in the paper, medium: up to 512 MB. Here a server's part of it, and a %.0fth of that. "+
			"Reading: the times of all blocks of a job together, which a busy machine disturbs less than durations. "+
			"Ignem: 8.8, 7.7 and 25 %% less than cold; inputs in RAM: about the same for small and medium ones, 60 %% less for large ones.", r.Plan.Shrink),
		Columns: []report.Column{{Title: "jobs"}, {Title: "number", Align: report.Right}, {Title: "inputs"},
			{Title: "mean duration", Align: report.Right}, {Title: "less than cold", Align: report.Right}, {Title: "share of the possible", Align: report.Right},
			{Title: "mean reading", Align: report.Right}, {Title: "share of the possible", Align: report.Right}},
	}
	for _, class := range classes {
		of, reading := meanDuration(class), meanReading(class)
		for i, mode := range r.modesWithIdeal() {
			name, number := report.Str(""), report.Str("")
			if i == 0 {
				name, number = report.Str(class), report.Num(r.number(class), report.UnitNone)
			}
			row := []report.Cell{name, number, report.Str(mode), view.Figure(r.of(mode, of), report.UnitSeconds), view.Share(r.against(mode, of)), view.Share(r.reached(mode, of))}
			if mode != modeIdeal {
				row = append(row, view.Figure(r.of(mode, reading), report.UnitSeconds), view.Share(r.reached(mode, reading)))
			}
			t.Add(row...)
		}
	}
	return t
}

// number returns how many jobs of a class there are.
func (r *Results) number(class string) float64 {
	for _, x := range r.Replays {
		n := 0.0
		for _, j := range x.Jobs {
			if j.Class == class {
				n++
			}
		}
		if n > 0 {
			return n
		}
	}
	return 0
}

// blockTable is ignem, table II and figure 6.
func (r *Results) blockTable() *report.Table {
	t := &report.Table{
		Title: "Reading one block (ignem, table II and figure 6)",
		Note: fmt.Sprintf("A block is %s or what a file has left. Mean: over the blocks of a replay, then the median over the repeats; the others over all blocks. From memory: read in less time than a seek takes. "+
			"Ignem: mapper tasks took 38 %% less than cold, about 60 %% of their blocks came from memory; in RAM 96 %% less.", report.Bytes(r.Plan.Block)),
		Columns: []report.Column{{Title: "inputs"}, {Title: "mapper, mean", Align: report.Right}, {Title: "less than cold", Align: report.Right},
			{Title: "block, mean", Align: report.Right}, {Title: "less than cold", Align: report.Right},
			{Title: "a quarter below", Align: report.Right}, {Title: "half below", Align: report.Right}, {Title: "90 % below", Align: report.Right},
			{Title: "99 % below", Align: report.Right}, {Title: "from memory", Align: report.Right}},
	}
	for _, mode := range r.replayModes() {
		row := []report.Cell{report.Str(mode)}
		for _, whole := range []bool{true, false} {
			of := meanBlock(whole)
			row = append(row, report.Num(r.of(mode, of).Median, report.UnitSeconds), report.Num(r.against(mode, of).Median, report.UnitPercent))
		}
		reads := r.reads(mode)
		if len(reads) == 0 {
			t.Add(row...)
			continue
		}
		for _, q := range []float64{0.25, 0.5, 0.9, 0.99} {
			row = append(row, report.Num(sample.Quantile(reads, q), report.UnitSeconds))
		}
		t.Add(append(row, report.Num(below5ms(reads), report.UnitPercent))...)
	}
	return t
}

// below5ms returns the share of values less than what one seek of the modelled disk
// takes.
func below5ms(sorted []float64) float64 {
	n := 0
	for n < len(sorted) && sorted[n] < 0.005 {
		n++
	}
	return float64(n) / float64(len(sorted))
}

// memoryTable is ignem, figure 7.
func (r *Results) memoryTable() *report.Table {
	t := &report.Table{
		Title: "Memory that is kept for jobs (ignem, figure 7)",
		Note: "Means over the time in which anything was kept. Hypothetical: a scheme that reads all of an input in no time when its job is submitted and drops it when the job ends, " +
			"computed from the replays with inputs in RAM. Ignem kept 2.6 times less on average.",
		Columns: []report.Column{{Title: "scheme"}, {Title: "mean", Align: report.Right}, {Title: "most", Align: report.Right}, {Title: "hypothetical over it, mean", Align: report.Right}},
	}
	ideal := r.of(modeRAM, func(x Replay) float64 { return x.instantaneous().Mean }).Median
	for _, mode := range []string{modeWarmed, modeFIFO} {
		if len(r.in(mode)) == 0 {
			continue
		}
		mine := r.of(mode, func(x Replay) float64 { return x.kept().Mean })
		t.Add(report.Str(mode), view.Figure(mine, report.UnitBytes), view.Figure(r.of(mode, func(x Replay) float64 { return x.kept().Max }), report.UnitBytes),
			report.Num(ideal/mine.Median, report.UnitRatio))
	}
	t.Add(report.Str("hypothetical"), view.Figure(r.of(modeRAM, func(x Replay) float64 { return x.instantaneous().Mean }), report.UnitBytes),
		view.Figure(r.of(modeRAM, func(x Replay) float64 { return x.instantaneous().Max }), report.UnitBytes), report.Str(""))
	return t
}

// singleTable has a row for each size and mode.
func (r *Results) singleTable(kind, title, note string) *report.Table {
	t := &report.Table{Title: title, Note: note,
		Columns: []report.Column{{Title: "input", Align: report.Right}, {Title: "inputs"}, {Title: "duration", Align: report.Right}, {Title: "of cold", Align: report.Right}}}
	for _, input := range r.inputsOf(kind) {
		size := report.Num(float64(input), report.UnitBytes)
		for _, mode := range modesOf(r.Singles, func(s Single) string { return s.Mode }) {
			durations, ratios := r.singleSpread(kind, mode, input)
			if math.IsNaN(durations.Median) {
				continue
			}
			t.Add(size, report.Str(mode), view.Figure(durations, report.UnitSeconds), view.Figure(ratios, report.UnitPercent))
			size = report.Str("")
		}
	}
	return t
}
