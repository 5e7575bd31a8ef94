package rig

import (
	"math"

	"headrace"
	"headrace/report"
	"headrace/wire"
)

// transitions are the states in a history that are not states of a task.
var transitions = map[string]report.Kind{
	"starting":      report.Waiting,
	"suspending":    report.Running,
	"resuming":      report.Suspended,
	"checkpointing": report.Checkpointing,
	"restoring":     report.Restoring,
	"killing":       report.Running,
}

// kindOf is the kind of segment that an event begins; false for events that begin
// none. over tells that the task has ended.
func kindOf(e *wire.Event) (k report.Kind, over, ok bool) {
	if k, ok := transitions[e.State]; ok {
		return k, false, true
	}
	s, err := headrace.ParseTaskState(e.State)
	if err != nil {
		return 0, false, false
	}
	k, ok = report.KindOf(s)
	return k, s.Final(), ok || s.Final()
}

// LaneOf draws what a task did, in seconds from zero, a point in time of the
// daemon's clock. The last segment of a task that has not ended is open.
func LaneOf(t *wire.Task, zero int64) report.Lane {
	lane := report.Lane{Name: t.Name}
	now := report.Segment{Kind: report.Waiting, Start: Seconds(t.SubmittedMs, zero), End: math.NaN()}
	killed := false
	for _, e := range t.History {
		k, over, ok := kindOf(e)
		if !ok {
			continue
		}
		at := max(Seconds(e.AtMs, zero), now.Start)
		if over || k != now.Kind {
			now.End = at
			lane.Segments = AppendSegment(lane.Segments, now)
			now = report.Segment{Kind: k, Start: at, End: math.NaN(), Note: e.Reason}
		}
		switch {
		case over:
			return lane
		case e.State == "killing":
			killed = true
		case killed && (k == report.Waiting || k == report.Checkpointed):
			thrownAway(lane.Segments)
			killed = false
		}
	}
	lane.Segments = append(lane.Segments, now)
	return lane
}

// AppendSegment leaves out what has no length.
func AppendSegment(to []report.Segment, s report.Segment) []report.Segment {
	if s.End <= s.Start {
		return to
	}
	if n := len(to); n > 0 && to[n-1].Kind == s.Kind && to[n-1].End == s.Start {
		to[n-1].End = s.End
		return to
	}
	return append(to, s)
}

// thrownAway marks the work since the start or the last checkpoint as lost.
func thrownAway(segments []report.Segment) {
	for i := len(segments) - 1; i >= 0; i-- {
		switch segments[i].Kind {
		case report.Running:
			segments[i].Kind = report.Lost
		case report.Checkpointing, report.Checkpointed, report.Restoring, report.Lost:
			return
		}
	}
}

// Seconds returns the seconds from zero to ms, both in milliseconds.
func Seconds(ms, zero int64) float64 { return float64(ms-zero) / 1000 }

// MechanismOf is how a task was made to leave: the last way, if there were
// several.
func MechanismOf(t *wire.Task) headrace.Mechanism {
	m := headrace.Wait
	killing := false
	for _, e := range t.History {
		switch e.State {
		case headrace.Suspended.String():
			m = headrace.Suspend
		case headrace.Checkpointed.String():
			if !killing {
				m = headrace.Checkpoint
			}
		case "killing":
			killing = true
			m = headrace.Kill
		case "starting", "restoring":
			killing = false
		}
	}
	return m
}

// CheckpointBytes adds up what dumps have written and restores have read.
func CheckpointBytes(history []*wire.Event) (dumped, restored int64) {
	restoring := false
	for _, e := range history {
		switch {
		case e.State == headrace.Checkpointed.String():
			dumped += e.Bytes
		case e.State == "restoring":
			restoring = true
			continue
		case e.State == headrace.Running.String() && restoring:
			restored += e.Bytes
		}
		restoring = false
	}
	return dumped, restored
}

// Length is how long a segment lasts.
func Length(s report.Segment) float64 { return s.End - s.Start }
