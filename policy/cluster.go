package policy

import "headrace"

// slack absorbs rounding when fractions of CPUs are added up.
const slack = 1e-9

// room is an amount of the resources of a node; either may be negative.
type room struct {
	cpus float64
	mem  int64
}

func (r *room) take(cpus float64, mem int64) {
	r.cpus -= cpus
	r.mem -= mem
}

func (r room) holds(cpus float64, mem int64) bool {
	return cpus <= r.cpus+slack && (mem <= 0 || mem <= r.mem)
}

// task is a task of the view together with what this decision has made of it.
type task struct {
	*headrace.TaskView
	i     int
	n     *node  // nil when its node is not in the view
	class *class // nil unless it can go to several nodes and needs as much on each
	eff   headrace.Priority
	// settled tasks are started, preempted or waited for by this decision.
	settled bool
	// redeemed tasks have got the room that was made for them.
	redeemed bool
	// share: it says how much of it is done. guard is the highest aged priority
	// against which it is protected. Both are known of tasks that run, once their
	// node has been opened.
	share bool
	guard guard
	// passes: it goes before tasks of its job that were submitted before it.
	passes bool
	// turned: it has had its turn in group, the tasks of its job with which it takes
	// turns, if it does. warm: some of its input is in memory on a node of the view, known
	// once the group's chances are listed.
	turned, warm bool
	group        *group
	// order is where in the orders its order stands, counted from 1.
	order int
	// paging is PagingOut plus what this decision ordered.
	paging int64
	// rank is its place among victims by the victim order: the less the sooner.
	rank float64
	// local is the share of its input that is resident, as InputView.Resident says, if
	// that was asked for.
	local float64
}

// pageable is what of a suspended task's memory may still be ordered out.
func (t *task) pageable() int64 { return max(0, t.Resident-t.paging) }

// node is a node of the view with its accounts. What is free counts every task
// on it: now, and later, when all that is leaving or being paged out is gone and
// all that this decision gave away is taken.
type node struct {
	*headrace.NodeView
	i          int
	id         headrace.NodeID
	now, later room
	// swap is what may still be ordered out; pageable what suspended tasks have;
	// swapped what all tasks have there.
	swap, pageable, swapped int64
	stores                  []store
	// lowest is the least priority among running and suspended tasks that are
	// not held; above MaxPriority when there are none.
	lowest headrace.Priority
	// first and last are the tasks that may be preempted as far as their state goes,
	// chained by decision.next; -1 when there are none.
	first, last int32
	// running is the same tasks once opened, of which so many are sorted; suspended
	// are those whose memory may be paged out.
	running, suspended []*task
	opened, linedUp    bool
	shares             bool // some of running say how much of them is done
	sorted             int
	priced             bool
	prices             []option
	// kept is a task that nothing can be done for yet: what is free is kept for it.
	kept *task
}

// store is a store with what this decision has added to its queue.
type store struct {
	*headrace.StoreView
	queue float64 // seconds
	free  int64
	// offered is what was free when it was first asked for the sake of a waiting task.
	offered int64
}

// held is what a task that runs, or is about to, holds.
func held(t *headrace.TaskView) int64 { return max(t.MemoryRequest, t.Resident) }

// demand is what t needs to run on n. What was only measured, not requested, is
// cut to the size of n, so that a task that has outgrown its node still comes
// back when it is alone there.
func demand(t *headrace.TaskView, n *headrace.NodeView) int64 {
	var measured int64
	switch {
	case t.State == headrace.Suspended:
		measured = t.Resident + t.Swapped
	case restorable(t):
		if measured = t.Resident + t.Swapped; measured == 0 {
			measured = t.Checkpoint.Bytes
		}
	case t.State == headrace.Running:
		return held(t)
	}
	return max(t.MemoryRequest, min(measured, n.Memory))
}

// own is what the suspended task u already holds on its node, as it is counted
// in now and in later. Other waiting tasks hold nothing.
func (d *decision) own(u *task) (now, later int64) {
	if u.State != headrace.Suspended {
		return 0, 0
	}
	return u.Resident - d.onTheWay(u.TaskView), u.Resident - u.paging
}

// onTheWay is how much of the memory of the suspended task t counts as free for a
// start though it is still on its way to swap: all of it, once no more than the
// share overlap of what goes is still to go.
func (d *decision) onTheWay(t *headrace.TaskView) int64 {
	if float64(t.PagingOut) <= d.c.overlap*float64(t.PagingOut+t.Swapped) {
		return t.PagingOut
	}
	return 0
}
