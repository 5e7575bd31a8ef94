package solo

import (
	"time"

	"headrace/proc"
)

// readSpeed is how fast a task reads its input from disks, in bytes per second: the most that
// one was seen to do lately. A task that does other things meanwhile shows less than its disk
// has to give. Zero: none was seen to read.
type readSpeed float64

const (
	// Less says nothing about the bandwidth.
	minReadSample = 4 << 20
	minReadTime   = 100 * time.Millisecond
	// forgetRead is how much of what is above a sample each sample takes away.
	forgetRead = 0.01
)

// learn takes in what a task had used, and what it has used now.
func (s *readSpeed) learn(before, is proc.Usage) {
	bytes, took := is.ReadBytes-before.ReadBytes, is.Running-before.Running
	if bytes < minReadSample || took < minReadTime {
		return
	}
	now := readSpeed(float64(bytes) / took.Seconds())
	*s = max(now, *s-forgetRead*(*s-now))
}
