package workload

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Sink takes what a reader finds, task by task, and gives the numbers that tasks refer to
// it by. Every call of Job, File, Stage and Gang is for a new one; for an equal name or
// need the number is the same.
type Sink interface {
	Job(name string) int32
	File(name string) int32
	// Size says how large a file is at least.
	Size(file int32, bytes int64)
	// User returns 0 for nobody.
	User(name string) int32
	// Resource returns the place of a counted resource in what Need is given, which may be
	// shorter than there are resources. Need returns 0 for nothing.
	Resource(name string) int
	Need(amounts []float32) int32
	// After says that a stage waits for another one: Gather refuses circles.
	Stage() int32
	After(stage, before int32)
	Gang() int32
	Task(t Task) error
}

// About is what a reader knows in the end.
type About struct {
	Name     string
	Cluster  Cluster
	Recorded bool
	Outcome  *Outcome
	Notes    []string
}

// Note adds a note.
func (a *About) Note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// Part says which part of a trace is wanted.
type Part struct {
	// From and For are the window: tasks submitted at From or later, and before From+For if
	// For is not 0. Readers may leave others out, or leave that to the sink.
	From, For time.Duration
	// Tasks is how many there may be at most, and how many a reader holds at most if it cannot
	// do without.
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
	return c.Workload(a)
}

// Window returns a sink that passes on what is submitted in the window.
func (p Part) Window(to Sink) Sink { return &window{Sink: to, from: p.From, length: p.For} }

// window passes on the tasks that are submitted in a window of time, with times that
// count from its beginning.
type window struct {
	Sink
	from, length time.Duration
}

func (w *window) Task(t Task) error {
	if t.Submit < 0 || t.Run < 0 || t.Lost < 0 || t.Run > math.MaxInt64-t.Submit {
		return fmt.Errorf("trace: task %d of a job would be submitted at %v, run for %v and have lost %v: times that cannot be", t.Index, t.Submit, t.Run, t.Lost)
	}
	if !InWindow(t.Submit, w.from, w.length) {
		return nil
	}
	t.Submit -= w.from
	return w.Sink.Task(t)
}

// InWindow: at is at or after from, and before from+length if length is not 0.
func InWindow(at, from, length time.Duration) bool {
	return at >= from && (length == 0 || at-from < length)
}

// Collector is a sink that makes a workload.
type Collector struct {
	// Most is how many tasks it takes.
	Most int
	Relations
	n      int
	chunks [][]Task
	jobs   []string
	files  []File
}

// collectChunk is how many tasks are allocated at once: nothing is copied while
// they become more.
const collectChunk = 1 << 15

func (c *Collector) Job(name string) int32 {
	c.jobs = append(c.jobs, name)
	return int32(len(c.jobs) - 1)
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

// TooManyTasks returns the error for it.
func TooManyTasks(most int) error {
	return fmt.Errorf("trace: there are more than %d tasks: read a part of the trace (From, For), or raise MaxTasks if there is memory, %d bytes for each", most, 2*TaskBytes)
}

// TooManyHeld returns the error of a reader that has to hold all of a trace, whatever part of
// it is wanted.
func TooManyHeld(most int) error {
	return fmt.Errorf("trace: there are more than %d tasks, and all are held until it is known which part of the trace they are in: raise MaxTasks if there is memory, some %d bytes for each", most, TaskBytes)
}

// TaskBytes is the size of a Task.
const TaskBytes = 104

// ErrNoTasks is that of Gather where there is nothing.
var ErrNoTasks = errors.New("trace: no tasks: the trace, or its window, is empty")

// DefaultMaxTasks takes about 1 GB when a workload is held, and for a moment twice
// as much.
const DefaultMaxTasks = 10_000_000

// MaxJobTasks is how many tasks one job of SWIM or YARN may become.
const MaxJobTasks = 1_000_000
