package policy

import "headrace"

// waiter is a task that waits.
type waiter struct {
	*task
	// served tasks have got the room that was made for them, turned ones have had their
	// turn in group, the tasks of its job with which it takes turns, if it does.
	served, turned bool
	group          *group
	// passes: it goes before tasks of its job that were submitted before it.
	passes bool
	// warm: some of its input is in memory on a node of the view, known once the group's
	// chances are listed. local is the share of its input that is resident, as
	// InputView.Resident says, if that was asked for.
	warm  bool
	local float64
}

// queue puts tasks that wait in order. What is kept from one view to the next is memory.
type queue struct {
	ageing ageing
	// bySubmission leaves the tasks of a job in order of submission.
	bySubmission bool

	waiters []waiter
	lanes   [2 * (headrace.MaxPriority + 1)][]*waiter
	all     []*waiter
	groups  groups
}

// order is the waiting tasks in the order in which they get what is free: aged
// priority, then what was begun, then submission; but of the tasks of a job that
// have not been begun those first whose input is resident. Of those that take turns
// (waiter.group) it is the places, not the order. It is valid until the next call.
func (q *queue) order(waiting []*task) []*waiter {
	for i := range q.lanes {
		q.lanes[i] = q.lanes[i][:0]
	}
	if cap(q.waiters) < len(waiting) {
		q.waiters = make([]waiter, len(waiting)*5/4)
	}
	q.waiters = q.waiters[:len(waiting)]
	for i, t := range waiting {
		u := &q.waiters[i]
		*u = waiter{task: t}
		t.eff = q.ageing.aged(t.Priority, t.Waiting)
		lane := 2 * (headrace.MaxPriority - t.eff)
		if !begun(t.TaskView) {
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
