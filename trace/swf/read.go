package swf

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// fields are the fields of a line, by the names that the format gives them.
var fields = [...]string{"job number", "submit time", "wait time", "run time", "allocated processors", "average CPU time used", "used memory",
	"requested processors", "requested time", "requested memory", "status", "user ID", "group ID", "executable", "queue number", "partition number",
	"preceding job number", "think time"}

const (
	jobNumber = iota
	submitTime
	_
	runTime
	allocatedProcessors
	_
	usedMemory
	requestedProcessors
	_
	requestedMemory
	status
	userID
	_
	_
	queueNumber
	_
	precedingJob
)

// The values of status that matter.
const (
	statusCancelled = 5
	// Those from here to statusLast are of parts of a job; another line has their sum.
	statusPartial = 2
	statusLast    = 4
)

// job is what a line says; -1: not known.
type job struct {
	number, preceding int64
	submit, run       time.Duration
	processors        int64
	memory            int64 // bytes for each processor
	user, queue       int64
	stage             int32
}

// log is the whole of a file.
type log struct {
	given  *workload.Given
	header map[string]float64
	jobs   []job
	names  workload.Unique
	counts struct{ never, partial, processors, memory, later, longer int64 }
}

// Read reads a log into a sink: a job of N processors is N tasks of one gang.
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	l := &log{given: &g, header: map[string]float64{}, names: workload.Unique{}}
	err = m.WithFile(name, func(r io.Reader) error {
		for j, err := range input.Lines(r, l.line) {
			if err != nil {
				return err
			}
			m.Record()
			if j == nil {
				continue
			}
			if len(l.jobs) == part.Tasks {
				return workload.TooManyHeld(part.Tasks)
			}
			l.jobs = append(l.jobs, *j)
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	l.understand(&a)
	l.stages(to)
	for i := range l.jobs {
		if err := l.give(&l.jobs[i], to); err != nil {
			return a, err
		}
	}
	l.about(&a)
	return a, nil
}

// line reads a line; nil for one without a job.
func (l *log) line(p *input.Parser, text []byte) (*job, error) {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return nil, nil
	}
	if text[0] == ';' {
		name, value, _ := bytes.Cut(bytes.TrimLeft(text, "; \t"), []byte(":"))
		if words := bytes.Fields(value); len(words) > 0 && len(l.header) < 100 {
			if v, err := strconv.ParseFloat(string(words[0]), 64); err == nil && v > 0 && v <= 1e15 {
				l.header[string(name)] = v
			}
		}
		return nil, nil
	}
	words := bytes.Fields(text)
	switch {
	case len(words) > len(fields): // some archives add fields of their own
		l.counts.longer++
	case len(words) < len(fields):
		return nil, p.Wrong("", nil, fmt.Sprintf("%d fields, want %d with spaces between them: is this the Standard Workload Format?", len(words), len(fields)))
	}
	var v [len(fields)]float64
	for i, word := range words[:len(fields)] {
		var err error
		if v[i], err = strconv.ParseFloat(string(word), 64); err != nil || !(v[i] >= -1e15 && v[i] <= 1e15) {
			return nil, p.Wrong(fields[i], word, "want a number, -1 where it is not known")
		}
	}
	return l.job(p, &v, words)
}

// maxSeconds is how many a time may have.
const maxSeconds = math.MaxInt64 / int64(time.Second) / 4

func (l *log) job(p *input.Parser, v *[len(fields)]float64, words [][]byte) (*job, error) {
	for _, i := range []int{submitTime, runTime} {
		if v[i] > float64(maxSeconds) {
			return nil, p.Wrong(fields[i], words[i], fmt.Sprintf("more than %d", maxSeconds))
		}
	}
	switch {
	case v[status] >= statusPartial && v[status] <= statusLast:
		l.counts.partial++
		return nil, nil
	case v[runTime] < 0, v[status] == statusCancelled && v[runTime] <= 0:
		l.counts.never++
		return nil, nil
	}
	j := &job{number: int64(v[jobNumber]), preceding: int64(v[precedingJob]), user: int64(v[userID]), queue: int64(v[queueNumber]),
		submit: seconds(max(0, v[submitTime])), run: seconds(v[runTime])}
	switch processors := max(v[allocatedProcessors], 0); {
	case processors > 0, v[requestedProcessors] > 0:
		if processors == 0 {
			processors = v[requestedProcessors]
		}
		if processors > workload.MaxJobTasks {
			return nil, p.Wrong(fields[allocatedProcessors], words[allocatedProcessors], fmt.Sprintf("more than %d", workload.MaxJobTasks))
		}
		j.processors = int64(math.Ceil(processors))
	default:
		l.counts.processors++
		j.processors = 1
	}
	switch {
	case v[requestedMemory] > 0:
		j.memory = int64(v[requestedMemory] * 1024)
	case v[usedMemory] > 0:
		j.memory = int64(v[usedMemory] * 1024)
	default:
		l.counts.memory++
		j.memory = 1 << 30
	}
	return j, nil
}

func seconds(v float64) time.Duration { return time.Duration(math.Round(v * float64(time.Second))) }

// Logs that mean something else than the format says are recognised by values that cannot
// be: times of more than tooLate are since 1970, more than tooMuch memory for a processor is
// in bytes, and what most jobs name is no preceding job.
const (
	tooLate = 20 * 365 * 24 * time.Hour
	tooMuch = 1 << 40
)

// understand corrects what a log means otherwise, and says so.
func (l *log) understand(a *workload.About) {
	if len(l.jobs) == 0 {
		return
	}
	first := slices.MinFunc(l.jobs, func(a, b job) int { return cmp.Compare(a.submit, b.submit) }).submit
	if first > tooLate {
		a.Note("times are since 1970: taken to be since the first job, which was submitted at %s", time.Unix(0, 0).Add(first).UTC().Format("2006-01-02 15:04:05 MST"))
		for i := range l.jobs {
			l.jobs[i].submit -= first
		}
	}
	much, named := 0, map[int64]int{}
	for i := range l.jobs {
		if j := &l.jobs[i]; j.preceding > 0 {
			named[j.preceding]++
		}
		if l.jobs[i].memory > tooMuch {
			much++
		}
	}
	if much > len(l.jobs)/2 {
		a.Note("most jobs have more than 1 TiB of memory for each processor: the numbers are taken to be bytes, not KB")
		for i := range l.jobs {
			l.jobs[i].memory /= 1024
		}
	}
	for number, n := range named {
		if n > len(l.jobs)/2 && n > 2 {
			a.Note("most jobs name job %d as the preceding one: that field is taken to be something else", number)
			for i := range l.jobs {
				l.jobs[i].preceding = -1
			}
		}
	}
}

// stages makes a job wait for the one that it names as preceding.
func (l *log) stages(to workload.Sink) {
	before := map[int64]int{}
	for i := range l.jobs {
		j := &l.jobs[i]
		if at, ok := before[j.preceding]; ok && j.preceding > 0 {
			first := &l.jobs[at]
			if first.stage == 0 {
				first.stage = to.Stage()
			}
			j.stage = to.Stage()
			to.After(j.stage, first.stage)
		} else if j.preceding > 0 {
			l.counts.later++
		}
		before[j.number] = i
	}
}

// give gives a job's tasks to a sink.
func (l *log) give(j *job, to workload.Sink) error {
	t := l.given.Task(workload.Task{Job: to.Job(l.names.Name(strconv.FormatInt(j.number, 10))), Submit: j.submit, Run: j.run, CPUs: 1, Memory: j.memory, Stage: j.stage,
		Priority: l.given.Priority(headrace.Normal, strconv.FormatInt(j.queue, 10))})
	if j.user >= 0 {
		t.User = to.User(strconv.FormatInt(j.user, 10))
	}
	if j.processors > 1 {
		t.Gang = to.Gang()
	}
	for i := range j.processors {
		t.Index = int32(i)
		if err := to.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// about says what is known beside the jobs.
func (l *log) about(a *workload.About) {
	nodes, processors, memory := l.header["MaxNodes"], l.header["MaxProcs"], l.header["MaxMemory"]
	if nodes == 0 {
		nodes = processors // each is one
	}
	switch known := nodes >= 1 && nodes <= 1e6 && processors >= nodes; {
	case known && memory > 0:
		a.Cluster = workload.Cluster{Nodes: int(nodes), CPUs: processors / math.Floor(nodes), Memory: int64(memory * 1024)}
	case known:
		a.Note("the log is of %v nodes with %v processors in all; it does not say what memory a node had", nodes, processors)
	}
	if at := l.header["UnixStartTime"]; at > 0 && at < 1e11 {
		a.Note("the log begins at %s", time.Unix(int64(at), 0).UTC().Format("2006-01-02 15:04:05 MST"))
	}
	a.NoteSome(
		workload.Noted{N: l.counts.never, Text: "jobs were cancelled before they ran, or their running time is not known: left out"},
		workload.Noted{N: l.counts.longer, Text: "lines have more than 18 fields: the rest is passed over"},
		workload.Noted{N: l.counts.partial, Text: "lines are of parts of a job, whose sum has a line of its own: left out"},
		workload.Noted{N: l.counts.processors, Text: "jobs do not say how many processors they had: taken to have one"},
		workload.Noted{N: l.counts.memory, Text: "jobs do not say what memory they needed: taken to need 1 GiB for each processor"},
		workload.Noted{N: l.counts.later, Text: "jobs come after one that is not before them in the log: they do not wait"},
	)
}
