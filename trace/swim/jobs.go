package swim

import (
	"iter"
	"time"
)

// Job is one job of a trace.
type Job struct {
	// ID is its name in the trace.
	ID string
	// Submit is when it was submitted, since the start of the trace.
	Submit time.Duration
	// Input is what it read at first, Shuffle what its first stage gave to the
	// second, Output what it wrote, in bytes.
	Input, Shuffle, Output int64
	// InputPath and OutputPath name where it read and wrote; jobs with equal paths
	// used the same. Empty: not known.
	InputPath, OutputPath string
}

// Jobs is a sequence of jobs in the order of submission. An error is its last
// element.
type Jobs = iter.Seq2[Job, error]

// Collect returns all of a sequence, or what came before the error.
func Collect(jobs Jobs) ([]Job, error) {
	var all []Job
	for j, err := range jobs {
		if err != nil {
			return all, err
		}
		all = append(all, j)
	}
	return all, nil
}
