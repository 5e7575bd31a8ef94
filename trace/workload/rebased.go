package workload

import (
	"math"
	"time"
)

// Rebased holds tasks whose Submit counts from any time, until the first submission is
// known.
type Rebased struct {
	// Most is how many tasks there may be, of whichever part of the trace.
	Most  int
	tasks []Task
}

// Task adds a task.
func (r *Rebased) Task(t Task) error {
	if len(r.tasks) >= r.Most {
		return TooManyHeld(r.Most)
	}
	r.tasks = append(r.tasks, t)
	return nil
}

// Pour gives all tasks to a sink, with times since the first submission.
func (r *Rebased) Pour(to Sink) error {
	first := time.Duration(math.MaxInt64)
	for i := range r.tasks {
		first = min(first, r.tasks[i].Submit)
	}
	for _, t := range r.tasks {
		t.Submit -= first
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// Noted is a number of things to be told of.
type Noted struct {
	N    int64
	Text string
}

// NoteSome adds a note for each of these that there are any of.
func (a *About) NoteSome(all ...Noted) {
	for _, n := range all {
		if n.N > 0 {
			a.Note("%d %s", n.N, n.Text)
		}
	}
}
