package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"headrace"
	"headrace/internal/accounts"
	"headrace/report"
	"headrace/wire"
	"headrace/wire/convert"
)

// tasksTable returns what ps shows to me. Whose the tasks are is left out when all of
// them are mine.
func tasksTable(tasks []*wire.Task, me string) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "id"}, {Title: "name", Flex: true, Least: 10}, {Title: "user"}, {Title: "prio"}, {Title: "state"},
		{Title: "done", Align: report.Right, Drop: 1}, {Title: "cpu", Align: report.Right, Drop: 2},
		{Title: "rss", Align: report.Right, Drop: 3}, {Title: "running", Align: report.Right, Drop: 4},
		{Title: "preempted", Align: report.Right, Drop: 5}, {Title: "reason", Flex: true, Least: 20},
	}}
	others := slices.ContainsFunc(tasks, func(t *wire.Task) bool { return t.User != "" && t.User != me })
	for _, task := range tasks {
		t.Add(report.Str(task.Id), report.Str(nameOf(task)), report.Str(task.User), report.Str(priorityOf(task)), stateCell(task),
			report.Str(progressOf(task)), report.Str(report.Seconds(cpuOf(task))),
			report.Str(report.Bytes(task.Usage.GetResident())), report.Str(report.Seconds(task.Usage.GetRunning())),
			report.Num(float64(task.Preemptions), report.UnitNone), report.Str(task.Reason))
	}
	if !others {
		t.Columns = slices.Delete(t.Columns, 2, 3)
		for i, row := range t.Rows {
			t.Rows[i] = slices.Delete(row, 2, 3)
		}
	}
	return t
}

// userName returns that of the user who calls; empty: unknown.
func userName() string {
	who, err := accounts.Here.Self()
	if err != nil {
		return ""
	}
	return who.Name
}

// limitsTable tells which tasks cannot be preempted in which way, and why; nil
// when all of them can in all ways.
func limitsTable(tasks []*wire.Task) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: "! id"}, {Title: "cannot be"}, {Title: "because", Wrap: true}}}
	for _, task := range tasks {
		if ended(task) {
			continue
		}
		if task.NoCheckpoint != "" {
			t.Add(report.Str("! "+task.Id), report.Str("checkpointed"), report.Str(task.NoCheckpoint))
		}
		if task.NoSuspend != "" {
			t.Add(report.Str("! "+task.Id), report.Str("suspended"), report.Str(task.NoSuspend))
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

// nameOf returns the task's name, or what it runs.
func nameOf(t *wire.Task) string {
	if t.Name != "" {
		return t.Name
	}
	const most = 40
	line := []rune(strings.Join(t.Argv, " "))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

func priorityOf(t *wire.Task) string {
	if t.Priority > uint32(headrace.MaxPriority) {
		return strconv.Itoa(int(t.Priority))
	}
	return headrace.Priority(t.Priority).String()
}

// stateCell returns what the task does or is; a mark says that limitsTable has a
// line about it.
func stateCell(t *wire.Task) report.Cell {
	cell := report.Str(convert.StateName(t))
	if state, err := convert.State(t); err == nil {
		cell = report.State(state)
	}
	cell.Text = stateOf(t)
	if !ended(t) && (t.NoCheckpoint != "" || t.NoSuspend != "") {
		cell.Text += " !"
	}
	return cell
}

func stateOf(t *wire.Task) string {
	text := cmp.Or(convert.Doing(t), convert.StateName(t))
	if t.Held && !ended(t) {
		text += ", held"
	}
	if convert.In(t, headrace.Failed) {
		text += fmt.Sprintf(" (%d)", exitOf(t))
	}
	return text
}

func progressOf(t *wire.Task) string {
	share := t.Progress
	if share < 0 || math.IsNaN(share) {
		// The tasks of a job end together: when its input has been dealt.
		share = dealtShare(t.Input)
	}
	if share < 0 || math.IsNaN(share) {
		return report.Percent(math.NaN())
	}
	return strconv.Itoa(int(100*min(share, 1))) + " %"
}

// cpuOf returns the processor time that the task has used, in seconds.
func cpuOf(t *wire.Task) float64 { return t.Usage.GetUserCpu() + t.Usage.GetSystemCpu() }
