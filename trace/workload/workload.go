package workload

import (
	"math"
	"time"

	"headrace"
)

// Workload is the tasks that a trace asks a cluster to run: what was wanted, not
// what became of it there, which is only kept to be compared with.
type Workload struct {
	// Name is for people: where it comes from.
	Name string
	// Jobs are the names of the jobs, Files the files that tasks read. Tasks refer
	// to both by index.
	Jobs  []string
	Files []File
	// Users are who submitted, as far as the trace says so.
	Users []string
	// Resources are the names of what tasks ask for beside processors and memory, counted,
	// such as gpu; Needs are the different needs, each as many numbers as there are
	// Resources.
	Resources []string
	Needs     [][]float32
	// Stages are the groups of tasks that others wait for.
	Stages []Stage
	// Tasks are in order of submission, those of one job that were submitted at the
	// same time in order of Index.
	Tasks []Task
	// Cluster is where it ran, or is meant to; zero when that is not known.
	Cluster Cluster
	// Recorded: the trace says what became of its tasks, so that Preempted and Lost
	// mean something.
	Recorded bool
	// Outcome is what the trace says beyond that, such as when tasks had to leave; nil
	// when tasks say it all.
	Outcome *Outcome
	// Notes say what of the trace was left out or had to be guessed.
	Notes []string
}

// Cluster is a number of nodes that are all alike.
type Cluster struct {
	Nodes  int     `json:"nodes"`
	CPUs   float64 `json:"cpus"`   // of each
	Memory int64   `json:"memory"` // of each, in bytes
}

// File is a file that tasks read.
type File struct {
	Name string
	// Bytes is its size.
	Bytes int64
}

// Task is one task of a workload. There may be millions: it is kept small.
type Task struct {
	// Job is an index into Workload.Jobs, Index the task's number in its job.
	Job, Index int32
	// File is one more than an index into Workload.Files, 0 for a task that has no
	// input; it reads Input bytes from Offset on.
	File          int32
	Offset, Input int64
	// Submit is when it was submitted, since the start of the trace. Run is how long
	// it runs from its start to its end when nothing disturbs it, without the time
	// that it takes to read Input.
	Submit, Run time.Duration
	// Priority is 0 to headrace.MaxPriority; Class how sensitive to latency it is, 0
	// to 3.
	Priority headrace.Priority
	Class    uint8
	// CPUs is what it asks for and uses.
	CPUs float32
	// Grow is how many seconds of running it takes until it holds all of its memory,
	// growing evenly; 0: at once.
	Grow float32
	// Dirty is how many bytes of its memory it changes in a second.
	Dirty float32
	// Memory is the bytes that it asks for, and in the end holds.
	Memory int64
	// Preempted is how many times it had to leave for a more urgent task, Lost the
	// running time thrown away by that, as recorded (Workload.Recorded).
	Preempted int32
	Lost      time.Duration
	// User, Need and Stage are each one more than an index into what the Workload has of
	// them, 0 for none.
	User, Need, Stage int32
	// Gang is the same number, not 0, for tasks that run only together, such as the ranks
	// of an MPI job.
	Gang int32
}

// MaxTime is the latest time, since 1970 or since its beginning, that readers take from a trace, and the longest: two
// of them together are a time.Duration still. It is in the year 2116.
const MaxTime = time.Duration(math.MaxInt64 / 2)

// Stage is a group of tasks of a job. They can begin when all tasks of the stages After
// have ended: indexes into Workload.Stages, each lower than its own.
type Stage struct {
	After []int32
}
