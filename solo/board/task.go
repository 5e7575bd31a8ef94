package board

import (
	"strings"

	"headrace/proc"
	"headrace/solo/journal"
)

// Task is a task as it was after some turn of the loop. It is immutable.
type Task struct {
	Record journal.Record
	// Note is why it waits, as the policy says.
	Note string
	// Trouble is what went wrong and still holds.
	Trouble string
	Argv    []string
	Output  string
	Stats   *proc.Stats // of its processes; nil without any
	// Silence is that its supervisor does not answer.
	Silence string
	// DoingReason is why what is being done to it is done.
	DoingReason string
	// Resident is how much of its input was in memory while it waited.
	Resident int64
}

// WaitsForSlot is the reason of a task that nothing else can be said about.
const WaitsForSlot = "waits for a free slot"

// Since returns when the task entered its state, in milliseconds of the wall clock.
func (t *Task) Since() int64 {
	for i := len(t.Record.History) - 1; i >= 0; i-- {
		if e := t.Record.History[i]; e.State == t.Record.State.String() {
			return e.AtMs
		}
	}
	return t.Record.SubmittedMs
}

// NoLimits joins what of the task's cgroup could not be had with what of it its processes are
// not in.
func (t *Task) NoLimits() string {
	switch {
	case t.Stats == nil || t.Stats.Outside == "":
		return t.Record.NoLimits
	case t.Record.NoLimits == "":
		return t.Stats.Outside
	}
	return t.Record.NoLimits + "; " + t.Stats.Outside
}

// Reason joins why the task came to its state with why it stays there.
func (t *Task) Reason() string {
	r := t.Record.Reason
	if t.Silence != "" {
		return t.Silence
	}
	if t.Record.Op != nil { // it does not wait
		if r == WaitsForSlot {
			return t.DoingReason
		}
		return r
	}
	switch {
	case t.Trouble != "":
		return t.Trouble
	case t.Note == "" || t.Record.State.Final():
		return r
	case r == "" || r == WaitsForSlot:
		return t.Note
	case strings.Contains(r, t.Note):
		return r
	}
	return r + "; now: " + t.Note
}

// Gist returns what somebody far away waits for.
func (t *Task) Gist() string {
	g := t.Record.State.String() + " " + t.Record.Op.Doing().String()
	if t.Record.Held {
		g += " held"
	}
	if t.Record.Keeps {
		g += " keeps"
	}
	if t.Record.Sent != nil && t.Record.Sent.Done {
		g += " archived"
	}
	return g
}
