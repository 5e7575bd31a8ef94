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
)

// JobEvent is one event of a job in a trace of Google's clusters, as a line of
// job_events has it (clusterdata-2011-2).
type JobEvent struct {
	// At is as in Event.
	At   time.Duration
	Job  int64
	Kind Kind
	// Class is how sensitive to latency it is, 0 to 3.
	Class uint8
	// Name is a code that stands for the name of this job. LogicalName stands for what
	// is the same in the names of all runs of one program.
	Name, LogicalName string
	Inferred          bool
}

// jobFields are the names of the fields of job_events.
var jobFields = [...]string{"time", "missing info", "job ID", "event type", "user", "scheduling class", "job name", "logical job name"}

// ReadJobs returns the events of one file of job_events, as ReadEvents is those
// of task_events.
func ReadJobs(r io.Reader) iter.Seq2[JobEvent, error] {
	return input.Lines(r, jobEvent)
}

func jobEvent(p *input.Parser, text []byte) (JobEvent, error) {
	var f [len(jobFields)][]byte
	if err := p.Commas(text, f[:]); err != nil {
		return JobEvent{}, err
	}
	r := input.FieldReader{P: p, Names: jobFields[:], Fields: f[:]}
	e := JobEvent{At: sinceStart(r.Number(0, math.MaxInt64)), Inferred: len(f[1]) > 0,
		Job: r.Number(2, math.MaxInt64), Kind: Kind(r.Number(3, int64(kinds)-1)),
		Name: r.Text(6), LogicalName: r.Text(7)}
	if len(f[5]) > 0 {
		e.Class = uint8(r.Number(5, workload.Classes-1))
	}
	return e, r.Err
}

// JobsDir returns the events in job_events/part-*.csv.gz below dir, as Dir
// is those of tasks. Where there are no such files it is empty.
func JobsDir(dir fs.FS) iter.Seq2[JobEvent, error] {
	return func(yield func(JobEvent, error) bool) {
		names, err := fs.Glob(dir, "job_events/part-*.csv*")
		if err != nil {
			yield(JobEvent{}, err)
			return
		}
		readParts(dir, names, ReadJobs)(yield)
	}
}

// logicalNames returns the logical names of jobs.
func logicalNames(m *input.Meter, dir fs.FS) (map[int64]string, error) {
	names := map[int64]string{}
	once := map[string]string{}
	for e, err := range JobsDir(dir) {
		if err != nil {
			return nil, err
		}
		m.Record()
		if e.LogicalName == "" || names[e.Job] != "" {
			continue
		}
		name, ok := once[e.LogicalName]
		if !ok {
			name = e.LogicalName
			once[name] = name
		}
		names[e.Job] = name
	}
	return names, nil
}

// jobName returns the name of a job for people: its number, and the logical name
// where that is known. It is unique.
func jobName(id int64, logical map[int64]string) string {
	if name := logical[id]; name != "" {
		return fmt.Sprintf("%d:%s", id, name)
	}
	return fmt.Sprint(id)
}
