package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Sink takes what a reader finds, task by task. Every call of job and file is for a
// new one, and gives the number that tasks refer to it by.
type Sink interface {
	Job(name string) int32
	File(name string) int32
	// Size says how large a file is at least.
	Size(file int32, bytes int64)
	Task(t Task) error
}

// About is what a reader knows in the end.
type About struct {
	Name     string
	Cluster  Cluster
	Recorded bool
	Outcome  *Outcome
	Notes    []string
	// JobNames, if not nil, replace the names that the sink was given.
	JobNames func(job int32) string
}

func (a *About) Note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// Part says which part of a trace is wanted.
type Part struct {
	// From and For are the window: tasks submitted at From or later, and before From+For if
	// For is not 0. Readers may leave others out, or leave that to the sink.
	From, For time.Duration
	// Tasks is how many there may be at most.
	Tasks int
	// Names: the names of jobs matter.
	Names bool
}

// Gather returns the workload that read gives to a sink: the part of it that is wanted.
func Gather(part Part, read func(to Sink) (About, error)) (*Workload, error) {
	c := &Collector{Most: part.Tasks}
	a, err := read(part.Window(c))
	if err != nil {
		return nil, err
	}
	if c.n == 0 {
		return nil, ErrNoTasks
	}
	return c.Workload(a), nil
}

// Window returns a sink that passes on what is submitted in the window.
func (p Part) Window(to Sink) Sink { return &window{to: to, from: p.From, length: p.For} }

// window passes on the tasks that are submitted in a window of time, with times that
// count from its beginning.
type window struct {
	to           Sink
	from, length time.Duration
}

func (w *window) Job(name string) int32        { return w.to.Job(name) }
func (w *window) File(name string) int32       { return w.to.File(name) }
func (w *window) Size(file int32, bytes int64) { w.to.Size(file, bytes) }

func (w *window) Task(t Task) error {
	if !InWindow(t.Submit, w.from, w.length) {
		return nil
	}
	t.Submit -= w.from
	return w.to.Task(t)
}

// InWindow: at is at or after from, and before from+length if length is not 0.
func InWindow(at, from, length time.Duration) bool {
	return at >= from && (length == 0 || at-from < length)
}

// Collector is a sink that makes a workload.
type Collector struct {
	Most   int
	n      int
	chunks [][]Task
	Jobs   []string
	files  []File
}

// collectChunk is how many tasks are allocated at once: nothing is copied while
// they become more.
const collectChunk = 1 << 15

func (c *Collector) Job(name string) int32 {
	c.Jobs = append(c.Jobs, name)
	return int32(len(c.Jobs) - 1)
}

func (c *Collector) File(name string) int32 {
	c.files = append(c.files, File{Name: name})
	return int32(len(c.files))
}

func (c *Collector) Size(file int32, bytes int64) {
	f := &c.files[file-1]
	f.Bytes = max(f.Bytes, bytes)
}

func (c *Collector) Task(t Task) error {
	if c.n == c.Most {
		return TooManyTasks(c.Most)
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

func TooManyTasks(most int) error {
	return fmt.Errorf("trace: there are more than %d tasks: read a part of the trace (From, For), or raise MaxTasks if there is memory, %d bytes for each", most, 2*TaskBytes)
}

// TaskBytes is the size of a Task.
const TaskBytes = 104

// Workload returns all that was collected, in order.
func (c *Collector) Workload(a About) *Workload {
	tasks := make([]Task, 0, c.n)
	for i, chunk := range c.chunks {
		tasks = append(tasks, chunk...)
		c.chunks[i] = nil
	}
	if a.JobNames != nil {
		for i := range c.Jobs {
			c.Jobs[i] = a.JobNames(int32(i))
		}
	}
	w := &Workload{Name: a.Name, Jobs: c.Jobs, Files: c.files, Tasks: tasks, Cluster: a.Cluster, Recorded: a.Recorded, Outcome: a.Outcome, Notes: a.Notes}
	w.Arrange()
	return w
}

// Arrange puts tasks in order, if they are not, and numbers jobs and files by their
// first task. Those without tasks are dropped.
func (w *Workload) Arrange() {
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

var ErrNoTasks = errors.New("trace: no tasks: the trace, or its window, is empty")

// DefaultMaxTasks takes about 1 GB when a workload is held, and for a moment twice
// as much.
const DefaultMaxTasks = 10_000_000

// MaxJobTasks is how many tasks one job of SWIM or YARN may become.
const MaxJobTasks = 1_000_000
