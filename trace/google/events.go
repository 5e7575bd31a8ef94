package google

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"time"

	"headrace/trace/input"
	"headrace/trace/workload"

	"headrace"
)

// Event is one event of a task in a trace of Google's clusters, as a line of
// task_events has it (clusterdata-2011-2). What job events say of priorities, and
// more, is in those of tasks; only names are not (JobEvent).
type Event struct {
	// At is since the start of the trace, less its lead of 600 s; events from before
	// have 0, those from after its end have After.
	At time.Duration
	// Job and Task name the task, Machine where it is or was; 0: nowhere.
	Job     int64
	Task    int32
	Machine int64
	Kind    Kind
	// Class is how sensitive to latency it is, 0 to 3; Priority as published. Within is greater for the more urgent of two of one
	// Priority, where more of these were published than there are here.
	Class    uint8
	Priority headrace.Priority
	Within   int32
	// CPUs and Memory were requested, in shares of the largest machine; 0 when it is
	// not known.
	CPUs, Memory float64
	// Inferred: the line was not recorded but made up by those who published the
	// trace.
	Inferred bool
}

// rank is greater for the more urgent of two tasks.
func (e *Event) rank() int64 { return int64(e.Priority)<<32 + int64(e.Within) }

// After is the time of events that happened after the end of a trace.
const After = time.Duration(math.MaxInt64)

// lead is the time that the published times begin with.
const lead = 600 * time.Second

// Kind is what happened.
type Kind uint8

// The kinds, with their published numbers.
const (
	Submit Kind = iota
	Schedule
	Evict
	Fail
	Finish
	Kill
	Lost
	UpdatePending
	UpdateRunning
	kinds
)

// fields are the names of the fields of task_events.
var fields = [...]string{"time", "missing info", "job ID", "task index", "machine ID", "event type", "user",
	"scheduling class", "priority", "CPU request", "memory request", "disk space request", "different machines"}

// Dir returns the events of a trace as it was published: the files
// task_events/part-*.csv.gz below dir, in their order, which is that of time. Files
// that are not compressed are read, too. Errors name the file and the line.
func Dir(dir fs.FS) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		names, err := parts(dir, "task_events")
		if err != nil {
			yield(Event{}, err)
			return
		}
		readParts(dir, names, ReadEvents)(yield)
	}
}

// parts returns the files of a table.
func parts(dir fs.FS, table string) ([]string, error) {
	names, err := fs.Glob(dir, table+"/part-*.csv*")
	if err == nil && len(names) == 0 {
		err = fmt.Errorf("there are no files %s/part-*.csv.gz: this is no trace of Google's", table)
	}
	return names, err
}

// readParts returns what read makes of files, one after the other.
func readParts[T any](dir fs.FS, names []string, read func(io.Reader) iter.Seq2[T, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, name := range names {
			on := true
			err := input.Open(dir, name, func(r io.Reader) error {
				for v, err := range read(r) {
					if err != nil {
						return fmt.Errorf("%s: %w", name, err)
					}
					if on = yield(v, nil); !on {
						return nil
					}
				}
				return nil
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			if !on {
				return
			}
		}
	}
}

// ReadEvents returns the events of one file of task_events. It reads r as far as the
// sequence is used, and a little ahead. Errors are those of r, with the line, and
// *SyntaxError.
func ReadEvents(r io.Reader) iter.Seq2[Event, error] {
	return input.Lines(r, taskEvent)
}

func taskEvent(p *input.Parser, text []byte) (Event, error) {
	var f [len(fields)][]byte
	if err := p.Commas(text, f[:]); err != nil {
		return Event{}, err
	}
	r := input.FieldReader{P: p, Names: fields[:], Fields: f[:]}
	e := Event{At: sinceStart(r.Number(0, math.MaxInt64)), Inferred: len(f[1]) > 0,
		Job: r.Number(2, math.MaxInt64), Task: int32(r.Number(3, math.MaxInt32)), Kind: Kind(r.Number(5, int64(kinds)-1)),
		Class: uint8(r.Number(7, workload.Classes-1)), Priority: headrace.Priority(r.Number(8, int64(headrace.MaxPriority))),
		CPUs: r.Share(9), Memory: r.Share(10)}
	if len(f[4]) > 0 {
		e.Machine = r.Number(4, math.MaxInt64)
	}
	return e, r.Err
}

// sinceStart returns a published time, in microseconds.
func sinceStart(us int64) time.Duration {
	if us > int64(After/time.Microsecond) {
		return After
	}
	return max(0, time.Duration(us)*time.Microsecond-lead)
}
