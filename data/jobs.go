package data

import (
	"fmt"
	"strings"

	"headrace"
)

// Job is a job of a user. Others may have one of the same name.
type Job struct {
	UID  uint32
	Name headrace.JobID
}

// Submission is when something of a job was submitted, by the wall clock.
type Submission struct {
	Job
	AtMs int64
}

// Jobs tells which jobs there are. It must be safe for concurrent use.
type Jobs interface {
	// Live returns the jobs that have not ended.
	Live() map[Job]bool
	// Watch begins to collect the jobs of which anything changes, so that none is
	// missed that comes and goes; stop must be called. There is something to take when
	// wake has an element.
	Watch() (wake <-chan struct{}, take func() []Submission, stop func())
}

// key names the job for the engine.
func (j Job) key() headrace.JobID { return headrace.JobID(fmt.Sprintf("%s of %d", j.Name, j.UID)) }

// jobName returns the job of a key as its user calls it.
func jobName(key headrace.JobID, uid uint32) string {
	return strings.TrimSuffix(string(key), string(Job{UID: uid}.key()))
}
