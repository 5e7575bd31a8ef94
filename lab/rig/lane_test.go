package rig

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"headrace"
	"headrace/wire"
	"headrace/wire/convert"
)

// told makes a history out of "ms state[=bytes]" items.
func told(items ...string) *wire.Task {
	t := &wire.Task{Name: "task", SubmittedMs: 1000}
	for _, item := range items {
		e := &wire.Event{}
		at, state, _ := strings.Cut(item, " ")
		fmt.Sscan(at, &e.AtMs)
		state, bytes, _ := strings.Cut(state, "=")
		fmt.Sscan(bytes, &e.Bytes)
		e.State = state
		t.History = append(t.History, e)
	}
	return t
}

func TestHistories(t *testing.T) {
	for _, c := range []struct {
		name      string
		task      *wire.Task
		lane      string
		mechanism headrace.Mechanism
		dumped    int64
		restored  int64
	}{
		{
			name: "undisturbed", task: told("1000 pending", "1000 starting", "1010 running", "2000 done"),
			lane: "waiting 0-0.01, running 0.01-1", mechanism: headrace.Wait,
		},
		{
			name: "suspended", mechanism: headrace.Suspend,
			task: told("1000 starting", "1010 running", "1500 suspending", "1501 suspended", "1600 paged out=77", "2000 resuming", "2002 running", "2500 done"),
			lane: "waiting 0-0.01, running 0.01-0.501, suspended 0.501-1.002, running 1.002-1.5",
		},
		{
			name: "checkpointed", mechanism: headrace.Checkpoint, dumped: 100, restored: 120,
			task: told("1000 running", "1500 checkpointing", "1800 checkpointed=100", "2000 restoring", "2200 running=120", "2500 done"),
			lane: "running 0-0.5, checkpointing 0.5-0.8, checkpointed 0.8-1, restoring 1-1.2, running 1.2-1.5",
		},
		{
			name: "killed and started over", mechanism: headrace.Kill,
			task: told("1000 running", "1500 killing", "1510 pending", "2000 starting", "2010 running", "3000 done"),
			lane: "lost 0-0.51, waiting 0.51-1.01, running 1.01-2",
		},
		{
			name: "killed after a checkpoint", mechanism: headrace.Kill, dumped: 10, restored: 20,
			task: told("1000 running", "1500 checkpointing", "1600 checkpointed=10", "1700 restoring", "1800 running=10",
				"2000 killing", "2010 checkpointed", "2100 restoring", "2200 running=10", "2500 done"),
			lane: "running 0-0.5, checkpointing 0.5-0.6, checkpointed 0.6-0.7, restoring 0.7-0.8, lost 0.8-1.01, checkpointed 1.01-1.1, restoring 1.1-1.2, running 1.2-1.5",
		},
		{
			name: "still going on", task: told("1000 running", "1500 suspended"),
			lane: "running 0-0.5, suspended 0.5-", mechanism: headrace.Suspend,
		},
		{
			name: "a clock that goes back", task: told("1000 running", "900 suspended", "2000 done"),
			lane: "suspended 0-1", mechanism: headrace.Suspend,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var parts []string
			h := convert.History(c.task)
			for _, s := range Draw(h, time.UnixMilli(c.task.SubmittedMs)) {
				end := ""
				if !math.IsNaN(s.End) {
					end = fmt.Sprint(s.End)
				}
				parts = append(parts, fmt.Sprintf("%v %v-%s", s.Kind, s.Start, end))
			}
			if got := strings.Join(parts, ", "); got != c.lane {
				t.Errorf("lane\n %s, want\n %s", got, c.lane)
			}
			if got := h.LeftBy(); got != c.mechanism {
				t.Errorf("mechanism %v, want %v", got, c.mechanism)
			}
			if dumped, restored := h.Moved(); dumped != c.dumped || restored != c.restored {
				t.Errorf("dumped %d and restored %d, want %d and %d", dumped, restored, c.dumped, c.restored)
			}
		})
	}
}
