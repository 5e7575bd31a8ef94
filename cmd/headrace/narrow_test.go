package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"headrace/report"
	"headrace/wire"
)

// TestEightyColumns: on the usual terminal every row has one line and says what matters
// most; nothing that show tells is left out.
func TestEightyColumns(t *testing.T) {
	const why = "makes room for t12345 (production); cheapest: delay 100ms, waste 0s; now: waits for room"
	long := &wire.Task{
		Id: "t12345", Name: "job-with-a-name-that-is-long", User: "adalovelace", Priority: 2, State: "suspended", Held: true,
		Reason: why, NoCheckpoint: "it holds a unix socket to a process outside of the task", Progress: 0.28, Preemptions: 12,
		Usage:   &wire.Usage{UserCpu: 4567, Resident: 12e9, Swapped: 3e9, Dirty: 2e9, Running: 86400, MaxResident: 13e9},
		History: []*wire.Event{{AtMs: 1, State: "checkpointing", Took: 1.5, ExpectedDelay: 0.1, Bytes: 12e9, Reason: why}},
	}
	node := &wire.NodeInfo{
		Hostname: "mill", Policy: "cost", Version: "v1", Slots: 64, SlotsUsed: 12.5, Memory: 64e9, MemoryUsed: 32e9, SwapTotal: 1e9, SwapOut: 4e8, SwapIn: 6e8,
		Stores:    []*wire.Store{{Name: "state", Dir: "/var/lib/headrace/checkpoints", Write: 8e8, Read: 1e9, Used: 1e9, Free: 80e9}},
		StartedMs: time.Now().UnixMilli(),
	}
	tasks := []*wire.Task{long, {Id: "t2", Name: "b", User: "bob", State: "running", Progress: -1}}
	term := report.Terminal{Width: 80}
	for name, c := range map[string]struct {
		table *report.Table
		rows  int // that it has, each one line; 0: rows may have more
		want  []string
	}{
		"ps":      {tasksTable(tasks, "bob"), 3, []string{"suspended, held !", "adalovelace", "reason", "makes room for"}},
		"top":     {topTable(tasks, nil), 3, []string{"suspended, held !", "28 %", "12.0 GB"}},
		"machine": {nodeTable(node, term), 7, []string{"█████░░░░░", "/var/lib/head"}},
		"show":    {taskTable(long), 0, []string{"now:", "waits for room"}},
		"history": {historyTable(long.History), 0, []string{"delay 100ms", "waits for room"}},
		"limits":  {limitsTable(tasks), 0, []string{"outside", "of the task"}},
	} {
		var b strings.Builder
		if err := c.table.WriteTerminal(&b, term); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		for _, line := range lines {
			if n := utf8.RuneCountInString(line); n > term.Width {
				t.Errorf("%s: a line has %d columns: %s", name, n, line)
			}
		}
		if c.rows > 0 && len(lines) != c.rows {
			t.Errorf("%s: %d lines, want %d", name, len(lines), c.rows)
		}
		for _, want := range c.want {
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
				t.Errorf("%s: %q is missing:\n%s", name, want, b.String())
			}
		}
	}
}

// TestUserColumn: whose tasks they are stands there once there is a doubt.
func TestUserColumn(t *testing.T) {
	for want, tasks := range map[bool][]*wire.Task{
		false: {{Id: "t1", User: "root"}, {Id: "t2"}},
		true:  {{Id: "t1", User: "root"}, {Id: "t2", User: "ada"}},
	} {
		var b strings.Builder
		if err := tasksTable(tasks, "root").WriteText(&b); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(b.String(), "  user  "); got != want {
			t.Errorf("the user column is there: %v, want %v:\n%s", got, want, b.String())
		}
	}
}
