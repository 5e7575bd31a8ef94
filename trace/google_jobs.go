package trace

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"time"
)

// GoogleJobEvent is one event of a job in a trace of Google's clusters, as a line of
// job_events has it (clusterdata-2011-2).
type GoogleJobEvent struct {
	// At is as in GoogleEvent.
	At   time.Duration
	Job  int64
	Kind GoogleKind
	// Class is how sensitive to latency it is, 0 to 3.
	Class uint8
	// Name is a code that stands for the name of this job. LogicalName stands for what
	// is the same in the names of all runs of one program.
	Name, LogicalName string
	Inferred          bool
}

// googleJobFields are the names of the fields of job_events.
var googleJobFields = [...]string{"time", "missing info", "job ID", "event type", "user", "scheduling class", "job name", "logical job name"}

// ReadGoogleJobs returns the events of one file of job_events, as ReadGoogle is those
// of task_events.
func ReadGoogleJobs(r io.Reader) iter.Seq2[GoogleJobEvent, error] {
	return readLines(r, (*parser).googleJobEvent)
}

func (p *parser) googleJobEvent(text []byte) (GoogleJobEvent, error) {
	var f [len(googleJobFields)][]byte
	if err := p.commas(text, f[:]); err != nil {
		return GoogleJobEvent{}, err
	}
	r := fieldReader{p: p, names: googleJobFields[:], fields: f[:]}
	e := GoogleJobEvent{At: googleTime(r.number(0, math.MaxInt64)), Inferred: len(f[1]) > 0,
		Job: r.number(2, math.MaxInt64), Kind: GoogleKind(r.number(3, int64(googleKinds)-1)),
		Name: r.text(6), LogicalName: r.text(7)}
	if len(f[5]) > 0 {
		e.Class = uint8(r.number(5, classes-1))
	}
	return e, r.err
}

// GoogleJobsDir returns the events in job_events/part-*.csv.gz below dir, as GoogleDir
// is those of tasks. Where there are no such files it is empty.
func GoogleJobsDir(dir fs.FS) iter.Seq2[GoogleJobEvent, error] {
	return func(yield func(GoogleJobEvent, error) bool) {
		names, err := fs.Glob(dir, "job_events/part-*.csv*")
		if err != nil {
			yield(GoogleJobEvent{}, err)
			return
		}
		readParts(dir, names, ReadGoogleJobs)(yield)
	}
}

// googleJobNames returns the logical names of jobs.
func googleJobNames(m *meter, dir fs.FS) (map[int64]string, error) {
	names := map[int64]string{}
	once := map[string]string{}
	for e, err := range GoogleJobsDir(dir) {
		if err != nil {
			return nil, err
		}
		m.record()
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

// googleJobName returns the name of a job for people: its number, and the logical name
// where that is known. It is unique.
func googleJobName(id int64, logical map[int64]string) string {
	if name := logical[id]; name != "" {
		return fmt.Sprintf("%d:%s", id, name)
	}
	return fmt.Sprint(id)
}
