package rig

import (
	"math"
	"time"

	"headrace"
	"headrace/report"
)

// kindOf returns what a segment of a history looks like.
func kindOf(s headrace.Segment) report.Kind {
	switch {
	case s.Lost:
		return report.Lost
	case s.Doing == headrace.Checkpointing:
		return report.Checkpointing
	case s.Doing == headrace.Restoring:
		return report.Restoring
	}
	k, _ := report.KindOf(s.State)
	return k
}

// Draw returns what a task did, in seconds from zero. The last segment of a task that has
// not ended is open.
func Draw(h headrace.History, zero time.Time) []report.Segment {
	var out []report.Segment
	for _, s := range h.Segments() {
		end := math.NaN()
		if !s.End.IsZero() {
			end = s.End.Sub(zero).Seconds()
		}
		out = AppendSegment(out, report.Segment{Kind: kindOf(s), Start: s.Start.Sub(zero).Seconds(), End: end, Note: s.Reason})
	}
	return out
}

// DrawAttempt returns what an attempt did between its start and its end. lost tells that
// its work is lost.
func DrawAttempt(h headrace.History, zero, start, end time.Time, lost bool) []report.Segment {
	began, ended, kind := start.Sub(zero).Seconds(), end.Sub(zero).Seconds(), report.Running
	if lost {
		kind = report.Lost
	}
	if len(h) == 0 {
		return []report.Segment{{Kind: kind, Start: began, End: ended}}
	}
	var out []report.Segment
	for _, s := range Draw(h, zero) {
		if math.IsNaN(s.End) {
			s.End = ended
		}
		s.Start, s.End = max(s.Start, began), min(s.End, ended)
		if s.Kind == report.Running {
			s.Kind = kind
		}
		out = AppendSegment(out, s)
	}
	return out
}

// AppendSegment leaves out what has no length, and joins what is alike.
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

// Length returns how long a segment lasts.
func Length(s report.Segment) float64 { return s.End - s.Start }
