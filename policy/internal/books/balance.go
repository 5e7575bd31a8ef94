package books

import "headrace"

// Act is one thing that a plan does to one task: a mechanism for a running
// victim, or Checkpoint for a suspended one. Store counts only for Checkpoint.
type Act struct {
	Task  *Task
	By    headrace.Mechanism
	Store int
}

// By returns the act of a mechanism other than Checkpoint on t.
func By(t *Task, m headrace.Mechanism) Act { return Act{t, m, -1} }

// DumpTo returns the act that is a checkpoint of t to a store of its node.
func DumpTo(t *Task, store int) Act { return Act{t, headrace.Checkpoint, store} }

// Balance is what is missing on a node for a task to fit there in the end.
type Balance struct {
	CPUs float64 // missing CPUs
	Mem  int64   // missing bytes
	// Pageable is how much of what is missing could come from page-outs, by what
	// suspended tasks hold.
	Pageable int64
	// Blind: the task needs no more memory than it holds, or has not said how much,
	// so that memory does not keep it out; it does keep victims from being
	// suspended.
	Blind bool
	// Counted is what is missing of each counted resource, nil when the task needs none.
	Counted []float64
}

// Balance says what is missing on n for u before anything is done.
func (n *Node) Balance(u *Task) Balance {
	mem := Demand(u.TaskView, n.NodeView)
	_, own := n.own(u)
	b := Balance{CPUs: u.CPUs - n.Later.CPUs, Mem: mem - own - n.Later.Mem, Pageable: n.Pageable, Blind: mem <= own}
	if u.State == headrace.Suspended {
		b.Pageable -= u.Pageable()
	}
	if u.Counted != nil {
		b.Counted = n.missingCounted(u)
	}
	return b
}

// With returns the balance after a.
func (b Balance) With(a Act) Balance {
	t := a.Task
	if b.Counted != nil && a.By != headrace.Suspend {
		b.Counted = b.Without(t)
	}
	switch {
	case t.State == headrace.Suspended:
		b.Mem -= Stays(t.TaskView) - t.Paging
		b.Pageable -= t.Pageable()
	case a.By == headrace.Suspend:
		b.CPUs -= t.CPUs
		b.Mem -= Held(t.TaskView) - Stays(t.TaskView)
		b.Pageable += t.Pageable()
		b.Blind = false
	default:
		b.CPUs -= t.CPUs
		b.Mem -= Held(t.TaskView)
	}
	return b
}

// Short says how many bytes are missing even if all that can be is paged out. This
// is the guard: what stays resident and what comes must fit in memory and the
// swap that may be used (os-assisted-preemption, section III.A).
func (b Balance) Short(swap int64) int64 {
	if b.Blind {
		return 0
	}
	return max(0, b.Mem-max(0, min(swap, b.Pageable)))
}

// Fits reports whether nothing is missing.
func (b Balance) Fits(swap int64) bool {
	return b.CPUs <= Slack && b.Short(swap) == 0 && (b.Counted == nil || b.Lacking() == 0)
}

// Page says how much has to be paged out.
func (b Balance) Page() int64 {
	if b.Blind {
		return 0
	}
	return max(0, b.Mem)
}

// Better reports whether b is nearer to fitting than old.
func (b Balance) Better(old Balance, swap int64) bool {
	if old.CPUs > Slack && b.CPUs < old.CPUs || old.Counted != nil && b.Lacking() < old.Lacking()-Slack {
		return true
	}
	return b.Short(swap) < old.Short(swap)
}

// Sum returns b after all acts.
func (b Balance) Sum(acts []Act) Balance {
	for _, a := range acts {
		b = b.With(a)
	}
	return b
}
