package sim

import (
	"fmt"
	"time"

	"headrace/trace"
)

// stages holds back tasks that come after others of their job: a task counts as submitted
// when all of those have ended.
type stages struct {
	// left is how many tasks of each stage have not ended, before how many of the stages
	// that it comes after have not, and next the stages that come after it.
	left, before []int32
	next         [][]int32
	// held are the tasks of each stage that were handed in and wait for others; tasks is
	// how many.
	held  [][]int32
	tasks int
	// order and at are the place in the queue of each task, and when it came there; tasks
	// that wait for nobody may come before it that were handed in later. nil where all come
	// when they are submitted.
	order []int32
	at    []time.Duration
	seen  int32
}

func newStages(w *trace.Workload) *stages {
	n := len(w.Stages)
	if n == 0 && !spreadGangs(w) {
		return &stages{}
	}
	s := &stages{
		left: make([]int32, n), before: make([]int32, n), next: make([][]int32, n), held: make([][]int32, n),
		order: make([]int32, len(w.Tasks)), at: make([]time.Duration, len(w.Tasks)),
	}
	for i := range w.Tasks {
		if k := w.Tasks[i].Stage; k > 0 {
			s.left[k-1]++
		}
	}
	for i := range w.Stages {
		for _, k := range w.Stages[i].After {
			s.next[k] = append(s.next[k], int32(i))
			s.before[i]++
		}
	}
	return s
}

// spreadGangs reports whether tasks of one gang are submitted at different times: they come
// into the queue together.
func spreadGangs(w *trace.Workload) bool {
	first := map[int32]time.Duration{}
	for i := range w.Tasks {
		if t := &w.Tasks[i]; t.Gang != 0 {
			if at, ok := first[t.Gang]; ok && at != t.Submit {
				return true
			}
			first[t.Gang] = t.Submit
		}
	}
	return false
}

// holds reports whether task i, of spec, is to wait for others, and keeps it then.
func (s *stages) holds(i int32, spec *trace.Task) bool {
	k := spec.Stage - 1
	if k < 0 || s.before[k] == 0 {
		return false
	}
	s.held[k] = append(s.held[k], i)
	s.tasks++
	return true
}

// enter notes that task i enters the queue.
func (s *stages) enter(i int32, now time.Duration) {
	if s.order != nil {
		s.order[i], s.at[i] = s.seen, now
		s.seen++
	}
}

// place returns the place in the queue of task i, and when it came there.
func (s *stages) place(i int32, spec *trace.Task) (int32, time.Duration) {
	if s.order == nil {
		return i, spec.Submit
	}
	return s.order[i], s.at[i]
}

// ended notes that a task has ended, and calls submit for those that waited for it.
func (s *stages) ended(spec *trace.Task, submit func(i int32)) {
	k := spec.Stage - 1
	if k < 0 {
		return
	}
	if s.left[k]--; s.left[k] > 0 {
		return
	}
	for _, n := range s.next[k] {
		if s.before[n]--; s.before[n] > 0 {
			continue
		}
		for _, i := range s.held[n] {
			s.tasks--
			submit(i)
		}
		s.held[n] = nil
	}
}

// verify checks that t did not come before those that it waits for had ended.
func (s *stages) verify(t *task, w *trace.Workload) error {
	if k := t.spec.Stage - 1; k >= 0 {
		for _, a := range w.Stages[k].After {
			if s.left[a] > 0 {
				return fmt.Errorf("%s is here, and %d tasks that it waits for have not ended", t.v.ID, s.left[a])
			}
		}
	}
	return nil
}
