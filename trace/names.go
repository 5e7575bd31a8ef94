package trace

import (
	"io"

	"headrace/trace/google"
	"headrace/trace/input"
	"headrace/trace/native"
	"headrace/trace/swim"
	"headrace/trace/synthetic"
	"headrace/trace/workload"
	"headrace/trace/yarn"
)

// What a workload is, for those who need no more than this package.
type (
	Workload  = workload.Workload
	Cluster   = workload.Cluster
	File      = workload.File
	Task      = workload.Task
	Stage     = workload.Stage
	Outcome   = workload.Outcome
	Preempted = workload.Preempted
	Hour      = workload.Hour
	Assumed   = workload.Assumed
)

// OftenTimes is as in package workload.
const OftenTimes = workload.OftenTimes

// DefaultMaxTasks is as in package workload.
const DefaultMaxTasks = workload.DefaultMaxTasks

// Progress is how far the reading of a trace has come.
type Progress = input.Progress

// What formats leave open.
type (
	GoogleOptions = google.Options
	SwimOptions   = swim.Options
	YarnOptions   = yarn.Options
)

// WriteCSV writes a workload in our own format: see native.Write.
func WriteCSV(w io.Writer, workload *Workload) error { return native.Write(w, workload) }

// Day is the parameters of a generated workload.
type Day = synthetic.Day

// GoogleDayName names the day that resembles a published one.
const GoogleDayName = synthetic.GoogleDayName

// GoogleDay returns it, GoogleDayFile the file that its parameters are in.
func GoogleDay() Day        { return synthetic.GoogleDay() }
func GoogleDayFile() string { return synthetic.GoogleDayFile() }

// ReadDay reads such a file.
func ReadDay(r io.Reader) (Day, error) { return synthetic.ReadDay(r) }
