package queue

import (
	"fmt"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/words"
)

// Ageing is how tasks rise by waiting, and how they keep what they have waited for:
// within their band of priorities, so that no wait passes what is urgent by its nature.
type Ageing struct {
	// Step is how long a task waits for each step by which it rises; zero: none does.
	Step time.Duration
	// MinRun is how long a task that was preempted before runs until it may be again.
	MinRun time.Duration
}

// Aged returns the priority that a task has in the queue after it has waited so long.
func (a Ageing) Aged(p headrace.Priority, waited time.Duration) headrace.Priority {
	p = min(p, headrace.MaxPriority)
	return p + headrace.Priority(min(a.steps(waited), time.Duration(p.Top()-p)))
}

// InQueue returns the priority that a waiting task has in the queue, and whether it stands
// there behind all others that have it. One that is more than a share, and would
// fall out of its band, stays at the end of that: no wait of who is in the one below passes it.
func (a Ageing) InQueue(v *headrace.TaskView) (p headrace.Priority, behind bool) {
	if own := v.Priority + 1; v.Beyond && own.Top() != v.Priority.Top() {
		return own, true
	}
	return a.Aged(v.Priority, v.Waiting), false
}

// steps says how many whole steps a wait is long.
func (a Ageing) steps(waited time.Duration) time.Duration {
	if a.Step <= 0 {
		return 0
	}
	return max(0, waited) / a.Step
}

// GuardOf says how the running task v is protected now.
func (a Ageing) GuardOf(v *headrace.TaskView) books.Guard {
	switch {
	case v.Preemptions > 0 && v.Running < a.MinRun:
		return books.Guarded
	case v.Running < a.tenure(v):
		return books.Guard(a.Aged(v.Priority, v.Waited))
	}
	return books.Unguarded
}

// Protection says in words why v is protected.
func (a Ageing) Protection(v *headrace.TaskView) string {
	own := a.MinRun
	if v.Preemptions == 0 || v.Running >= a.MinRun {
		own = a.tenure(v)
	}
	return fmt.Sprintf("it has run %s of the %s that are its own since it came to run", words.Short(v.Running.Seconds()), words.Short(own.Seconds()))
}

// tenure says how long a task that was started in its turn keeps its place
// against those that its aged priority would not have yielded to. It grows with
// the work that kills have thrown away, so that even a task that is always
// killed ends some day.
func (a Ageing) tenure(v *headrace.TaskView) time.Duration {
	if a.Step <= 0 {
		return 0
	}
	return max(a.MinRun, v.Waited/10) + v.Progress.Lost
}
