package trace

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// sink takes what a reader finds, task by task. Every call of job and file is for a
// new one, and gives the number that tasks refer to it by.
type sink interface {
	job(name string) int32
	file(name string) int32
	// size says how large a file is at least.
	size(file int32, bytes int64)
	task(t Task) error
}

// about is what a reader knows in the end.
type about struct {
	Name     string
	Cluster  Cluster
	Recorded bool
	Outcome  *Outcome
	Notes    []string
	// JobNames, if not nil, replace the names that the sink was given.
	JobNames func(job int32) string
}

func (a *about) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// window passes on the tasks that are submitted in a window of time, with times that
// count from its beginning.
type window struct {
	to           sink
	from, length time.Duration
}

func (w *window) job(name string) int32        { return w.to.job(name) }
func (w *window) file(name string) int32       { return w.to.file(name) }
func (w *window) size(file int32, bytes int64) { w.to.size(file, bytes) }

func (w *window) task(t Task) error {
	if !inWindow(t.Submit, w.from, w.length) {
		return nil
	}
	t.Submit -= w.from
	return w.to.task(t)
}

// inWindow: at is at or after from, and before from+length if length is not 0.
func inWindow(at, from, length time.Duration) bool {
	return at >= from && (length == 0 || at-from < length)
}

// collector is a sink that makes a workload.
type collector struct {
	most   int
	n      int
	chunks [][]Task
	jobs   []string
	files  []File
}

// collectChunk is how many tasks are allocated at once: nothing is copied while
// they become more.
const collectChunk = 1 << 15

func (c *collector) job(name string) int32 {
	c.jobs = append(c.jobs, name)
	return int32(len(c.jobs) - 1)
}

func (c *collector) file(name string) int32 {
	c.files = append(c.files, File{Name: name})
	return int32(len(c.files))
}

func (c *collector) size(file int32, bytes int64) {
	f := &c.files[file-1]
	f.Bytes = max(f.Bytes, bytes)
}

func (c *collector) task(t Task) error {
	if c.n == c.most {
		return tooManyTasks(c.most)
	}
	c.n++
	last := len(c.chunks) - 1
	if last < 0 || len(c.chunks[last]) == collectChunk {
		size := collectChunk
		if last < 0 {
			size = min(size, 1024)
		}
		c.chunks = append(c.chunks, make([]Task, 0, size))
		last++
	}
	c.chunks[last] = append(c.chunks[last], t)
	return nil
}

func tooManyTasks(most int) error {
	return fmt.Errorf("trace: there are more than %d tasks: read a part of the trace (From, For), or raise MaxTasks if there is memory, %d bytes for each", most, 2*taskBytes)
}

// taskBytes is the size of a Task.
const taskBytes = 104

// workload returns all that was collected, in order.
func (c *collector) workload(a about) *Workload {
	tasks := make([]Task, 0, c.n)
	for i, chunk := range c.chunks {
		tasks = append(tasks, chunk...)
		c.chunks[i] = nil
	}
	if a.JobNames != nil {
		for i := range c.jobs {
			c.jobs[i] = a.JobNames(int32(i))
		}
	}
	w := &Workload{Name: a.Name, Jobs: c.jobs, Files: c.files, Tasks: tasks, Cluster: a.Cluster, Recorded: a.Recorded, Outcome: a.Outcome, Notes: a.Notes}
	w.arrange()
	return w
}

// arrange puts tasks in order, if they are not, and numbers jobs and files by their
// first task. Those without tasks are dropped.
func (w *Workload) arrange() {
	if !w.ordered() {
		slices.SortStableFunc(w.Tasks, func(a, b Task) int {
			return cmp.Or(cmp.Compare(a.Submit, b.Submit), cmp.Compare(a.Job, b.Job), cmp.Compare(a.Index, b.Index))
		})
	}
	jobs, files := newNumbers(len(w.Jobs)), newNumbers(len(w.Files))
	for i := range w.Tasks {
		t := &w.Tasks[i]
		t.Job = jobs.of(t.Job)
		if t.File != 0 {
			t.File = files.of(t.File-1) + 1
		}
	}
	w.Jobs, w.Files = inOrder(jobs, w.Jobs), inOrder(files, w.Files)
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

var errNoTasks = errors.New("trace: no tasks: the trace, or its window, is empty")
