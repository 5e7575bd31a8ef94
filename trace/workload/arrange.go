package workload

import (
	"cmp"
	"slices"
)

// Workload returns all that was collected, in order.
func (c *Collector) Workload(a About) (*Workload, error) {
	tasks := make([]Task, 0, c.n)
	for i, chunk := range c.chunks {
		tasks = append(tasks, chunk...)
		c.chunks[i] = nil
	}
	w := &Workload{Name: a.Name, Jobs: c.jobs, Files: c.files, Users: c.Users, Resources: c.Resources, Needs: c.Needs, Stages: c.Stages,
		Tasks: tasks, Cluster: a.Cluster, Recorded: a.Recorded, Outcome: a.Outcome, Notes: a.Notes}
	return w, w.Arrange()
}

// Arrange puts tasks in order, if they are not, and numbers what they refer to by their
// first task, stages so that each comes after those it waits for. What no task refers to
// is dropped: a stage without tasks has ended. Stages that wait for each other in a circle
// are an error.
func (w *Workload) Arrange() error {
	if !w.ordered() {
		slices.SortStableFunc(w.Tasks, func(a, b Task) int {
			return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
		})
	}
	jobs, files, users, needs := newNumbers(len(w.Jobs)), newNumbers(len(w.Files)), newNumbers(len(w.Users)), newNumbers(len(w.Needs))
	gangs := map[int32]int32{}
	for i := range w.Tasks {
		t := &w.Tasks[i]
		t.Job = jobs.of(t.Job)
		t.File, t.User, t.Need = files.ref(t.File), users.ref(t.User), needs.ref(t.Need)
		if t.Gang != 0 {
			if gangs[t.Gang] == 0 {
				gangs[t.Gang] = int32(len(gangs) + 1)
			}
			t.Gang = gangs[t.Gang]
		}
	}
	w.Jobs, w.Files, w.Users, w.Needs = inOrder(jobs, w.Jobs), inOrder(files, w.Files), inOrder(users, w.Users), inOrder(needs, w.Needs)
	w.usedResources()
	return w.orderStages()
}

// usedResources drops those that no task needs, and gives all needs as many numbers as
// there are resources.
func (w *Workload) usedResources() {
	used := make([]bool, len(w.Resources))
	for _, need := range w.Needs {
		for r, n := range need {
			used[r] = used[r] || n > 0
		}
	}
	for i, need := range w.Needs {
		full := make([]float32, 0, len(used))
		for r, u := range used {
			switch {
			case u && r < len(need):
				full = append(full, need[r])
			case u:
				full = append(full, 0)
			}
		}
		w.Needs[i] = full
	}
	var names []string
	for r, u := range used {
		if u {
			names = append(names, w.Resources[r])
		}
	}
	w.Resources = names
}

// ordered reports whether tasks are in the order that Workload promises.
func (w *Workload) ordered() bool {
	last := make([]int32, len(w.Jobs)) // one more than the task of a job before
	for i := range w.Tasks {
		t := &w.Tasks[i]
		if i > 0 && w.Tasks[i-1].Submit > t.Submit {
			return false
		}
		if l := last[t.Job]; l > 0 {
			if before := &w.Tasks[l-1]; before.Submit == t.Submit && before.Index > t.Index {
				return false
			}
		}
		last[t.Job] = int32(i + 1)
	}
	return true
}

// numbers gives new numbers in the order in which old ones are asked for.
type numbers struct {
	new  []int32 // one more than the new number of each old one
	next int32
}

func newNumbers(n int) *numbers { return &numbers{new: make([]int32, n)} }

// ref renumbers what is one more than a number, or 0 for none.
func (n *numbers) ref(old int32) int32 {
	if old == 0 {
		return 0
	}
	return n.of(old-1) + 1
}

func (n *numbers) of(old int32) int32 {
	if n.new[old] == 0 {
		n.next++
		n.new[old] = n.next
	}
	return n.new[old] - 1
}

// inOrder returns a list by the new numbers, without what has none.
func inOrder[T any](n *numbers, list []T) []T {
	if n.next == 0 {
		return nil
	}
	ordered := make([]T, n.next)
	for old, v := range list {
		if i := n.new[old]; i > 0 {
			ordered[i-1] = v
		}
	}
	return ordered
}
