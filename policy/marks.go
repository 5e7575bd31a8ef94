package policy

import (
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/queue"
)

// A Mark stands for tasks that a view leaves out: of the same priority and demand as one
// that waits there, never begun either, without an input, and submitted after it.
type Mark struct {
	// Task is the index in the view of the task that they are like.
	Task int
	// Before is the index of the first task of the view that was submitted after the first of
	// them, and Waiting is for how long that one has waited.
	Before  int
	Waiting time.Duration
	// Spent is the answer: nothing is done for any of them, so that the orders are those for
	// the whole. One that nothing was done for changes nothing for others either: what there
	// is to be kept is kept for the one that it is like.
	Spent bool
}

// marks answers the marks of one decision.
type marks struct {
	all  []Mark
	aged []headrace.Priority // of the first that each stands for
	of   []int32             // of each task of the view: which of all it has, from 1; 0: none
}

func (m *marks) load(all []Mark, v *headrace.View, a queue.Ageing) {
	m.all, m.aged = all, m.aged[:0]
	if len(all) == 0 {
		return
	}
	if cap(m.of) < len(v.Tasks) {
		m.of = make([]int32, len(v.Tasks)*5/4)
	}
	m.of = m.of[:len(v.Tasks)]
	clear(m.of)
	for i := range all {
		all[i].Spent = false
		m.of[all[i].Task] = int32(i + 1)
		m.aged = append(m.aged, a.Aged(v.Tasks[all[i].Task].Priority, all[i].Waiting))
	}
}

// pass notes what was done for u, in the order of the queue. Where nothing was, nothing is
// done for those like it that come behind, unless somebody between them makes room.
func (m *marks) pass(u *books.Task, got outcome) {
	if len(m.all) == 0 {
		return
	}
	if k := m.of[u.Index]; k > 0 {
		m.all[k-1].Spent = got == nothing
	}
	if got != roomMade {
		return
	}
	for i := range m.all {
		// u comes after the one that these are like, or that would not be answered yet.
		if k, first := &m.all[i], m.aged[i]; u.Aged > first || u.Aged == first && (books.Begun(u.TaskView) || u.Index < k.Before) {
			k.Spent = false
		}
	}
}
