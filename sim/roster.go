package sim

import (
	"time"

	"headrace"
	"headrace/trace"
)

// roster is the tasks that were submitted and have not ended.
type roster struct {
	// view is what the scheduler sees; order its tasks, nil for those that have ended.
	view    headrace.View
	order   []*task
	gone    int // how many of order have ended
	byID    map[headrace.TaskID]*task
	slots   []*task // by their names in events
	free    []int32
	waiting int // how many tasks wait
}

// add enters a task that is submitted now, and waits.
func (r *roster) add(spec *trace.Task, job headrace.JobID, id headrace.TaskID, now time.Duration) *task {
	if len(r.view.Tasks) == cap(r.view.Tasks) {
		r.pack(len(r.order))
	}
	t := r.slot()
	t.spec, t.band, t.since, t.left = spec, band(spec.Priority), now, now
	t.peak, t.grows = spec.Memory, time.Duration(float64(spec.Grow)*float64(time.Second))
	t.at = len(r.order)
	r.order = append(r.order, t)
	r.view.Tasks = append(r.view.Tasks, headrace.TaskView{
		ID: id, Job: job,
		Priority: spec.Priority, CPUs: float64(spec.CPUs), MemoryRequest: spec.Memory,
		Progress: headrace.Progress{Share: -1},
	})
	t.v = &r.view.Tasks[t.at]
	r.byID[id] = t
	r.waiting++
	return t
}

// slot returns an empty task with a slot of its own.
func (r *roster) slot() *task {
	if n := len(r.free); n > 0 {
		t := r.slots[r.free[n-1]]
		r.free = r.free[:n-1]
		*t = task{slot: t.slot, gen: t.gen}
		return t
	}
	t := &task{slot: int32(len(r.slots))}
	r.slots = append(r.slots, t)
	return t
}

// forget takes t, which has ended, out of the view.
func (r *roster) forget(t *task) {
	delete(r.byID, t.v.ID)
	t.v.State = headrace.Done
	r.order[t.at] = nil
	r.gone++
	t.gen++
	r.free = append(r.free, t.slot)
	if r.gone > 256 && r.gone > len(r.order)/4 {
		r.pack(0)
	}
}

// pack closes the gaps that ended tasks have left, and makes room for more.
func (r *roster) pack(more int) {
	order := r.order[:0]
	tasks := r.view.Tasks[:0]
	if more > 0 {
		order = make([]*task, 0, 1024+len(r.order)+more)
		tasks = make([]headrace.TaskView, 0, cap(order))
	}
	for _, t := range r.order {
		if t != nil {
			order, tasks = append(order, t), append(tasks, *t.v)
			t.at = len(order) - 1
			t.v = &tasks[t.at]
		}
	}
	if more == 0 {
		clear(r.order[len(order):])
		clear(r.view.Tasks[len(tasks):])
	}
	r.order, r.view.Tasks = order, tasks
	r.gone = 0
}

// refresh brings what time changes up to date in the view.
func (r *roster) refresh(now time.Duration, knowShare bool) {
	for _, t := range r.order {
		if t != nil {
			t.refresh(now, knowShare)
		}
	}
}
