package swim

import (
	"time"

	"headrace"
	"headrace/trace/workload"
)

// Options say how a job of SWIM, which is three numbers of bytes, becomes tasks.
// See docs/traces.md for the model.
type Options struct {
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
	workload.Assumed
}
