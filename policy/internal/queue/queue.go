package queue

import (
	"headrace"
	"headrace/policy/internal/books"
)

// Waiter is a task that waits.
type Waiter struct {
	*books.Task
	// Served tasks have got the room that was made for them, turned ones have had their
	// turn in group, the tasks of its job with which it takes turns, if it does.
	Served, turned bool
	group          *group
	// Dumping is the node on which one that is served, and was not begun, has to wait for dumps.
	Dumping *books.Node
	// Passes: it goes before tasks of its job that were submitted before it.
	Passes bool
	// warm: some of its input is in memory on a node of the view, known once the group's
	// chances are listed. Local is the share of its input that is resident, as
	// InputView.Resident says, if that was asked for.
	warm  bool
	Local float64
}

// Queue puts tasks that wait in order. What is kept from one view to the next is memory.
type Queue struct {
	Ageing Ageing
	// BySubmission leaves the tasks of a job in order of submission.
	BySubmission bool

	waiters []Waiter
	lanes   [4 * (headrace.MaxPriority + 1)][]*Waiter
	all     []*Waiter
	groups  groups
}

// Order returns the waiting tasks in the order in which they get what is free: aged
// priority, then what was begun, then submission; but of the tasks of a job that
// have not been begun those first whose input is resident. Of those that take turns
// (Waiter.group) it is the places, not the order. It is valid until the next call.
func (q *Queue) Order(waiting []*books.Task) []*Waiter {
	for i := range q.lanes {
		q.lanes[i] = q.lanes[i][:0]
	}
	if cap(q.waiters) < len(waiting) {
		q.waiters = make([]Waiter, len(waiting)*5/4)
	}
	q.waiters = q.waiters[:len(waiting)]
	for i, t := range waiting {
		u := &q.waiters[i]
		*u = Waiter{Task: t}
		p, behind := q.Ageing.InQueue(t.TaskView)
		t.Aged = p
		lane := 4 * (headrace.MaxPriority - p)
		if behind {
			lane += 2
		}
		if !books.Begun(t.TaskView) {
			lane++
		}
		q.lanes[lane] = append(q.lanes[lane], u)
	}
	q.groups.forget()
	q.all = q.all[:0]
	for i, lane := range q.lanes {
		if i%2 == 1 {
			q.residentFirst(lane)
		}
		q.all = append(q.all, lane...)
	}
	return q.all
}
