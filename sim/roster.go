package sim

import (
	"slices"
	"time"

	"headrace"
	"headrace/trace"
)

// roster is the tasks that were submitted, have not ended, and are shown to the
// scheduler, in order of submission.
type roster struct {
	// view is what the scheduler sees; order its tasks, nil for those that have ended.
	view    headrace.View
	order   []*task
	gone    int // how many of order have ended
	byID    map[headrace.TaskID]*task
	slots   []*task // by their names in events
	free    []int32
	holds   string // why tasks that need what is counted cannot be checkpointed
	waiting int    // how many tasks wait, also of those that are not here yet
	// Of merge.
	spare      []headrace.TaskView
	spareOrder []*task
}

// add enters a task of the number seq that came into the queue at a time, and waits.
func (r *roster) add(spec *trace.Task, seq int32, job headrace.JobID, id headrace.TaskID, at time.Duration) *task {
	if len(r.view.Tasks) == cap(r.view.Tasks) {
		r.pack(len(r.order))
	}
	t := r.slot()
	t.spec, t.seq, t.band, t.queued, t.since, t.left = spec, seq, band(spec.Priority), at, at, at
	t.peak, t.grows = spec.Memory, time.Duration(min(float64(spec.Grow), mostTime.Seconds())*float64(time.Second))
	t.at = len(r.order)
	r.order = append(r.order, t)
	r.view.Tasks = append(r.view.Tasks, headrace.TaskView{
		ID: id, Job: job, Owner: headrace.Owner{User: uint32(spec.User)},
		Priority: spec.Priority, CPUs: float64(spec.CPUs), MemoryRequest: spec.Memory,
		Progress: headrace.Progress{Share: -1},
	})
	t.v = &r.view.Tasks[t.at]
	if n := spec.Need; n > 0 && len(r.view.Needs) > 0 && r.view.Needs[n-1] != nil {
		t.v.Need, t.v.NoCheckpoint = n, r.holds
	}
	r.byID[id] = t
	return t
}

// needOf returns what a need is of each counted resource; nil for nothing.
func (r *roster) needOf(need int32) []float64 {
	if need == 0 || len(r.view.Needs) == 0 {
		return nil
	}
	return r.view.Needs[need-1]
}

// merge puts the tasks from an index on, which came to be shown later than they were
// submitted, among the others.
func (r *roster) merge(from int) {
	late := r.order[from:]
	slices.SortFunc(late, func(a, b *task) int { return int(a.seq - b.seq) })
	old := r.order[:from]
	order, tasks := r.spareOrder[:0], r.spare[:0]
	if cap(tasks) < cap(r.view.Tasks) { // r.view.Tasks must keep its room: see add
		tasks = make([]headrace.TaskView, 0, cap(r.view.Tasks))
	}
	put := func(t *task) {
		tasks = append(tasks, *t.v)
		t.at = len(order)
		order = append(order, t)
	}
	for _, t := range old {
		for t != nil && len(late) > 0 && late[0].seq < t.seq {
			put(late[0])
			late = late[1:]
		}
		if t != nil {
			put(t)
		}
	}
	for _, t := range late {
		put(t)
	}
	for i, t := range order {
		t.v = &tasks[i]
	}
	r.spareOrder, r.spare = r.order, r.view.Tasks
	r.order, r.view.Tasks, r.gone = order, tasks, 0
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

// lapse takes the right to room from those who have not come to run, where nobody leaves or is
// written to swap any more: what was made for them is not there, or they do not take it. It is
// called after each decision, as solo does, and reports whether others may have that room now.
func (r *roster) lapse(nodes []node, byNode map[headrace.NodeID]*node) (some bool) {
	for i := range nodes {
		nodes[i].leaving = len(nodes[i].pager.queue) > 0
	}
	var entitled []*task
	for _, t := range r.order {
		switch {
		case t == nil:
		case t.v.Leaving:
			t.node.leaving = true
		case t.v.Room != "":
			entitled = append(entitled, t)
		}
	}
	for _, t := range entitled {
		if !t.expects(byNode) {
			t.v.Room, some = "", true
		}
	}
	return some
}

// expects reports whether somebody yet leaves where room is made for t. A gang keeps all of its
// room until nobody leaves for any of it.
func (t *task) expects(byNode map[headrace.NodeID]*node) bool {
	if t.gang == nil {
		return byNode[t.v.Room].leaving
	}
	return slices.ContainsFunc(t.gang.members, func(m *task) bool { return m.v.Room != "" && byNode[m.v.Room].leaving })
}
