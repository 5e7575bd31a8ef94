package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"headrace/cli"
	"headrace/cmd/headrace/jsonout"
	"headrace/cmd/headrace/split"
	"headrace/report"
	"headrace/wire"
)

func showVerb(a taskVerbs) *cobra.Command {
	return &cobra.Command{
		Use:        "show ID",
		Short:      "Tell everything about a task, with its history",
		SuggestFor: []string{"inspect", "info", "describe", "scontrol"},
		Example: `  headrace show nightly
  headrace show t12 --format json | jq .history`,
		Args:              cli.Takes(1, 1, "the id of a task"),
		ValidArgsFunction: a.completeTasks(func(*wire.Task) bool { return true }),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := a.daemon()
			if err != nil {
				return err
			}
			task, err := d.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			// A list does not tell the history.
			task, err = d.Get(cmd.Context(), &wire.GetRequest{Id: task.Id})
			if err != nil {
				return err
			}
			if a.Format == cli.FormatJSON {
				return jsonout.Write(a.Out, task)
			}
			return a.showTask(task)
		},
	}
}

func (a taskVerbs) showTask(task *wire.Task) error {
	term := cli.TerminalOf(a.Out)
	if err := taskTable(task).WriteTerminal(a.Out, term); err != nil || len(task.History) == 0 {
		return err
	}
	if _, err := io.WriteString(a.Out, "\n"); err != nil {
		return err
	}
	return historyTable(task.History).WriteTerminal(a.Out, term)
}

func taskTable(task *wire.Task) *report.Table {
	t := &report.Table{Columns: []report.Column{{Title: "task"}, {Title: task.Id, Wrap: true}}}
	field := func(name, value string) {
		if value != "" {
			t.Add(report.Str(name), report.Str(value))
		}
	}
	field("name", task.Name)
	field("job", task.Job)
	field("command", cli.CommandLine(task.Argv))
	field("user", task.User)
	field("priority", priorityText(task))
	t.Add(report.Str("state"), stateCell(task))
	field("reason", task.Reason)
	field("exit", exitText(task))
	field("submitted", pointInTime(task.SubmittedMs))
	field("started", pointInTime(task.StartedMs))
	field("ended", pointInTime(task.EndedMs))
	field("asked for", askedFor(task))
	inputFields(field, task.Input)
	field("progress", progressOf(task))
	usageFields(field, task.Usage)
	field("preemptions", fmt.Sprint(task.Preemptions))
	field("continued", continuedText(task))
	field("work lost", workLost(task))
	field("checkpoint", checkpointText(task.Checkpoint))
	if !ended(task) {
		field("no checkpoint", task.NoCheckpoint)
		field("no suspend", task.NoSuspend)
		field("no limits", task.NoLimits)
	}
	field("stdout", task.StdoutPath)
	field("stderr", task.StderrPath)
	return t
}

func inputFields(field func(name, value string), in *wire.TaskInput) {
	if in == nil {
		return
	}
	text := fmt.Sprintf("%d files, %s", in.Files, report.Bytes(in.Bytes))
	if in.Files == 1 {
		text = "1 file, " + report.Bytes(in.Bytes)
	}
	if in.Stream == "" {
		field("input", fmt.Sprintf("%s, of it %s in memory", text, report.Bytes(in.Resident)))
		return
	}
	rule := split.Flag{Rule: in.Split}
	name, _, _ := strings.Cut(rule.String(), ":")
	field("input", fmt.Sprintf("%s, split %s, task %d of %d of stream %s", text, name, in.Index+1, max(in.Of, 1), in.Stream))
	field("dealt", fmt.Sprintf("%s of %s to all tasks, %s in %d units to this one",
		report.Bytes(in.Dealt), report.Bytes(in.Bytes), report.Bytes(in.DealtHere), in.Units))
}

func usageFields(field func(name, value string), u *wire.Usage) {
	if u == nil {
		return
	}
	field("processor time", fmt.Sprintf("%s user, %s system, %s for dumps and restores",
		report.Seconds(u.UserCpu), report.Seconds(u.SystemCpu), report.Seconds(u.OverheadCpu)))
	field("running", report.Seconds(u.Running))
	field("memory", fmt.Sprintf("%s resident (peak %s), %s swapped, %s dirty",
		report.Bytes(u.Resident), report.Bytes(u.MaxResident), report.Bytes(u.Swapped), report.Bytes(u.Dirty)))
	field("i/o", fmt.Sprintf("%s read, %s written", report.Bytes(u.ReadBytes), report.Bytes(u.WrittenBytes)))
	field("processes", fmt.Sprint(u.Processes))
}

func historyTable(history []*wire.Event) *report.Table {
	t := &report.Table{Columns: []report.Column{
		{Title: "when"}, {Title: "state"}, {Title: "took", Align: report.Right},
		{Title: "expected", Align: report.Right}, {Title: "bytes", Align: report.Right}, {Title: "reason", Wrap: true},
	}}
	when := timeOfDay
	if slices.ContainsFunc(history, func(e *wire.Event) bool { return day(e.AtMs) != day(history[0].AtMs) }) {
		when = pointInTime
	}
	for _, e := range history {
		t.Add(report.Str(when(e.AtMs)), report.Str(e.State), unlessZero(e.Took, report.UnitSeconds),
			unlessZero(e.ExpectedDelay, report.UnitSeconds), unlessZero(float64(e.Bytes), report.UnitBytes), report.Str(e.Reason))
	}
	return t
}

func unlessZero(v float64, u report.Unit) report.Cell {
	if v == 0 {
		return report.Str("")
	}
	return report.Str(u.Format(v))
}

func pointInTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).Format("2006-01-02 15:04:05")
}

// timeOfDay formats a time where the day is known.
func timeOfDay(ms int64) string { return time.UnixMilli(ms).Format("15:04:05") }

func day(ms int64) string { return time.UnixMilli(ms).Format(time.DateOnly) }

func exitText(t *wire.Task) string {
	switch {
	case !ended(t):
		return ""
	case t.Signal != 0:
		return fmt.Sprintf("%d (signal %d)", exitOf(t), t.Signal)
	}
	return fmt.Sprint(exitOf(t))
}

func priorityText(t *wire.Task) string {
	number := strconv.Itoa(int(t.Priority))
	if name := priorityOf(t); name != number {
		return number + " (" + name + ")"
	}
	return number
}

func askedFor(t *wire.Task) string {
	text := fmt.Sprintf("%g CPUs", t.Cpus)
	if t.Cpus == 1 {
		text = "1 CPU"
	}
	if t.Memory > 0 {
		text += ", " + report.Bytes(t.Memory) + " of memory"
	}
	if t.IoWeight != 0 {
		text += fmt.Sprintf(", I/O weight %d", t.IoWeight)
	}
	return text
}

func workLost(t *wire.Task) string {
	if t.LostCpu == 0 && t.LostWall == 0 {
		return ""
	}
	return fmt.Sprintf("%s of processor time, %s of running time", report.Seconds(t.LostCpu), report.Seconds(t.LostWall))
}

func continuedText(t *wire.Task) string {
	if t.Continued == 0 {
		return ""
	}
	times := "once"
	if t.Continued > 1 {
		times = fmt.Sprintf("%d times", t.Continued)
	}
	return fmt.Sprintf("%s by somebody while it was suspended, last %s; stopped again", times, pointInTime(t.LastContinuedMs))
}

func checkpointText(c *wire.CheckpointInfo) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s in %s: %s written in %s, %s to read over a chain of %d",
		pointInTime(c.TakenMs), c.Store, report.Bytes(c.StoredBytes), report.Seconds(c.DumpSeconds), report.Bytes(c.TotalBytes), c.Chain)
}
