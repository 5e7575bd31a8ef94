package policy

import (
	"fmt"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// ageing is how tasks rise by waiting, and how they keep what they have waited for.
type ageing struct {
	// step is how long a task waits for each step by which it rises; zero: none does.
	step time.Duration
	// minRun is how long a task that was preempted before runs until it may be again.
	minRun time.Duration
}

// aged is the priority that a task has in the queue after it has waited so long.
func (a ageing) aged(p headrace.Priority, waited time.Duration) headrace.Priority {
	p = min(p, headrace.MaxPriority)
	return min(p+headrace.Priority(min(a.steps(waited), time.Duration(headrace.MaxPriority))), headrace.MaxPriority)
}

// steps is how many whole steps a wait is long.
func (a ageing) steps(waited time.Duration) time.Duration {
	if a.step <= 0 {
		return 0
	}
	return max(0, waited) / a.step
}

// guardOf is how the running task v is protected now.
func (a ageing) guardOf(v *headrace.TaskView) guard {
	switch {
	case v.Preemptions > 0 && v.Running < a.minRun:
		return guarded
	case v.Running < a.tenure(v):
		return guard(a.aged(v.Priority, v.Waited))
	}
	return unguarded
}

// protection says in words why v is protected.
func (a ageing) protection(v *headrace.TaskView) string {
	own := a.minRun
	if v.Preemptions == 0 || v.Running >= a.minRun {
		own = a.tenure(v)
	}
	return fmt.Sprintf("it has run %s of the %s that are its own since it came to run", words.Short(v.Running.Seconds()), words.Short(own.Seconds()))
}

// tenure is how long a task that was started in its turn keeps its place
// against those that its aged priority would not have yielded to. It grows with
// the work that kills have thrown away, so that even a task that is always
// killed ends some day.
func (a ageing) tenure(v *headrace.TaskView) time.Duration {
	if a.step <= 0 {
		return 0
	}
	return max(a.minRun, v.Waited/10) + v.Progress.Lost
}
