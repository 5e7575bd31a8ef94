package books

import (
	"time"

	"headrace"
)

// Slack absorbs rounding when fractions of CPUs are added up.
const Slack = 1e-9

// Room is an amount of the resources of a node; either may be negative.
type Room struct {
	CPUs float64
	Mem  int64
}

// take takes so much away.
func (r *Room) take(cpus float64, mem int64) {
	r.CPUs -= cpus
	r.Mem -= mem
}

// Holds reports whether there is so much; who needs no memory is not kept out by it.
func (r Room) Holds(cpus float64, mem int64) bool {
	return cpus <= r.CPUs+Slack && (mem <= 0 || mem <= r.Mem)
}

// Task is a task of the view together with what this decision has made of it. What is
// in the view is not changed.
type Task struct {
	*headrace.TaskView
	Index int   // its place in the view
	Home  *Node // nil when its node is not in the view
	// Aged is its priority in the queue.
	Aged headrace.Priority
	// Settled tasks are started, preempted or waited for by this decision.
	Settled bool
	// KnowsShare: it says how much of it is done. Guard is the highest aged priority
	// against which it is protected, Rank its place among victims, the less the sooner.
	// First: it was submitted before the others of its priority that run on its node.
	// All four are known of tasks that run, once their node has been opened.
	KnowsShare bool
	Guard      Guard
	Rank       float64
	First      bool
	// Order is where in the orders its order stands, counted from 1.
	Order int
	// Paging is PagingOut plus what this decision ordered.
	Paging int64
	// Counted is what it needs of each counted resource, nil for nothing.
	Counted []float64
	// Whole is the gang that it is of, nil for none. Members are not nil when this stands for
	// those of a gang that run on one node (Gang.Parts).
	Whole   *Gang
	Members []*Task
}

// Pageable says what of a suspended task's memory may still be ordered out: of a gang none,
// see Stays.
func (t *Task) Pageable() int64 {
	if t.Gang != 0 {
		return 0
	}
	return max(0, t.Resident-t.Paging)
}

// Stays says what memory t holds while it is suspended. One of a gang keeps all: if many
// nodes had to have memory for a gang at the same moment for it to come back, it might never,
// since it cannot make room as a checkpoint.
func Stays(t *headrace.TaskView) int64 {
	if t.Gang != 0 {
		return Held(t)
	}
	return t.Resident
}

// KilledFor reports whether t may be killed for u, if it may leave for it.
func (t *Task) KilledFor(u *Task) bool { return u.Priority > t.NoKill }

// Guard is the highest aged priority against which a running task is protected.
type Guard int8

const (
	Unguarded Guard = -1  // against nobody
	Guarded   Guard = 127 // against all
)

// Against reports whether it protects from a task that stands in the queue with
// priority by.
func (g Guard) Against(by headrace.Priority) bool { return Guard(min(by, headrace.MaxPriority)) <= g }

// Waiting reports whether t is to be brought to run when there is room.
func Waiting(t *headrace.TaskView) bool {
	if t.Held || t.Barred || t.Starting || t.Leaving {
		return false
	}
	return t.State == headrace.Pending || t.State == headrace.Suspended || t.State == headrace.Checkpointed
}

// Since says how long t, which waits, has waited since it last ran, or since it came.
func Since(t *headrace.TaskView) time.Duration { return max(0, t.Waiting-t.Waited) }

// Begun reports whether work would be lost if t never came back.
func Begun(t *headrace.TaskView) bool { return t.State == headrace.Suspended || Restorable(t) }

// Restorable reports whether t comes back from a checkpoint.
func Restorable(t *headrace.TaskView) bool {
	return t.Checkpoint != nil && (t.State == headrace.Pending || t.State == headrace.Checkpointed)
}

// ShareKnown reports whether t says how much of it is done.
func ShareKnown(t *headrace.TaskView) bool {
	return t.Progress.Share > 0 && t.Progress.Share <= 1 && t.Progress.TotalWall > 0
}

// Held says what a task that runs, or is about to, holds.
func Held(t *headrace.TaskView) int64 { return max(t.MemoryRequest, t.Resident) }

// Residue returns the memory that a leaving task will still hold.
func Residue(t *headrace.TaskView) int64 {
	if t.LeavingBy == headrace.Suspend {
		return Stays(t) - t.PagingOut
	}
	return 0
}

// Measured returns the memory that t had when it left, as far as it needs that to come back.
func Measured(t *headrace.TaskView) int64 {
	switch {
	case t.State == headrace.Suspended:
		return t.Resident + t.Swapped
	case !Restorable(t):
		return 0
	case t.Resident+t.Swapped == 0:
		return t.Checkpoint.Bytes
	}
	return t.Resident + t.Swapped
}

// Demand says what t needs to run on n. What was only measured, not requested, is
// cut to the size of n, so that a task that has outgrown its node still comes
// back when it is alone there.
func Demand(t *headrace.TaskView, n *headrace.NodeView) int64 {
	if t.State == headrace.Running {
		return Held(t)
	}
	return max(t.MemoryRequest, min(Measured(t), n.Memory))
}
