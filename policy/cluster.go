package policy

import (
	"cmp"
	"math"
	"slices"

	"headrace"
)

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
	i   int
	n   *node // nil when its node is not in the view
	eff headrace.Priority
	// settled tasks are started, preempted or waited for by this decision.
	settled bool
	// redeemed tasks have got the room that was made for them.
	redeemed bool
	// order is where in the orders its order stands, counted from 1.
	order int
	// paging is PagingOut plus what this decision ordered.
	paging int64
	// rank is its place among victims by the victim order: the less the sooner.
	rank float64
	// local is the share of its input that is resident, if it has one; passes when
	// it goes before tasks of its job that were submitted before it.
	local  float64
	passes bool
}

// pageable is what of a suspended task's memory may still be ordered out.
func (t *task) pageable() int64 { return max(0, t.Resident-t.paging) }

// node is a node of the view with its accounts. What is free counts every task
// on it: now, and later, when all that is leaving or being paged out is gone and
// all that this decision gave away is taken.
type node struct {
	*headrace.NodeView
	i          int
	now, later room
	// swap is what may still be ordered out; pageable what suspended tasks have.
	swap, pageable int64
	stores         []store
	running        []*task // those that may be preempted as far as their state goes
	suspended      []*task // those whose memory may be paged out
	// lowest is the least priority among running and suspended tasks that are
	// not held; above MaxPriority when there are none.
	lowest headrace.Priority
	ranked bool
	priced bool
	prices []option
	// kept is a task that nothing can be done for yet: what is free is kept for it.
	kept *task
}

// store is a store with what this decision has added to its queue.
type store struct {
	*headrace.StoreView
	queue float64 // seconds
	free  int64
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
// share Overlap of what goes is still to go.
func (d *decision) onTheWay(t *headrace.TaskView) int64 {
	if float64(t.PagingOut) <= d.c.Overlap*float64(t.PagingOut+t.Swapped) {
		return t.PagingOut
	}
	return 0
}

// index builds the accounts of all nodes.
func (d *decision) index(v *headrace.View) {
	d.nodes = make([]node, len(v.Nodes))
	d.byID = make(map[headrace.NodeID]*node, len(v.Nodes))
	for i := range v.Nodes {
		n := &d.nodes[i]
		*n = node{NodeView: &v.Nodes[i], i: i, lowest: headrace.MaxPriority + 1}
		n.now = room{n.CPUs, n.Memory}
		n.later = n.now
		for j := range n.Stores {
			s := &n.Stores[j]
			n.stores = append(n.stores, store{s, s.Queue.Seconds(), s.Free})
		}
		d.byID[n.ID] = n
	}
	d.tasks = make([]task, len(v.Tasks))
	swapped := make([]int64, len(d.nodes))
	for i := range v.Tasks {
		t := &d.tasks[i]
		*t = task{TaskView: &v.Tasks[i], i: i, paging: v.Tasks[i].PagingOut}
		if t.Node == "" {
			continue
		}
		if t.n = d.byID[t.Node]; t.n != nil {
			d.account(t)
			swapped[t.n.i] += t.Swapped
		}
	}
	for i := range d.nodes {
		n := &d.nodes[i]
		if n.SwapOut <= 0 || n.SwapIn <= 0 {
			n.swap = 0
			continue
		}
		reserve := int64(math.Ceil(d.c.SuspendReserve * float64(n.SwapFree+swapped[i])))
		n.swap += n.SwapFree - reserve
	}
}

// account enters what t holds on its node.
func (d *decision) account(t *task) {
	n := t.n
	switch {
	case t.State.Final():
	case t.Starting:
		mem := demand(t.TaskView, n.NodeView)
		n.now.take(t.CPUs, mem)
		n.later.take(t.CPUs, mem)
	case t.State == headrace.Running:
		n.now.take(t.CPUs, held(t.TaskView))
		if t.Leaving {
			n.later.take(0, residue(t))
			break
		}
		n.later.take(t.CPUs, held(t.TaskView))
		if !t.Held {
			n.running = append(n.running, t)
			n.lowest = min(n.lowest, t.Priority)
		}
	case t.State == headrace.Suspended && t.Leaving:
		n.now.take(0, t.Resident)
		n.later.take(0, residue(t))
	case t.State == headrace.Suspended:
		n.now.take(0, t.Resident-d.onTheWay(t.TaskView))
		n.later.take(0, t.Resident-t.PagingOut)
		n.suspended = append(n.suspended, t)
		n.pageable += t.pageable()
		if !t.Held {
			n.lowest = min(n.lowest, t.Priority)
		}
	}
	n.swap -= t.PagingOut
}

// residue is the memory that a leaving task will still hold.
func residue(t *task) int64 {
	if t.LeavingBy == headrace.Suspend {
		return t.Resident - t.PagingOut
	}
	return 0
}

// rank sorts the victims of n by the victim order, once per decision. Except for
// Adaptive, the least urgent go first whatever the order; among equals the one
// that was submitted last.
func (d *decision) rank(n *node) {
	if n.ranked {
		return
	}
	n.ranked = true
	for _, t := range n.running {
		t.rank = d.rankOf(t)
	}
	slices.SortFunc(n.running, func(a, b *task) int {
		if d.c.Policy != Adaptive && a.Priority != b.Priority {
			return cmp.Compare(a.Priority, b.Priority)
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.i, a.i))
	})
	slices.SortFunc(n.suspended, lastToReturn)
}

// lastToReturn sorts suspended tasks so that those come first whose memory will
// be needed last.
func lastToReturn(a, b *task) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.i, a.i))
}

func (d *decision) rankOf(t *task) float64 {
	switch d.c.VictimOrder {
	case CheapestCheckpoint:
		return d.cheapestDump(t)
	case ClosestToCompletion:
		if !shareKnown(t.TaskView) {
			return math.Inf(1)
		}
		return remaining(t.TaskView).Seconds()
	case LeastWork:
		return t.Progress.Wall.Seconds()
	}
	if mem := t.Resident + t.Swapped; mem > 0 {
		return float64(mem)
	}
	return float64(t.MemoryRequest)
}
