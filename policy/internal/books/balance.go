package books

import (
	"slices"

	"headrace"
)

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
	// Rest is what seldom matters, nil for nothing. Four words: a balance is copied often, and
	// the compiler keeps no more in registers.
	Rest *Rest
}

// Rest is the part of a balance that most tasks have not.
type Rest struct {
	// Blind: the task needs no more memory than it holds, or has not said how much,
	// so that memory does not keep it out; it does keep victims from being
	// suspended.
	Blind bool
	// Counted is what is missing of each counted resource, nil when the task needs none.
	Counted []float64
}

// blind is that of tasks that need nothing that is counted.
var blind = Rest{Blind: true}

// After returns the rest after a, nil for nothing. It is not changed.
func (r *Rest) After(a Act) *Rest {
	suspends := a.By == headrace.Suspend && a.Task.State != headrace.Suspended
	switch {
	case r.Counted == nil && suspends:
		return nil
	case r.Counted == nil || !suspends && a.Task.Counted == nil:
		return r
	}
	next := &Rest{Blind: r.Blind && !suspends, Counted: r.Counted}
	if !suspends {
		next.Counted = slices.Clone(r.Counted)
		subtract(next.Counted, a.Task.Counted)
	}
	return next
}

// Lacking returns how much of the counted resources is missing, all of them together.
func (r *Rest) Lacking() (sum float64) {
	if r == nil {
		return 0
	}
	for _, m := range r.Counted {
		if m > Slack {
			sum += m
		}
	}
	return sum
}

// Balance says what is missing on n for u before anything is done.
func (n *Node) Balance(u *Task) Balance {
	mem := Demand(u.TaskView, n.NodeView)
	_, own := n.own(u)
	b := Balance{CPUs: u.CPUs - n.Later.CPUs, Mem: mem - own - n.Later.Mem, Pageable: n.Pageable}
	if mem <= own {
		b.Rest = &blind
	}
	if u.State == headrace.Suspended {
		b.Pageable -= u.Pageable()
	}
	if missing := n.missingCounted(u); missing != nil {
		b.Rest = &Rest{Blind: mem <= own, Counted: missing}
	}
	return b
}

// With returns the balance after a.
func (b Balance) With(a Act) Balance {
	t := a.Task
	if b.Rest != nil {
		b.Rest = b.Rest.After(a)
	}
	switch {
	case t.State == headrace.Suspended:
		b.Mem -= Stays(t.TaskView) - t.Paging
		b.Pageable -= t.Pageable()
	case a.By == headrace.Suspend:
		b.CPUs -= t.CPUs
		b.Mem -= Held(t.TaskView) - Stays(t.TaskView)
		b.Pageable += t.Pageable()
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
	if b.Rest != nil && b.Rest.Blind {
		return 0
	}
	return max(0, b.Mem-max(0, min(swap, b.Pageable)))
}

// Fits reports whether nothing is missing.
func (b Balance) Fits(swap int64) bool {
	return b.CPUs <= Slack && b.Short(swap) == 0 && (b.Rest == nil || b.Rest.Lacking() == 0)
}

// Page says how much has to be paged out.
func (b Balance) Page() int64 {
	if b.Rest != nil && b.Rest.Blind {
		return 0
	}
	return max(0, b.Mem)
}

// Better reports whether b is nearer to fitting than old.
func (b Balance) Better(old Balance, swap int64) bool {
	if old.CPUs > Slack && b.CPUs < old.CPUs || old.Rest != nil && b.Rest.Lacking() < old.Rest.Lacking()-Slack {
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
