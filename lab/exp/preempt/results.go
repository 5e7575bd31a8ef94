package preempt

import (
	"encoding/json"

	"headrace/lab/rig"
	"headrace/lab/trial"
	"headrace/report"
)

// Results is everything that `bench preempt` has measured. Times are seconds, sizes
// bytes.
type Results struct {
	trial.Circumstances
	Setups []Setup `json:"setups"`
	Runs   []Run   `json:"runs,omitempty"`
	Dumps  []Dump  `json:"dumps,omitempty"`
}

func (r *Results) Any() bool { return len(r.Runs)+len(r.Dumps) > 0 }

// UnmarshalJSON reads files of programs, too, that had one experiment only, which they
// do not name, and no list of failures.
func (r *Results) UnmarshalJSON(text []byte) error {
	type plain Results
	r.Experiment = experimentName
	if err := json.Unmarshal(text, (*plain)(r)); err != nil {
		return err
	}
	if len(r.Failures) > 0 {
		return nil
	}
	for _, x := range r.Runs {
		if x.Failure != "" {
			r.Failed("(%s) repeat %d, %s at %s: %s", x.Experiment, x.Repeat+1, x.Policy, pointName(x.Experiment, x.Point), x.Failure)
		}
	}
	for _, x := range r.Dumps {
		if x.Failure != "" {
			r.Failed("(d) repeat %d, %s pages at %s: %s", x.Repeat+1, x.Pattern, x.Store, x.Failure)
		}
	}
	return nil
}

// The experiments as they are named in Results. The letters are those of
// Experiments; two of them have two parts.
const (
	ExpLight     = "a"
	expDirty     = "b3"
	expFootprint = "b4"
	expStorage   = "c"
	expRoomy     = "c2"
	expSecond    = "d"
)

// Setup is what an experiment was run with.
type Setup struct {
	Experiment string `json:"experiment"`
	// Low and Urgent are how long the tasks take alone, outside the daemon.
	Low    float64 `json:"low,omitempty"`
	Urgent float64 `json:"urgent,omitempty"`
	// LowBytes and UrgentBytes are their memory.
	LowBytes    int64 `json:"low_bytes,omitempty"`
	UrgentBytes int64 `json:"urgent_bytes,omitempty"`
	// Limit is the memory budget of the daemon; Enforced when a cgroup holds the
	// tasks to it. Swap is the swap file that was added.
	Limit    int64 `json:"limit,omitempty"`
	Enforced bool  `json:"enforced,omitempty"`
	Swap     int64 `json:"swap,omitempty"`
	// SwapOut and SwapIn are the bandwidths of paging that a daemon has measured.
	SwapOut float64         `json:"swap_out,omitempty"`
	SwapIn  float64         `json:"swap_in,omitempty"`
	Stores  []rig.StoreFact `json:"stores,omitempty"`
}

// Point is where on its axes a run lies. What an experiment does not vary is
// zero.
type Point struct {
	// Share of the low-priority task that is done when the urgent one arrives.
	Share float64 `json:"share,omitempty"`
	// UrgentBytes is the memory of the urgent task.
	UrgentBytes int64  `json:"urgent_bytes,omitempty"`
	Store       string `json:"store,omitempty"`
}

// Run is one low-priority task and one urgent task under one policy.
type Run struct {
	Experiment string `json:"experiment"`
	// Repeat counts from 0; Order is the place within the repeat.
	Repeat int    `json:"repeat"`
	Order  int    `json:"order"`
	Policy string `json:"policy"`
	Point  Point  `json:"point"`

	Sojourn     float64 `json:"sojourn"`
	Makespan    float64 `json:"makespan"`
	LowResponse float64 `json:"low_response"`
	// Mechanism is what became of the low-priority task.
	Mechanism string `json:"mechanism"`

	// LostCPU is work that was thrown away. TaskCPU is all that the tasks used,
	// thrown away or not; OverheadCPU what dumps and restores used, DaemonCPU what
	// the daemon did.
	LostCPU     float64 `json:"lost_cpu"`
	TaskCPU     float64 `json:"task_cpu"`
	OverheadCPU float64 `json:"overhead_cpu"`
	DaemonCPU   float64 `json:"daemon_cpu"`

	// Dumped and Restored are the checkpoint's bytes, PagedOut and PagedIn those
	// that the machine moved to swap and back meanwhile.
	Dumped   int64 `json:"dumped"`
	Restored int64 `json:"restored"`
	PagedOut int64 `json:"paged_out"`
	PagedIn  int64 `json:"paged_in"`

	// Lanes are what the two tasks did, from the low-priority task's submission.
	Lanes []report.Lane `json:"lanes,omitempty"`
	// Arrived is when the urgent one was submitted.
	Arrived float64 `json:"arrived"`

	// Failure says why there are no numbers; then all of them are zero.
	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (r Run) In() (repeat int, failure string) { return r.Repeat, r.Failure }

// CPU returns all the processor time that a run took.
func (r Run) CPU() float64 { return r.TaskCPU + r.OverheadCPU + r.DaemonCPU }

// Moved returns what the preemption read and wrote.
func (r Run) Moved() int64 { return r.Dumped + r.Restored + r.PagedOut + r.PagedIn }

// Dump is a pair of checkpoints of one task with changes in between.
type Dump struct {
	Repeat int    `json:"repeat"`
	Store  string `json:"store"`
	// Pattern is where the changed pages lay: spread or contiguous.
	Pattern string  `json:"pattern"`
	Changed float64 `json:"changed"`
	Size    int64   `json:"size"`

	FirstBytes  int64   `json:"first_bytes"`
	SecondBytes int64   `json:"second_bytes"`
	First       float64 `json:"first"`
	Second      float64 `json:"second"`

	Failure string `json:"failure,omitempty"`
}

// In returns the repeat, and why there are no numbers.
func (d Dump) In() (repeat int, failure string) { return d.Repeat, d.Failure }

// setup returns the one of an experiment, or an empty one.
func (r *Results) setup(experiment string) Setup {
	for _, s := range r.Setups {
		if s.Experiment == experiment {
			return s
		}
	}
	return Setup{Experiment: experiment}
}
