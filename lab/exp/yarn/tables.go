package yarn

import (
	"fmt"
	"math"
	"strings"

	"headrace/lab/rig"
	"headrace/lab/sample"
	"headrace/lab/view"
	"headrace/paper"
	"headrace/report"
)

// Tables returns all of them, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	add := func(any bool, tables ...func() *report.Table) {
		for _, t := range tables {
			if any {
				out = append(out, t())
			}
		}
	}
	pairs, workloads := r.good(expPair), r.good(expWorkload)
	for _, c := range pairs.cases() {
		out = append(out, pairTable(c, pairs.in(c)))
	}
	add(len(pairs.stops()) > 0, r.stopTable)
	add(len(workloads) > 0, r.workloadTable, r.responseTable)
	add(len(workloads) > 0 && r.calibrate, r.likenessTable)
	add(len(r.adaptives()) > 0, r.adaptiveTable)
	add(workloads.moves(), r.overheadTable)
	add(len(r.Stores) > 0, func() *report.Table { return storesTable(r.Stores) })
	add(len(r.Runs) > 0, func() *report.Table { return view.AimTable(r.aims()) })
	return out
}

// kilojoules is for a column of that title.
func kilojoules(s sample.Spread) report.Cell {
	return report.Num(math.Round(s.Median/10)/100, report.UnitNone)
}

func energy(r Run) float64  { return r.Energy.Joules }
func lost(r Run) float64    { return r.LostCPU }
func lasted(r Run) float64  { return r.Makespan }
func lowMean(r Run) float64 { return r.response(false) }

const pairNote = "Medians, in brackets from the least to the greatest; ratios are formed within each repeat. Work lost: processor time of containers that were killed; " +
	"wasted: that, and what dumps and restores used. Energy: by the average utilisation of the machine. What it did: containers over all repeats. Checkpoints go to the disk."

func pairTable(name string, here runs) *report.Table {
	t := &report.Table{Title: "A pair of jobs (os-assisted-preemption, section IV): " + name, Note: pairNote,
		Columns: []report.Column{{Title: "policy"}, {Title: "urgent: sojourn", Align: report.Right}, {Title: "over kill", Align: report.Right},
			{Title: "makespan", Align: report.Right}, {Title: "over wait", Align: report.Right}, {Title: "work lost", Align: report.Right},
			{Title: "wasted", Align: report.Right}, {Title: "energy, kJ", Align: report.Right}, {Title: "what it did", Flex: true}}}
	for _, name := range here.names() {
		mine := here.by(name)
		t.Add(report.Str(name), view.Figure(mine.of(Run.sojourn), report.UnitSeconds), view.Excess(here.against(name, "kill", Run.sojourn)),
			view.Figure(mine.of(lasted), report.UnitSeconds), view.Excess(here.against(name, "wait", lasted)),
			report.Num(mine.of(lost).Median, report.UnitSeconds), report.Num(mine.of(Run.wasted).Median, report.UnitSeconds),
			kilojoules(mine.of(energy)), report.Str(mine.summed().String()))
	}
	return t
}

// stopTable returns how long it takes from a decision to processes that stand still.
func (r *Results) stopTable() *report.Table {
	t := &report.Table{
		Title: "From the ResourceManager's choice of a container until all its processes were seen to be stopped",
		Note: fmt.Sprintf("The ResourceManager's log and the node's record, on one machine. The NodeManagers' heartbeat is %v; nothing waits for it.",
			heartbeatHere),
		Columns: []report.Column{{Title: "policy"}, {Title: "containers", Align: report.Right}, {Title: "median", Align: report.Right},
			{Title: "least", Align: report.Right}, {Title: "most", Align: report.Right}},
	}
	pairs := r.good(expPair)
	for _, name := range pairs.names() {
		stops := pairs.by(name).stops()
		if len(stops) == 0 {
			continue
		}
		s := sample.SpreadOf(stops)
		t.Add(report.Str(name), report.Num(float64(len(stops)), report.UnitNone), report.Num(s.Median, report.UnitSeconds),
			report.Num(s.Min, report.UnitSeconds), report.Num(s.Max, report.UnitSeconds))
	}
	return t
}

// lessThan returns how much less than under stock preemption, as a part of one.
func (rs runs) lessThan(other, name string, m metric) sample.Spread {
	return rs.against(name, other, m).Less()
}

// workloadTable is checkpoint-preemption, figure 8.
func (r *Results) workloadTable() *report.Table {
	p := r.Workload
	t := &report.Table{
		Title: "The workload: waste, energy and response (checkpoint-preemption, figure 8)",
		Note: fmt.Sprintf("%d jobs with %d tasks of %s memory, %d at a time. Wasted: processor time of killed containers, and of dumps and restores; as a share of all that tasks, dumps and restores used. "+
			"Time: of containers that were killed, or stood still while they were stopped, dumped or restored. Less: than kill. "+
			"In the paper kill wastes 28 %%, and checkpoints 50, 65 and 67 %% less on HDD, SSD and NVM, with 21, 29 and 34 %% less energy; low jobs respond 18, 53 and 61 %% faster.",
			len(p.Jobs), p.tasks(), report.Bytes(p.Bytes), p.Slots),
		Columns: []report.Column{{Title: "policy"}, {Title: "wasted", Align: report.Right}, {Title: "share", Align: report.Right}, {Title: "less", Align: report.Right},
			{Title: "time", Align: report.Right}, {Title: "energy, kJ", Align: report.Right}, {Title: "less", Align: report.Right},
			{Title: "low: mean response", Align: report.Right}, {Title: "less", Align: report.Right},
			{Title: "high: mean response", Align: report.Right}, {Title: "over kill", Align: report.Right}, {Title: "makespan", Align: report.Right}, {Title: "what it did", Flex: true}},
	}
	all := r.good(expWorkload)
	for _, name := range all.names() {
		mine := all.by(name)
		t.Add(report.Str(name), report.Num(mine.of(Run.wasted).Median, report.UnitSeconds), report.Num(mine.of(Run.wasteShare).Median, report.UnitPercent),
			view.Share(all.lessThan("kill", name, Run.wasted)), report.Num(mine.of(Run.wastedTime).Median, report.UnitSeconds),
			kilojoules(mine.of(energy)), view.Share(all.lessThan("kill", name, energy)),
			view.Figure(mine.of(lowMean), report.UnitSeconds), view.Share(all.lessThan("kill", name, lowMean)),
			view.Figure(mine.of(Run.sojourn), report.UnitSeconds), view.Excess(all.against(name, "kill", Run.sojourn)),
			report.Num(mine.of(lasted).Median, report.UnitSeconds), report.Str(mine.summed().String()))
	}
	return t
}

// responseTable is checkpoint-preemption, figures 9 and 11.
func (r *Results) responseTable() *report.Table {
	t := &report.Table{
		Title:   "The workload: response of jobs within which a share of them ended (checkpoint-preemption, figures 9 and 11)",
		Columns: []report.Column{{Title: "jobs"}, {Title: "policy"}},
	}
	shares := []float64{0.25, 0.5, 0.75, 0.9}
	for _, q := range shares {
		t.Columns = append(t.Columns, report.Column{Title: report.Percent(q), Align: report.Right})
	}
	all := r.good(expWorkload)
	for _, high := range []bool{false, true} {
		title := jobsCalled(high)
		for _, name := range all.names() {
			row := []report.Cell{report.Str(title), report.Str(name)}
			responses := all.by(name).responses(high)
			for _, q := range shares {
				if len(responses) > 0 {
					row = append(row, report.Num(sample.Quantile(responses, q), report.UnitSeconds))
				}
			}
			t.Add(row...)
			title = ""
		}
	}
	return t
}

func jobsCalled(high bool) string {
	if high {
		return "high"
	}
	return "low"
}

// adaptives returns the stores on which both were measured.
func (r *Results) adaptives() []string {
	all := r.good(expWorkload)
	var out []string
	for _, store := range yarnStores {
		if len(all.by("adaptive "+store)) > 0 && len(all.by("checkpoint "+store)) > 0 {
			out = append(out, store)
		}
	}
	return out
}

// published returns how much faster jobs respond with adaptive in the paper, low and
// high, on the medium that is like the store.
func published(store string) (out [2]string) {
	medium := publishedMedium[store]
	for i, v := range paper.OnYARN().AdaptiveFaster[medium] {
		out[i] = fmt.Sprintf("%.0f %%", 100*v)
		if store != medium {
			out[i] += " (" + strings.ToUpper(medium) + ")"
		}
	}
	return out
}

func (r *Results) adaptiveTable() *report.Table {
	t := &report.Table{
		Title: "The workload: adaptive against always checkpointing (checkpoint-preemption, figure 10)",
		Note:  "How much less the mean response is under adaptive.",
		Columns: []report.Column{{Title: "storage"}, {Title: "low", Align: report.Right}, {Title: "paper", Align: report.Right},
			{Title: "high", Align: report.Right}, {Title: "paper", Align: report.Right}, {Title: "adaptive did", Flex: true}},
	}
	all := r.good(expWorkload)
	for _, store := range r.adaptives() {
		a, c := "adaptive "+store, "checkpoint "+store
		faster := published(store)
		t.Add(report.Str(store), view.Share(all.lessThan(c, a, lowMean)), report.Str(faster[0]),
			view.Share(all.lessThan(c, a, Run.sojourn)), report.Str(faster[1]), report.Str(all.by(a).summed().String()))
	}
	return t
}

// moves reports whether any checkpoint was made.
func (rs runs) moves() bool {
	return len(rs.where(func(r Run) bool { return r.Dumped > 0 })) > 0
}

// overheadTable is checkpoint-preemption, figure 12.
func (r *Results) overheadTable() *report.Table {
	t := &report.Table{
		Title: "The workload: what checkpoints cost (checkpoint-preemption, figure 12)",
		Note:  "CPU: of dumps and restores, as a share of what tasks used. In the paper 17, 4 and 0.4 % on HDD, SSD and NVM, with adaptive 5.1 and 2.3 % and next to nothing.",
		Columns: []report.Column{{Title: "policy"}, {Title: "CPU", Align: report.Right}, {Title: "share", Align: report.Right}, {Title: "written", Align: report.Right},
			{Title: "read", Align: report.Right}, {Title: "daemons, masters", Align: report.Right}},
	}
	all := r.good(expWorkload)
	for _, name := range all.names() {
		mine := all.by(name)
		t.Add(report.Str(name), report.Num(mine.of(func(r Run) float64 { return r.OverheadCPU }).Median, report.UnitSeconds),
			report.Num(mine.of(func(r Run) float64 { return r.OverheadCPU / r.TaskCPU }).Median, report.UnitPercent),
			report.Num(mine.of(func(r Run) float64 { return float64(r.Dumped) }).Median, report.UnitBytes),
			report.Num(mine.of(func(r Run) float64 { return float64(r.Restored) }).Median, report.UnitBytes),
			report.Num(mine.of(func(r Run) float64 { return r.TotalCPU - r.TaskCPU - r.OverheadCPU }).Median, report.UnitSeconds))
	}
	return t
}

func storesTable(stores []rig.StoreFact) *report.Table {
	t := &report.Table{
		Title: "Storage of a node as measured before the experiments",
		Columns: []report.Column{{Title: "storage"}, {Title: "nominal", Align: report.Right},
			{Title: "write", Align: report.Right}, {Title: "read", Align: report.Right}},
	}
	for _, s := range stores {
		nominal := report.Str("")
		if s.Nominal > 0 {
			nominal = report.Num(s.Nominal, report.UnitBytesPerSecond)
		}
		t.Add(report.Str(s.Name), nominal, report.Num(s.Write, report.UnitBytesPerSecond), report.Num(s.Read, report.UnitBytesPerSecond))
	}
	return t
}
