package sim

import (
	"math"

	"headrace/policy"
	"headrace/trace"
)

// Result is what became of a workload under one policy on one medium. Times are
// seconds, sizes bytes; core-seconds are seconds times CPUs held.
type Result struct {
	Workload string      `json:"workload"`
	Policy   policy.Name `json:"policy"`
	Medium   string      `json:"medium"`
	// UsesMedium: the medium makes a difference to this policy.
	UsesMedium bool   `json:"uses_medium"`
	Config     Config `json:"config"`

	Jobs  int `json:"jobs"`
	Tasks int `json:"tasks"`
	// Makespan is from the first submission to the last end.
	Makespan float64 `json:"makespan"`

	Work    Work          `json:"work"`
	Energy  Energy        `json:"energy"`
	IO      IO            `json:"io"`
	Counts  Counts        `json:"counts"`
	Bands   []Band        `json:"bands"`
	Outcome trace.Outcome `json:"outcome"`
	// Users are those whose tasks took longest for what they ran, where the trace says who
	// submitted.
	Users []User `json:"users,omitempty"`
	// Reading is nil when no task has an input.
	Reading *ReadingResult `json:"reading,omitempty"`

	// Load is the share of the CPUs that is held, over time, and Waiting how many
	// tasks wait: means over each Step of seconds, the last of which may be in part
	// after the end.
	Step    float64   `json:"step"`
	Load    []float64 `json:"load"`
	Waiting []float64 `json:"waiting"`
}

// Work is where the time of CPUs went, in core-seconds.
type Work struct {
	// Useful is what tasks needed: the same under every policy.
	Useful float64 `json:"useful"`
	// Killed was thrown away, Dump, Restore and PageIn passed standing still, Stop in
	// being stopped, killed and started.
	Killed  float64 `json:"killed"`
	Dump    float64 `json:"dump"`
	Restore float64 `json:"restore"`
	PageIn  float64 `json:"page_in"`
	Stop    float64 `json:"stop"`
	// Reading passed in reading inputs.
	Reading float64 `json:"reading"`
}

// Wasted returns all that was not useful, and not reading either.
func (w Work) Wasted() float64 { return w.Killed + w.Dump + w.Restore + w.PageIn + w.Stop }

// Used returns all time of CPUs that was held.
func (w Work) Used() float64 { return w.Useful + w.Wasted() + w.Reading }

// WasteShare returns the share of what was used that was wasted, 0 to 1.
func (w Work) WasteShare() float64 {
	if used := w.Used(); used > 0 {
		return w.Wasted() / used
	}
	return 0
}

// Energy is what the nodes drew from the first submission to the last end: the
// average utilisation of each, turned into watts, times the time
// (checkpoint-preemption, section 3.3.2).
type Energy struct {
	// Joules is all, Idle the part that would have been drawn without any work in the
	// same time.
	Joules float64 `json:"joules"`
	Idle   float64 `json:"idle"`
	// Utilisation is the mean of the nodes' average utilisations, 0 to 1.
	Utilisation float64 `json:"utilisation"`
}

// IO is what preemption moved.
type IO struct {
	Dumped   int64 `json:"dumped"`
	Restored int64 `json:"restored"`
	Moved    int64 `json:"moved"` // over the network
	PagedOut int64 `json:"paged_out"`
	PagedIn  int64 `json:"paged_in"`
	// StoreBusy is the share of the makespan in which the average store was busy,
	// StorePeak the most that checkpoints took on all nodes together.
	StoreBusy float64 `json:"store_busy"`
	StorePeak int64   `json:"store_peak"`
}

// Counts are how often things happened.
type Counts struct {
	Decisions int `json:"decisions"`
	Starts    int `json:"starts"`
	// Kills, Suspends and Checkpoints are those of tasks that have left: a checkpoint that was
	// ordered and called off is none.
	Kills       int `json:"kills"`
	Suspends    int `json:"suspends"`
	Checkpoints int `json:"checkpoints"`
	// Incremental are the checkpoints that built on another.
	Incremental int `json:"incremental"`
	// NoRoom are dumps and moves that were called off because the store was full by
	// then, Withdrawn dumps because the task had ended by then.
	NoRoom    int `json:"no_room"`
	Withdrawn int `json:"withdrawn"`
	Resumes   int `json:"resumes"`
	Restores  int `json:"restores"`
	// Remote are the restores on another node.
	Remote int `json:"remote"`
}

// Preemptions returns how many times a task had to leave.
func (c Counts) Preemptions() int { return c.Kills + c.Suspends + c.Checkpoints }

// Band is the jobs and tasks of a band of priorities: free, middle, production. A job is of the
// band of its first task.
type Band struct {
	Name  string `json:"name"`
	Jobs  int    `json:"jobs"`
	Tasks int    `json:"tasks"`
	// Response is that of jobs, from the submission of the first task to the end of the
	// last; TaskResponse that of tasks. Slowdown is TaskResponse over Run,
	// which counts as 10 s at least; no less than 1.
	Response     Spread `json:"response"`
	TaskResponse Spread `json:"task_response"`
	Slowdown     Spread `json:"slowdown"`
	// Wasted is in core-seconds.
	Wasted float64 `json:"wasted"`
	// Worst are the tasks that took longest, the longest first.
	Worst []Worst `json:"worst,omitempty"`
}

// Worst is a task that took long. Times are seconds.
type Worst struct {
	Job      string  `json:"job"`
	Task     int     `json:"task"`
	Priority uint8   `json:"priority"`
	Run      float64 `json:"run"`
	Response float64 `json:"response"`
	// Preemptions is how often it had to leave, Lost the running that was thrown away.
	Preemptions int     `json:"preemptions"`
	Lost        float64 `json:"lost"`
}

// Band returns the band of that name; without jobs when there is none.
func (r *Result) Band(name string) Band {
	for _, b := range r.Bands {
		if b.Name == name {
			return b
		}
	}
	return Band{Name: name}
}

// Spread is a distribution. At[i] is the value that i/(len(At)-1) of them do not
// exceed: its curve, from the least to the greatest.
type Spread struct {
	N    int       `json:"n"`
	Mean float64   `json:"mean"`
	At   []float64 `json:"at"`
}

// Quantile returns a value that the share q of them does not exceed, the least of At, or 0
// when there are none.
func (s Spread) Quantile(q float64) float64 {
	if len(s.At) == 0 {
		return 0
	}
	steps := float64(len(s.At) - 1)
	return s.At[int(math.Ceil(q*steps-1e-9))]
}
