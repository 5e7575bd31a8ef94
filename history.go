package headrace

import "time"

// Event is something that happened to a task: it came to a state, or an operation began.
type Event struct {
	At time.Time
	// State is what it came to, unless an operation Began.
	State TaskState
	Began Operation
	// Reason is for people.
	Reason string
	// Bytes is what a dump has written, or a restore has read.
	Bytes int64
}

// CameTo reports whether the task came to a state.
func (e Event) CameTo(s TaskState) bool { return e.Began == Idle && e.State == s }

// History is what happened to a task, oldest first.
type History []Event

// Segment is a time in which a task was in one state and one thing was done to it.
type Segment struct {
	State TaskState
	Doing Operation
	// Start is when it began, and End when the next one did; zero: it is not over.
	Start, End time.Time
	Reason     string
	// Lost tells that the task worked, and that this work was thrown away later.
	Lost bool
}

// saving reports whether the task is on its way to storage, there, or on its way back.
func (s Segment) saving() bool { return s.State == Checkpointed || s.Doing == Checkpointing }

// Aside reports whether the task is suspended or checkpointed, and not being brought back.
func (s Segment) Aside() bool {
	return (s.State == Suspended || s.State == Checkpointed) && !s.Moving()
}

// Moving reports whether the task is just being put aside or brought back.
func (s Segment) Moving() bool {
	switch s.Doing {
	case Suspending, Checkpointing, Resuming, Restoring:
		return true
	}
	return false
}

// Segments returns what the task did, without gaps. The last one is open unless the task
// has ended. Where the clock went back, a segment has no length.
func (h History) Segments() []Segment {
	var all []Segment
	killing := false
	for _, e := range h {
		next := Segment{State: e.State, Doing: e.Began, Start: e.At, Reason: e.Reason}
		if n := len(all); n > 0 {
			last := &all[n-1]
			if last.Start.After(e.At) {
				next.Start = last.Start
			}
			last.End = next.Start
			if e.Began != Idle {
				next.State = last.State
			}
		}
		switch {
		case e.Began == Killing:
			killing = true
		case e.Began != Idle:
		case e.State.Final():
			return all
		case killing && (e.State == Pending || e.State == Checkpointed):
			lose(all)
			killing = false
		}
		all = append(all, next)
	}
	return all
}

// lose marks the work since the start or the last checkpoint as lost.
func lose(all []Segment) {
	for i := len(all) - 1; i >= 0 && !all[i].saving() && !all[i].Lost; i-- {
		all[i].Lost = all[i].State == Running
	}
}

// LeftBy returns how the task was made to leave: the last way, if there were several.
func (h History) LeftBy() Mechanism {
	m, killing := Wait, false
	for _, e := range h {
		switch {
		case e.Began == Killing:
			m, killing = Kill, true
		case e.Began == Starting || e.Began == Restoring:
			killing = false
		case e.CameTo(Suspended):
			m = Suspend
		case e.CameTo(Checkpointed) && !killing:
			m = Checkpoint
		}
	}
	return m
}

// Moved adds up what dumps have written and restores have read.
func (h History) Moved() (dumped, restored int64) {
	for i, e := range h {
		switch {
		case e.CameTo(Checkpointed):
			dumped += e.Bytes
		case e.CameTo(Running) && i > 0 && h[i-1].Began == Restoring:
			restored += e.Bytes
		}
	}
	return dumped, restored
}
