package policy

import "headrace"

// slack absorbs rounding when fractions of CPUs are added up.
const slack = 1e-9

// room is an amount of the resources of a node; either may be negative.
type room struct {
	cpus float64
	mem  int64
}

// take takes so much away.
func (r *room) take(cpus float64, mem int64) {
	r.cpus -= cpus
	r.mem -= mem
}

// holds reports whether there is so much; who needs no memory is not kept out by it.
func (r room) holds(cpus float64, mem int64) bool {
	return cpus <= r.cpus+slack && (mem <= 0 || mem <= r.mem)
}

// task is a task of the view together with what this decision has made of it.
type task struct {
	*headrace.TaskView
	i int   // its place in the view
	n *node // nil when its node is not in the view
	// eff is its priority in the queue.
	eff headrace.Priority
	// settled tasks are started, preempted or waited for by this decision.
	settled bool
	// share: it says how much of it is done. guard is the highest aged priority against
	// which it is protected, rank its place among victims, the less the sooner. All
	// three are known of tasks that run, once their node has been opened.
	share bool
	guard guard
	rank  float64
	// order is where in the orders its order stands, counted from 1.
	order int
	// paging is PagingOut plus what this decision ordered.
	paging int64
}

// pageable is what of a suspended task's memory may still be ordered out.
func (t *task) pageable() int64 { return max(0, t.Resident-t.paging) }

// guard is the highest aged priority against which a running task is protected.
type guard int8

const (
	unguarded guard = -1
	guarded   guard = 127 // against all
)

// against reports whether it protects from a task that stands in the queue with
// priority by.
func (g guard) against(by headrace.Priority) bool { return guard(min(by, headrace.MaxPriority)) <= g }

// waiting reports whether t is to be brought to run when there is room.
func waiting(t *headrace.TaskView) bool {
	if t.Held || t.Starting || t.Leaving {
		return false
	}
	return t.State == headrace.Pending || t.State == headrace.Suspended || t.State == headrace.Checkpointed
}

// begun reports whether work would be lost if t never came back.
func begun(t *headrace.TaskView) bool { return t.State == headrace.Suspended || restorable(t) }

// restorable reports whether t comes back from a checkpoint.
func restorable(t *headrace.TaskView) bool {
	return t.Checkpoint != nil && (t.State == headrace.Pending || t.State == headrace.Checkpointed)
}

// held is what a task that runs, or is about to, holds.
func held(t *headrace.TaskView) int64 { return max(t.MemoryRequest, t.Resident) }

// residue is the memory that a leaving task will still hold.
func residue(t *headrace.TaskView) int64 {
	if t.LeavingBy == headrace.Suspend {
		return t.Resident - t.PagingOut
	}
	return 0
}

// measured is the memory that t had when it left, as far as it needs that to come back.
func measured(t *headrace.TaskView) int64 {
	switch {
	case t.State == headrace.Suspended:
		return t.Resident + t.Swapped
	case !restorable(t):
		return 0
	case t.Resident+t.Swapped == 0:
		return t.Checkpoint.Bytes
	}
	return t.Resident + t.Swapped
}

// demand is what t needs to run on n. What was only measured, not requested, is
// cut to the size of n, so that a task that has outgrown its node still comes
// back when it is alone there.
func demand(t *headrace.TaskView, n *headrace.NodeView) int64 {
	if t.State == headrace.Running {
		return held(t)
	}
	return max(t.MemoryRequest, min(measured(t), n.Memory))
}
