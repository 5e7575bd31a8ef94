package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"headrace/report"
	"headrace/sim"
)

// The units that report does not know.
const (
	unitCoreHours = report.Unit("core-h")
	unitEnergy    = report.Unit("kWh")
	// unitFine is a share with two decimals.
	unitFine = report.Unit("%.")
)

// Tables returns the results in figures, a row for each: waste and energy, what the
// waste was, response of the jobs of each band, preemptions, what preemption moved,
// and how inputs were read when there are any. They are for a terminal as well as
// for a page.
func Tables(results []*sim.Result) []*report.Table {
	s := newSet(results)
	if len(s.results) == 0 {
		return nil
	}
	tables := []*report.Table{s.wasteTable(), s.causeTable()}
	tables = append(tables, s.responseTables()...)
	tables = append(tables, s.preemptionTable(), s.ioTable())
	if t := s.readingTable(); t != nil {
		tables = append(tables, t)
	}
	return tables
}

// column is a measure of a result as a column of a table.
type column struct {
	title  string
	unit   report.Unit
	better report.Better
	of     func(*sim.Result) float64
}

// table has a row for each result, with its label in front.
func (s set) table(title, note string, columns []column) *report.Table {
	t := &report.Table{Title: title, Note: note, Columns: []report.Column{{Title: "policy", Flex: true}}}
	for _, c := range columns {
		better := c.better
		if same(s.values(c.of)) {
			better = ""
		}
		t.Columns = append(t.Columns, report.Column{Title: c.title, Align: report.Right, Better: better})
	}
	cells := make([][]report.Cell, len(columns))
	for i, c := range columns {
		cells[i] = c.cells(s.values(c.of))
	}
	for i, name := range s.labels {
		row := []report.Cell{report.Str(name)}
		for c := range columns {
			row = append(row, cells[c][i])
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// same reports whether no value is better than another.
func same(values []float64) bool { return len(slices.Compact(slices.Clone(values))) < 2 }

// cells write a column. Plain numbers have the same number of decimals in all of it.
func (c column) cells(values []float64) []report.Cell {
	greatest, integers := 0.0, true
	for _, v := range values {
		greatest = max(greatest, math.Abs(v))
		integers = integers && (v == math.Trunc(v) || math.IsNaN(v))
	}
	decimals := 0
	switch {
	case integers || greatest >= 200:
	case greatest >= 20:
		decimals = 1
	case greatest >= 0.1:
		decimals = 2
	default:
		decimals = 4
	}
	cells := make([]report.Cell, len(values))
	for i, v := range values {
		cells[i] = report.Num(v, c.unit)
		if c.unit == unitFine {
			cells[i] = fine(v)
		}
		if c.unit == report.UnitNone && cells[i].Value != nil && math.Abs(v) < 1e15 {
			whole, rest, _ := strings.Cut(strconv.FormatFloat(v, 'f', decimals, 64), ".")
			cells[i].Text = group(whole)
			if rest != "" {
				cells[i].Text += "." + rest
			}
		}
	}
	return cells
}

func count(of func(sim.Counts) int) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 { return float64(of(r.Counts)) }
}

func size(of func(sim.IO) int64) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 { return float64(of(r.IO)) }
}

func (s set) wasteTable() *report.Table {
	return s.table("Waste and energy",
		"Wasted: time of CPUs that was held and brought nothing to its end, and its share of all time that was held. Busy: mean utilisation of the nodes over the makespan.",
		[]column{
			{"wasted core-h", report.UnitNone, report.Lower, wasted},
			{"share", unitFine, report.Lower, wasteShare},
			{"energy kWh", report.UnitNone, report.Lower, energy},
			{"to " + s.refName, report.UnitRatio, "", s.toReference(energy)},
			{"makespan", report.UnitHours, report.Lower, makespan},
			{"busy", report.UnitPercent, "", func(r *sim.Result) float64 { return r.Energy.Utilisation }},
		})
}

// causes are the parts of the waste, in seconds, as a page colours them.
var causes = []struct {
	title string
	kind  report.Kind
	of    func(sim.Work) float64
}{
	{"killed", report.Lost, func(w sim.Work) float64 { return w.Killed }},
	{"dump", report.Checkpointing, func(w sim.Work) float64 { return w.Dump }},
	{"restore", report.Restoring, func(w sim.Work) float64 { return w.Restore }},
	{"page-in", report.Suspended, func(w sim.Work) float64 { return w.PageIn }},
	{"stop", report.Waiting, func(w sim.Work) float64 { return w.Stop }},
}

func (s set) causeTable() *report.Table {
	hours := func(of func(sim.Work) float64) func(*sim.Result) float64 {
		return func(r *sim.Result) float64 { return of(r.Work) / coreHour }
	}
	columns := []column{{"useful", report.UnitNone, "", hours(func(w sim.Work) float64 { return w.Useful })}}
	for _, c := range causes {
		columns = append(columns, column{c.title, report.UnitNone, "", hours(c.of)})
	}
	if reading := hours(func(w sim.Work) float64 { return w.Reading }); s.any(reading) {
		columns = append(columns, column{"reading", report.UnitNone, "", reading})
	}
	return s.table("Where the time of the CPUs went, in core-hours",
		"Killed: running that was thrown away. Dump, restore, page-in: standing still meanwhile. Stop: being stopped, killed and started.", columns)
}

// responseTables returns one for each band, the most urgent last.
func (s set) responseTables() []*report.Table {
	var tables []*report.Table
	for _, name := range s.bands {
		of := func(f func(sim.Band) float64) func(*sim.Result) float64 {
			return func(r *sim.Result) float64 { return f(r.Band(name)) }
		}
		mean := func(r *sim.Result) float64 { return response(r, name) }
		tables = append(tables, s.table("Response of "+name+" jobs", "", []column{
			{"jobs", report.UnitNone, "", of(func(b sim.Band) float64 { return float64(b.Jobs) })},
			{"mean", report.UnitSeconds, report.Lower, mean},
			{"to " + s.refName, report.UnitRatio, "", s.toReference(mean)},
			{"half", report.UnitSeconds, report.Lower, of(func(b sim.Band) float64 { return quantile(b.Response, 0.5) })},
			{"95 %", report.UnitSeconds, report.Lower, of(func(b sim.Band) float64 { return quantile(b.Response, 0.95) })},
			{"99 %", report.UnitSeconds, report.Lower, of(func(b sim.Band) float64 { return quantile(b.Response, 0.99) })},
			{"longest", report.UnitSeconds, report.Lower, of(func(b sim.Band) float64 { return quantile(b.Response, 1) })},
			{"slowdown", report.UnitRatio, report.Lower, of(func(b sim.Band) float64 { return b.Slowdown.Mean })},
			{"lost, h", report.UnitNone, "", of(func(b sim.Band) float64 { return b.Wasted / coreHour })},
		}))
	}
	if len(tables) > 0 {
		tables[len(tables)-1].Note = "Response: from the submission of a job's first task to the end of its last. Half, 95 %, 99 %: so many are done within that time. Slowdown: the mean, over all tasks, of the time from submission to end over the time that they run, which counts as 10 s at least; no less than 1. Lost: core-hours wasted."
	}
	if worst := s.worstTable(); len(worst.Rows) > 0 {
		tables = append(tables, worst)
	}
	if users := s.usersTable(); len(users.Rows) > 0 {
		tables = append(tables, users)
	}
	return tables
}

// worstTable lists, for each band and policy, the task that took longest.
func (s set) worstTable() *report.Table {
	t := &report.Table{
		Title: "The worst off", Note: "The tasks of each band that took longest from submission to end. Lost: running that was thrown away.",
		Columns: []report.Column{{Title: "band"}, {Title: "policy"}, {Title: "task"}, right("priority"), right("runs"), right("response"), right("slowdown"), right("preempted"), right("lost")},
	}
	for _, name := range s.bands {
		for i, r := range s.results {
			for _, w := range r.Band(name).Worst {
				t.Add(report.Str(name), report.Str(s.labels[i]), report.Str(fmt.Sprintf("%s, %d", w.Job, w.Task)), report.Str(strconv.Itoa(int(w.Priority))),
					report.Num(w.Run, report.UnitSeconds), report.Num(w.Response, report.UnitSeconds), report.Num(ratio(w.Response, w.Run), report.UnitRatio),
					report.Str(strconv.Itoa(w.Preemptions)), report.Num(w.Lost, report.UnitSeconds))
				break
			}
		}
	}
	return t
}

// usersTable lists, for each policy, the users whose tasks were held up most.
func (s set) usersTable() *report.Table {
	t := &report.Table{
		Title: "The worst-off users", Note: "Those whose tasks took longest for what they ran. Slowdown: the sum of the times from submission to end, over that of the times that tasks run, at least ten seconds each. Lost: running that was thrown away.",
		Columns: []report.Column{{Title: "policy"}, {Title: "user"}, right("tasks"), right("mean response"), right("slowdown"), right("preempted"), right("lost")},
	}
	for i, r := range s.results {
		for _, u := range r.Users[:min(len(r.Users), usersShown)] {
			t.Add(report.Str(s.labels[i]), report.Str(u.Name), report.Num(float64(u.Tasks), report.UnitNone), report.Num(u.Response/float64(u.Tasks), report.UnitSeconds),
				report.Num(u.Slowdown(), report.UnitRatio), report.Str(strconv.Itoa(u.Preemptions)), report.Num(u.Lost, report.UnitSeconds))
		}
	}
	return t
}

// usersShown is how many users there are for each policy.
const usersShown = 3

func perTask(r *sim.Result) float64 { return share(r.Counts.Preemptions(), r.Tasks) }

func preemptedShare(r *sim.Result) float64 {
	some, all := preempted(r.Outcome)
	return share(some, all)
}

func (s set) preemptionTable() *report.Table {
	columns := []column{
		{"preempted", report.UnitPercent, "", preemptedShare},
		{"per task", report.UnitNone, "", perTask},
		{"kills", report.UnitNone, "", count(func(c sim.Counts) int { return c.Kills })},
		{"suspends", report.UnitNone, "", count(func(c sim.Counts) int { return c.Suspends })},
		{"checkpoints", report.UnitNone, "", count(func(c sim.Counts) int { return c.Checkpoints })},
		{"incremental", report.UnitNone, "", count(func(c sim.Counts) int { return c.Incremental })},
		{"restores", report.UnitNone, "", count(func(c sim.Counts) int { return c.Restores })},
		{"remote", report.UnitNone, "", count(func(c sim.Counts) int { return c.Remote })},
	}
	note := "Preempted: the share of the tasks that had to leave at least once. Incremental: checkpoints that built on another. Remote: restores on another node."
	if noRoom := count(func(c sim.Counts) int { return c.NoRoom }); s.any(noRoom) {
		columns = append(columns, column{"no room", report.UnitNone, "", noRoom})
		note += " No room: called off because the store was full by then."
	}
	if withdrawn := count(func(c sim.Counts) int { return c.Withdrawn }); s.any(withdrawn) {
		columns = append(columns, column{"ended", report.UnitNone, "", withdrawn})
		note += " Ended: were to be checkpointed, and ran on to their end before it was their turn; they are not counted as preempted."
	}
	return s.table("How tasks had to leave", note, columns)
}

// moved are what preemption moved and held.
var moved = []column{
	{"dumped", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.Dumped })},
	{"restored", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.Restored })},
	{"paged out", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.PagedOut })},
	{"paged in", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.PagedIn })},
	{"network", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.Moved })},
	{"stores busy", report.UnitPercent, "", func(r *sim.Result) float64 { return r.IO.StoreBusy }},
	{"most stored", report.UnitBytes, "", size(func(i sim.IO) int64 { return i.StorePeak })},
}

func (s set) ioTable() *report.Table {
	return s.table("What preemption moved",
		"Stores busy: the share of the makespan in which the average store of checkpoints was. Most stored: on all nodes together.", moved)
}

// reading returns a measure of results that have inputs.
func reading(of func(*sim.ReadingResult) float64) func(*sim.Result) float64 {
	return func(r *sim.Result) float64 {
		if r.Reading == nil {
			return missing
		}
		return of(r.Reading)
	}
}

func fromMemory(r *sim.ReadingResult) float64 { return ratio(float64(r.FromMemory), float64(r.Bytes)) }

func (s set) readingTable() *report.Table {
	if !s.reads() {
		return nil
	}
	return s.table("How inputs were read",
		"From memory: the share that was there when it was wanted. Warmed: the share that warming had put there. Remote: from the disk of another node. Time: the mean of the tasks' reading.",
		[]column{
			{"read", report.UnitBytes, "", reading(func(r *sim.ReadingResult) float64 { return float64(r.Bytes) })},
			{"from memory", report.UnitPercent, report.Higher, reading(fromMemory)},
			{"warmed", report.UnitPercent, "", reading(func(r *sim.ReadingResult) float64 { return ratio(float64(r.Warmed), float64(r.Bytes)) })},
			{"remote", report.UnitPercent, "", reading(func(r *sim.ReadingResult) float64 { return ratio(float64(r.Remote), float64(r.Bytes)) })},
			{"time", report.UnitSeconds, report.Lower, reading(func(r *sim.ReadingResult) float64 { return r.Time })},
		})
}

// reads reports whether some result has inputs.
func (s set) reads() bool {
	for _, r := range s.results {
		if r.Reading != nil {
			return true
		}
	}
	return false
}
