package trace

import (
	"fmt"
	"time"

	"headrace"
)

// GoogleOptions say what the traces of Google's clusters hide.
type GoogleOptions struct {
	// CPUs and Memory are what the largest machine has; requests are shares of it.
	// The trace does not say. 0: 32 CPUs, 128 GiB.
	CPUs   float64
	Memory int64
	// Grow and Dirty are given to every task: see Assumed.
	Assumed
}

// Assumed is what a trace does not say of the memory of its tasks.
type Assumed struct {
	// Grow is how long a task runs until it holds all of its memory.
	Grow time.Duration
	// Dirty is the share of its memory that a task changes in a second, 0 to 1.
	// 0 stands for 0.01, negative values for none.
	Dirty float64
}

// SwimOptions say how a job of SWIM, which is three numbers of bytes, becomes tasks.
// See docs/traces.md for the model.
type SwimOptions struct {
	// Block is the input of a map task. 0: 128 MiB.
	Block int64
	// Reduce is the shuffle of a reduce task. 0: 1 GiB.
	Reduce int64
	// Rate is how many bytes, in and out, a task computes in a second, apart from
	// the time that reading its input takes. 0: 50 MB.
	Rate float64
	// Start is the least time that a task runs. 0: 1 s.
	Start time.Duration
	// CPUs and Memory are of every task. 0: 1 CPU, 1 GiB.
	CPUs   float64
	Memory int64
	// Priority is that of all jobs, nil: headrace.Normal; Small, if it is not nil,
	// that of jobs with no more than SmallBytes of input, shuffle and output together
	// (0: 1 GiB).
	Priority, Small *headrace.Priority
	SmallBytes      int64
	Assumed
}

// YarnOptions say what the records of YARN leave open.
type YarnOptions struct {
	// Queues gives the applications of a queue a priority, by its full path
	// (root.prod) or its last part (prod). Others have their own, up to
	// headrace.MaxPriority; where that is 0 they have Priority, nil:
	// headrace.Normal.
	Queues   map[string]headrace.Priority
	Priority *headrace.Priority
	// Zone is that of the times in logs. nil: found out from the summaries of
	// applications, which have both; without any it is UTC.
	Zone *time.Location
	Assumed
}

// defaultDirty is the share of its memory that a task changes in a second when
// nothing else is said.
const defaultDirty = 0.01

// dirtyBytes returns how much of some memory changes in a second.
func (a Assumed) dirtyBytes(memory int64) float64 {
	switch {
	case a.Dirty < 0:
		return 0
	case a.Dirty == 0:
		return defaultDirty * float64(memory)
	}
	return a.Dirty * float64(memory)
}

func (a Assumed) check() error {
	if a.Grow < 0 || !(a.Dirty <= 1) {
		return fmt.Errorf("trace: memory that grows for %v and changes by %v in a second: want 0 or more, and at most 1", a.Grow, a.Dirty)
	}
	return nil
}
