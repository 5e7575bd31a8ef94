package swim

import (
	"fmt"
	"math"
	"time"
)

// First returns the first n jobs.
func First(jobs Jobs, n int) Jobs {
	return func(yield func(Job, error) bool) {
		left := n
		if left <= 0 {
			return
		}
		for j, err := range jobs {
			if left--; !yield(j, err) || left == 0 {
				return
			}
		}
	}
}

// Scale makes a trace fit another cluster. Factors of zero mean 1.
type Scale struct {
	// Bytes multiplies input, shuffle and output; Time the times of submission.
	Bytes, Time float64
}

// Scaled returns the jobs with other sizes and times. Sizes are rounded; what was not
// zero stays at least 1 byte, so that a job that reads still does. Factors that
// are negative or no numbers, and results that do not fit, are errors.
func Scaled(jobs Jobs, by Scale) Jobs {
	if by.Bytes == 0 {
		by.Bytes = 1
	}
	if by.Time == 0 {
		by.Time = 1
	}
	return func(yield func(Job, error) bool) {
		if !(by.Bytes > 0) || !(by.Time > 0) {
			yield(Job{}, fmt.Errorf("trace: scale of %v for bytes, %v for times: want positive numbers", by.Bytes, by.Time))
			return
		}
		for j, err := range jobs {
			if err == nil {
				j, err = by.job(j)
			}
			if !yield(j, err) || err != nil {
				return
			}
		}
	}
}

func (s Scale) job(j Job) (Job, error) {
	submit := math.Round(float64(j.Submit) * s.Time)
	if !(submit < math.MaxInt64) {
		return Job{}, fmt.Errorf("trace: %s: its time of submission, %v, is too large once multiplied by %v", j.ID, j.Submit, s.Time)
	}
	j.Submit = time.Duration(submit)
	for _, b := range []*int64{&j.Input, &j.Shuffle, &j.Output} {
		if *b <= 0 {
			continue
		}
		v := max(1, math.Round(float64(*b)*s.Bytes))
		if !(v < math.MaxInt64) {
			return Job{}, fmt.Errorf("trace: %s: %d bytes are too many once multiplied by %v", j.ID, *b, s.Bytes)
		}
		*b = int64(v)
	}
	return j, nil
}

// WithPaths gives each job without an input path one of its own, made of its
// name: as far as is known nobody else reads what it reads. Jobs that read
// nothing get none.
func WithPaths(jobs Jobs) Jobs {
	return func(yield func(Job, error) bool) {
		for j, err := range jobs {
			if err == nil && j.InputPath == "" && j.Input > 0 {
				j.InputPath = "input-of-" + j.ID
			}
			if !yield(j, err) {
				return
			}
		}
	}
}
