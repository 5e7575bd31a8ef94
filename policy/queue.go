package policy

import (
	"fmt"
	"time"

	"headrace"
)

// aged is the priority that a task has in the queue after it has waited so long.
func (c Config) aged(p headrace.Priority, waited time.Duration) headrace.Priority {
	p = min(p, headrace.MaxPriority)
	if c.Ageing <= 0 || waited <= 0 {
		return p
	}
	steps := min(waited/c.Ageing, time.Duration(headrace.MaxPriority))
	return min(p+headrace.Priority(steps), headrace.MaxPriority)
}

// guard is the highest aged priority against which a running task is protected.
type guard int8

const (
	unguarded guard = -1
	guarded   guard = 127 // against all
)

// guardOf is how the running task v is protected now.
func (c Config) guardOf(v *headrace.TaskView) guard {
	switch {
	case v.Preemptions > 0 && v.Running < c.MinRun:
		return guarded
	case v.Running < c.tenure(v):
		return guard(c.aged(v.Priority, v.Waited))
	}
	return unguarded
}

// protected reports whether the running task v must not be preempted yet by a
// task that stands in the queue with priority by.
func (c Config) protected(v *headrace.TaskView, by headrace.Priority) bool {
	return c.guardOf(v).against(by)
}

func (g guard) against(by headrace.Priority) bool { return guard(min(by, headrace.MaxPriority)) <= g }

// protection says in words why v is protected.
func (c Config) protection(v *headrace.TaskView) string {
	own := c.MinRun
	if v.Preemptions == 0 || v.Running >= c.MinRun {
		own = c.tenure(v)
	}
	return fmt.Sprintf("it has run %s of the %s that are its own since it came to run", short(v.Running.Seconds()), short(own.Seconds()))
}

// tenure is how long a task that was started in its turn keeps its place
// against those that its aged priority would not have yielded to. It grows with
// the work that kills have thrown away, so that even a task that is always
// killed ends some day.
func (c Config) tenure(v *headrace.TaskView) time.Duration {
	if c.Ageing <= 0 {
		return 0
	}
	return max(c.MinRun, v.Waited/10) + v.Progress.Lost
}

// waiting reports whether t is to be brought to run when there is room.
func waiting(t *headrace.TaskView) bool {
	if t.Held || t.Starting || t.Leaving {
		return false
	}
	return t.State == headrace.Pending || t.State == headrace.Suspended || t.State == headrace.Checkpointed
}

// line is the memory of the queue.
type line struct {
	lanes [2 * (headrace.MaxPriority + 1)][]*task
	all   []*task
}

// queue is the waiting tasks in the order in which they get what is free: aged
// priority, then what was begun, then submission; but of the tasks of a job that
// have not been begun those first whose input is resident. Of those that take turns
// (task.group) it is the places, not the order. It is valid until the next call.
func (d *decision) queue() []*task {
	lanes := &d.line.lanes
	for i := range lanes {
		lanes[i] = lanes[i][:0]
	}
	for _, t := range d.waiting {
		t.eff = d.c.aged(t.Priority, t.Waiting)
		lane := 2 * (headrace.MaxPriority - t.eff)
		if !begun(t.TaskView) {
			lane++
		}
		lanes[lane] = append(lanes[lane], t)
	}
	d.groups.forget()
	d.line.all = d.line.all[:0]
	for i, lane := range lanes {
		if i%2 == 1 {
			d.residentFirst(lane)
		}
		d.line.all = append(d.line.all, lane...)
	}
	for _, t := range d.line.all {
		t.class = d.classOf(t)
	}
	return d.line.all
}

// begun reports whether work would be lost if t never came back.
func begun(t *headrace.TaskView) bool { return t.State == headrace.Suspended || restorable(t) }

// restorable reports whether t comes back from a checkpoint.
func restorable(t *headrace.TaskView) bool {
	return t.Checkpoint != nil && (t.State == headrace.Pending || t.State == headrace.Checkpointed)
}
