package preempt

import (
	"fmt"

	"headrace/lab/view"
	"headrace/report"
)

// Tables returns all of them, the aims last.
func (r *Results) Tables() []*report.Table {
	var out []*report.Table
	add := func(any bool, t func() *report.Table) {
		if any {
			out = append(out, t())
		}
	}
	add(len(r.good(ExpLight)) > 0, func() *report.Table {
		return r.runTable(ExpLight, "(a) light tasks", "done on arrival")
	})
	add(len(r.good(expDirty)) > 0, func() *report.Table {
		return r.runTable(expDirty, "(b) both tasks with large dirty memory, which together exceed the limit", "done on arrival")
	})
	add(len(r.good(expFootprint)) > 0, r.footprintTable)
	add(len(r.good(expStorage)) > 0, func() *report.Table {
		return r.storageTable(expStorage, "(c) two k-means jobs over storage bandwidths, where suspending is impossible")
	})
	add(len(r.good(expRoomy)) > 0, func() *report.Table {
		return r.storageTable(expRoomy, "(c) the same, where memory holds both tasks")
	})
	add(len(r.dumpGroups()) > 0, r.dumpTable)
	add(len(r.storeTable().Rows) > 0, r.storeTable)
	add(len(r.aims()) > 0, r.aimTable)
	return out
}

// column titles that several tables share.
var runColumns = []report.Column{
	{Title: "policy"},
	{Title: "urgent: sojourn", Align: report.Right},
	{Title: "over kill", Align: report.Right},
	{Title: "makespan", Align: report.Right},
	{Title: "over wait", Align: report.Right},
	{Title: "work lost", Align: report.Right},
	{Title: "more CPU", Align: report.Right},
	{Title: "I/O", Align: report.Right},
	{Title: "what it did", Flex: true},
}

const runNote = "Medians, in brackets from the least to the greatest; ratios are formed within each repeat. " +
	"More CPU: processor time of tasks, dumps, restores and daemon, compared with wait. I/O: checkpoints written and read, memory paged out and in."

func runCells(here Runs, policy string) []report.Cell {
	mine := here.By(policy)
	return []report.Cell{
		report.Str(policy),
		view.Figure(mine.of(sojourn), report.UnitSeconds), view.Excess(here.against(policy, "kill", sojourn)),
		view.Figure(mine.of(makespan), report.UnitSeconds), view.Excess(here.against(policy, "wait", makespan)),
		report.Num(mine.of(lostCPU).Median, report.UnitSeconds),
		report.Num(here.Beyond(policy, "wait", Run.CPU).Median, report.UnitSeconds),
		report.Num(mine.of(moved).Median, report.UnitBytes),
		report.Str(did(mine)),
	}
}

// runTable has a row for each policy at each point.
func (r *Results) runTable(experiment, title, axis string) *report.Table {
	t := &report.Table{Title: title, Note: runNote, Columns: append([]report.Column{{Title: axis}}, runColumns...)}
	all := r.good(experiment)
	for _, p := range all.points(nil) {
		here := all.at(p)
		for i, policy := range here.Policies() {
			name := ""
			if i == 0 {
				name = pointName(experiment, p)
			}
			t.Add(append([]report.Cell{report.Str(name)}, runCells(here, policy)...)...)
		}
	}
	return t
}

// footprintTable is os-assisted-preemption, figure 4: what suspend costs as the
// urgent task grows.
func (r *Results) footprintTable() *report.Table {
	t := &report.Table{
		Title: "(b) suspend, as the memory of the urgent task grows",
		Note:  "Swapped: memory that the machine paged out during the run. The paper found up to 20 % and 12 %.",
		Columns: []report.Column{{Title: "urgent task"},
			{Title: "sojourn", Align: report.Right}, {Title: "kill's", Align: report.Right}, {Title: "over kill", Align: report.Right},
			{Title: "makespan", Align: report.Right}, {Title: "wait's", Align: report.Right}, {Title: "over wait", Align: report.Right},
			{Title: "swapped", Align: report.Right}},
	}
	all := r.good(expFootprint)
	for _, p := range all.points(nil) {
		here := all.at(p)
		mine := here.By("suspend")
		t.Add(report.Num(float64(p.UrgentBytes), report.UnitBytes),
			view.Figure(mine.of(sojourn), report.UnitSeconds), report.Num(here.By("kill").of(sojourn).Median, report.UnitSeconds), view.Excess(here.against("suspend", "kill", sojourn)),
			view.Figure(mine.of(makespan), report.UnitSeconds), report.Num(here.By("wait").of(makespan).Median, report.UnitSeconds), view.Excess(here.against("suspend", "wait", makespan)),
			report.Num(mine.of(func(r Run) float64 { return float64(r.PagedOut) }).Median, report.UnitBytes))
	}
	return t
}

// storageTable is checkpoint-preemption, figures 4 and 6.
func (r *Results) storageTable(experiment, title string) *report.Table {
	t := &report.Table{
		Title: title,
		Note: fmt.Sprintf("Weighted: %.3g × sojourn + makespan, the sum of delay and waste that the policy cost minimises, compared with the best policy that has one mechanism. "+
			"Medians, in brackets from the least to the greatest. Policies that use no storage run once per repeat.", urgency),
		Columns: []report.Column{{Title: "storage"}, {Title: "policy"},
			{Title: "urgent: sojourn", Align: report.Right}, {Title: "makespan", Align: report.Right},
			{Title: "weighted", Align: report.Right}, {Title: "over the best", Align: report.Right},
			{Title: "more CPU", Align: report.Right}, {Title: "I/O", Align: report.Right}, {Title: "what it did", Flex: true}},
	}
	all := r.good(experiment)
	add := func(here Runs, first, policy string) {
		mine := here.By(policy)
		excess := report.Str("")
		if first != anyStorage {
			excess = view.Excess(here.against(policy, here.bestSingle(), weighed))
		}
		t.Add(report.Str(first), report.Str(policy), view.Figure(mine.of(sojourn), report.UnitSeconds),
			view.Figure(mine.of(makespan), report.UnitSeconds), report.Num(mine.of(weighed).Median, report.UnitSeconds), excess,
			report.Num(here.Beyond(policy, "wait", Run.CPU).Median, report.UnitSeconds),
			report.Num(mine.of(moved).Median, report.UnitBytes), report.Str(did(mine)))
	}
	first := anyStorage
	for _, policy := range all.at(Point{}).Policies() {
		add(all.at(Point{}), first, policy)
	}
	for _, s := range r.setup(experiment).Stores {
		here := all.atStore(s.Name)
		for _, policy := range all.at(Point{Store: s.Name}).Policies() {
			add(here, s.Name, policy)
		}
	}
	for i := len(t.Rows) - 1; i > 0; i-- {
		if t.Rows[i][0].Text == t.Rows[i-1][0].Text {
			t.Rows[i][0].Text = ""
		}
	}
	return t
}

// anyStorage stands for the runs that use none.
const anyStorage = "any"

// did lists the mechanisms with their number.
func did(rs Runs) string {
	s := ""
	for i, m := range rs.mechanisms() {
		if i > 0 {
			s += ", "
		}
		s += m
		if n := len(rs.where(func(r Run) bool { return r.Mechanism == m })); n < len(rs) {
			s += fmt.Sprintf(" %d×", n)
		}
	}
	return s
}

// dumpTable is checkpoint-preemption, table 3.
func (r *Results) dumpTable() *report.Table {
	t := &report.Table{
		Title: "(d) a second checkpoint, with 10 % of the memory changed",
		Note:  "Times are from the request until the checkpoint is durable and the processes are gone.",
		Columns: []report.Column{{Title: "storage"}, {Title: "changed pages"},
			{Title: "first: bytes", Align: report.Right}, {Title: "second: bytes", Align: report.Right}, {Title: "fewer", Align: report.Right},
			{Title: "first: time", Align: report.Right}, {Title: "second: time", Align: report.Right}, {Title: "faster", Align: report.Right}},
	}
	for _, g := range r.dumpGroups() {
		t.Add(report.Str(g.store), report.Str(g.pattern),
			report.Num(g.of(func(d Dump) float64 { return float64(d.FirstBytes) }).Median, report.UnitBytes),
			report.Num(g.of(func(d Dump) float64 { return float64(d.SecondBytes) }).Median, report.UnitBytes),
			report.Num(g.of(Dump.fewer).Median, report.UnitRatio),
			view.Figure(g.of(func(d Dump) float64 { return d.First }), report.UnitSeconds),
			view.Figure(g.of(func(d Dump) float64 { return d.Second }), report.UnitSeconds),
			report.Num(g.of(Dump.faster).Median, report.UnitRatio))
	}
	return t
}

// storeTable shows how fast the storage really was.
func (r *Results) storeTable() *report.Table {
	t := &report.Table{
		Title: "Storage as measured before the experiments",
		Columns: []report.Column{{Title: "experiment"}, {Title: "storage"}, {Title: "nominal", Align: report.Right},
			{Title: "write", Align: report.Right}, {Title: "read", Align: report.Right}},
	}
	for _, s := range r.Setups {
		for _, f := range s.Stores {
			nominal := report.Str("")
			if f.Nominal > 0 {
				nominal = report.Num(f.Nominal, report.UnitBytesPerSecond)
			}
			t.Add(report.Str(s.Experiment), report.Str(f.Name), nominal,
				report.Num(f.Write, report.UnitBytesPerSecond), report.Num(f.Read, report.UnitBytesPerSecond))
		}
	}
	return t
}

// aimTable has the aims beside what was measured.
func (r *Results) aimTable() *report.Table {
	t := &report.Table{
		Title:   "Aims",
		Note:    "The worst point of each experiment counts; medians of ratios within each repeat.",
		Columns: []report.Column{{Title: ""}, {Title: "figure", Flex: true}, {Title: "aim", Align: report.Right}, {Title: "measured", Align: report.Right}, {Title: "", Align: report.Left}, {Title: "at"}},
	}
	for _, a := range r.aims() {
		verdict, tone := a.Verdict()
		t.Add(report.Str(a.Part), report.Str(a.What), report.Str(a.Limit()), report.Str(a.Show(a.Value.Median)), report.Toned(verdict, tone), report.Str(a.Where))
	}
	return t
}
