package policy

import "headrace"

// act is one thing that a plan does to one task: a mechanism for a running
// victim, or Checkpoint for a suspended one. store counts only for Checkpoint.
type act struct {
	t     *task
	mech  headrace.Mechanism
	store int
}

// balance is what is missing on a node for a task to fit there in the end.
type balance struct {
	cpus float64 // missing CPUs
	mem  int64   // missing bytes
	// pageable is how much of what is missing could come from page-outs, by what
	// suspended tasks hold.
	pageable int64
	// blind: the task needs no more memory than it holds, or has not said how much,
	// so that memory does not keep it out; it does keep victims from being
	// suspended.
	blind bool
}

// balance is what is missing on n for u before anything is done.
func (n *node) balance(u *task) balance {
	mem := demand(u.TaskView, n.NodeView)
	_, own := n.own(u)
	b := balance{cpus: u.CPUs - n.later.cpus, mem: mem - own - n.later.mem, pageable: n.pageable, blind: mem <= own}
	if u.State == headrace.Suspended {
		b.pageable -= u.pageable()
	}
	return b
}

// with is the balance after a.
func (b balance) with(a act) balance {
	t := a.t
	switch {
	case t.State == headrace.Suspended:
		b.mem -= t.Resident - t.paging
		b.pageable -= t.pageable()
	case a.mech == headrace.Suspend:
		b.cpus -= t.CPUs
		b.mem -= held(t.TaskView) - t.Resident
		b.pageable += t.pageable()
		b.blind = false
	default:
		b.cpus -= t.CPUs
		b.mem -= held(t.TaskView)
	}
	return b
}

// short is how many bytes are missing even if all that can be is paged out. This
// is the guard: what stays resident and what comes must fit in memory and the
// swap that may be used (os-assisted-preemption, section III.A).
func (b balance) short(swap int64) int64 {
	if b.blind {
		return 0
	}
	return max(0, b.mem-max(0, min(swap, b.pageable)))
}

func (b balance) fits(swap int64) bool { return b.cpus <= slack && b.short(swap) == 0 }

// page is how much has to be paged out.
func (b balance) page() int64 {
	if b.blind {
		return 0
	}
	return max(0, b.mem)
}

// better reports whether b is nearer to fitting than old.
func (b balance) better(old balance, swap int64) bool {
	if old.cpus > slack && b.cpus < old.cpus {
		return true
	}
	return b.short(swap) < old.short(swap)
}

// sum is b after all acts.
func (b balance) sum(acts []act) balance {
	for _, a := range acts {
		b = b.with(a)
	}
	return b
}
