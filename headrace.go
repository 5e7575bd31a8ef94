package headrace

import (
	"fmt"
	"strconv"
	"strings"
)

// TaskID names one task on one cluster. It is chosen by whoever accepts the
// task, is never reused, and is safe as a file name.
type TaskID string

// JobID names a set of tasks that were submitted together.
type JobID string

// NodeID names a machine.
type NodeID string

// Priority orders tasks: 0 is the least and 11 the most urgent, as in the
// Google cluster traces (checkpoint-preemption, section 2).
type Priority uint8

// The named priorities. The traces' bands are free 0-1, middle 2-8 and
// production 9-11.
const (
	Free       Priority = 0
	Low        Priority = 2
	Normal     Priority = 4
	High       Priority = 8
	Production Priority = 10

	MaxPriority Priority = 11
)

var priorityNames = []struct {
	name string
	p    Priority
}{
	{"free", Free}, {"low", Low}, {"normal", Normal}, {"high", High}, {"production", Production},
}

// ParsePriority reads a name (free, low, normal, high, production) or a number
// from 0 to 11.
func ParsePriority(s string) (Priority, error) {
	t := strings.ToLower(strings.TrimSpace(s))
	for _, n := range priorityNames {
		if t == n.name {
			return n.p, nil
		}
	}
	v, err := strconv.ParseUint(t, 10, 8)
	if err != nil || Priority(v) > MaxPriority {
		return 0, fmt.Errorf("priority %q: want free, low, normal, high, production or a number from 0 to %d", s, MaxPriority)
	}
	return Priority(v), nil
}

// String returns the name where there is one, else the number.
func (p Priority) String() string {
	for _, n := range priorityNames {
		if n.p == p {
			return n.name
		}
	}
	return strconv.Itoa(int(p))
}

// Band returns the trace's name for a range of priorities: free, middle, production.
func (p Priority) Band() string {
	switch {
	case p <= 1:
		return "free"
	case p <= 8:
		return "middle"
	}
	return "production"
}

// Top returns the most urgent priority of the band of p.
func (p Priority) Top() Priority {
	switch {
	case p <= 1:
		return 1
	case p <= 8:
		return 8
	}
	return MaxPriority
}

// Hosting tells whose task it is when its scheduler is another one, and what that
// calls it. Its names in JSON are those of records.
type Hosting struct {
	Scheduler   string `json:"scheduler"`
	Application string `json:"application,omitempty"`
	Queue       string `json:"queue,omitempty"`
	Submitter   string `json:"submitter,omitempty"` // of the application; empty: whoever runs the container
}

// TaskState is where a task is in its life.
//
//	pending -> running <-> suspended
//	running, suspended -> checkpointed -> running
//	any of them -> done | failed | killed | lost
//	running, suspended, checkpointed -> pending   (killed to make room, or restarted)
type TaskState uint8

const (
	// Pending tasks wait to be started from the beginning.
	Pending TaskState = iota
	// Running tasks have processes that may run.
	Running
	// Suspended tasks have processes, all of them stopped.
	Suspended
	// Checkpointed tasks have no processes; a committed image is on storage.
	Checkpointed
	// Done: the command ended with exit code 0.
	Done
	// Failed: the command could not be started, or ended with another code.
	Failed
	// Killed: a user ended it.
	Killed
	// Lost: its processes vanished (reboot, killed shim) and nothing allowed a
	// restart.
	Lost
)

var stateNames = [...]string{"pending", "running", "suspended", "checkpointed", "done", "failed", "killed", "lost"}

// String returns the lower-case name of the state.
func (s TaskState) String() string { return nameOf(stateNames[:], s, "state") }

// ParseTaskState returns the inverse of TaskState.String.
func ParseTaskState(s string) (TaskState, error) {
	return named[TaskState](stateNames[:], s, "task state")
}

// Final reports whether the task has ended for good.
func (s TaskState) Final() bool { return s >= Done }

// Mechanism is a way to make room for a more urgent task.
type Mechanism uint8

const (
	// Wait lets the running task finish.
	Wait Mechanism = iota
	// Suspend stops its processes and leaves their memory to the kernel
	// (os-assisted-preemption, section III).
	Suspend
	// Checkpoint writes its processes to storage and ends them
	// (checkpoint-preemption, section 3.2).
	Checkpoint
	// Kill ends its processes; it starts again from the beginning or from its
	// last checkpoint.
	Kill
)

var mechanismNames = [...]string{"wait", "suspend", "checkpoint", "kill"}

// String returns the lower-case name of the mechanism.
func (m Mechanism) String() string { return nameOf(mechanismNames[:], m, "mechanism") }
