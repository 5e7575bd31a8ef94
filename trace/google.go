package trace

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"strconv"
	"time"

	"headrace"
)

// GoogleEvent is one event of a task in a trace of Google's clusters, as a line of
// task_events has it (clusterdata-2011-2). What job events say of priorities, and
// more, is in those of tasks; only names are not (GoogleJobEvent).
type GoogleEvent struct {
	// At is since the start of the trace, less its lead of 600 s; events from before
	// have 0, those from after its end have After.
	At time.Duration
	// Job and Task name the task, Machine where it is or was; 0: nowhere.
	Job     int64
	Task    int32
	Machine int64
	Kind    GoogleKind
	// Class is how sensitive to latency it is, 0 to 3; Priority as published.
	Class    uint8
	Priority headrace.Priority
	// CPUs and Memory were requested, in shares of the largest machine; 0 when it is
	// not known.
	CPUs, Memory float64
	// Inferred: the line was not recorded but made up by those who published the
	// trace.
	Inferred bool
}

// After is the time of events that happened after the end of a trace.
const After = time.Duration(math.MaxInt64)

// googleLead is the time that the published times begin with.
const googleLead = 600 * time.Second

// GoogleKind is what happened.
type GoogleKind uint8

// The kinds, with their published numbers.
const (
	GoogleSubmit GoogleKind = iota
	GoogleSchedule
	GoogleEvict
	GoogleFail
	GoogleFinish
	GoogleKill
	GoogleLost
	GoogleUpdatePending
	GoogleUpdateRunning
	googleKinds
)

// googleFields are the names of the fields of task_events.
var googleFields = [...]string{"time", "missing info", "job ID", "task index", "machine ID", "event type", "user",
	"scheduling class", "priority", "CPU request", "memory request", "disk space request", "different machines"}

// GoogleDir returns the events of a trace as it was published: the files
// task_events/part-*.csv.gz below dir, in their order, which is that of time. Files
// that are not compressed are read, too. Errors name the file and the line.
func GoogleDir(dir fs.FS) iter.Seq2[GoogleEvent, error] {
	return func(yield func(GoogleEvent, error) bool) {
		names, err := googleParts(dir, "task_events")
		if err != nil {
			yield(GoogleEvent{}, err)
			return
		}
		readParts(dir, names, ReadGoogle)(yield)
	}
}

// googleParts returns the files of a table.
func googleParts(dir fs.FS, table string) ([]string, error) {
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
			err := withFile(dir, name, func(r io.Reader) error {
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

// ReadGoogle returns the events of one file of task_events. It reads r as far as the
// sequence is used, and a little ahead. Errors are those of r, with the line, and
// *SyntaxError.
func ReadGoogle(r io.Reader) iter.Seq2[GoogleEvent, error] {
	return readLines(r, (*parser).googleEvent)
}

func (p *parser) googleEvent(text []byte) (GoogleEvent, error) {
	var f [len(googleFields)][]byte
	if err := p.commas(text, f[:]); err != nil {
		return GoogleEvent{}, err
	}
	r := fieldReader{p: p, names: googleFields[:], fields: f[:]}
	e := GoogleEvent{At: googleTime(r.number(0, math.MaxInt64)), Inferred: len(f[1]) > 0,
		Job: r.number(2, math.MaxInt64), Task: int32(r.number(3, math.MaxInt32)), Kind: GoogleKind(r.number(5, int64(googleKinds)-1)),
		Class: uint8(r.number(7, classes-1)), Priority: headrace.Priority(r.number(8, int64(headrace.MaxPriority))),
		CPUs: r.share(9), Memory: r.share(10)}
	if len(f[4]) > 0 {
		e.Machine = r.number(4, math.MaxInt64)
	}
	return e, r.err
}

// commas cuts a line into exactly as many fields as f has.
func (p *parser) commas(text []byte, f [][]byte) error {
	last := len(f) - 1
	for n := range f {
		end := bytes.IndexByte(text, ',')
		if n == last && end < 0 {
			f[n] = text
			return nil
		}
		if n == last || end < 0 {
			return p.wrong("", nil, fmt.Sprintf("%d fields, want %d, separated by commas", n+1+bytes.Count(text, []byte(",")), len(f)))
		}
		f[n], text = text[:end], text[end+1:]
	}
	return nil
}

// fieldReader reads fields until one is wrong.
type fieldReader struct {
	p      *parser
	names  []string
	fields [][]byte
	err    error
}

func (r *fieldReader) number(i int, most int64) (v int64) {
	if r.err == nil {
		v, r.err = r.p.number(r.names[i], r.fields[i], most)
	}
	return v
}

// share reads a share of a machine; an empty field is 0.
func (r *fieldReader) share(i int) (v float64) {
	if r.err == nil && len(r.fields[i]) > 0 {
		v, r.err = r.p.share(r.names[i], r.fields[i])
	}
	return v
}

func (r *fieldReader) text(i int) (v string) {
	if r.err == nil {
		v, r.err = r.p.text(r.names[i], r.fields[i])
	}
	return v
}

// googleTime returns a published time, in microseconds.
func googleTime(us int64) time.Duration {
	if us > int64(After/time.Microsecond) {
		return After
	}
	return max(0, time.Duration(us)*time.Microsecond-googleLead)
}

// share reads a share of a machine.
func (p *parser) share(field string, b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, p.wrong(field, b, "want a number from 0 to 1")
	}
	return v, nil
}
