package slurm

import (
	"fmt"
	"io"
	"strings"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// Format is what sacct has to be asked for; only the first three are needed.
const Format = "JobID,Submit,Elapsed,Start,Eligible,JobName,User,Partition,QOS,NCPUS,NNodes,ReqMem,MaxRSS,AllocTRES,ReqTRES,State"

// reader makes tasks of rows: each job with the steps that come after it.
type reader struct {
	given *workload.Given
	to    workload.Sink
	tasks workload.Rebased
	jobs  map[string]*job
	last  *element
	// parts are those of a heterogeneous job, as long as others may come.
	parts []*element
	// again are jobs that were ended to be queued again, by ID: a later row of the same ID is the run
	// that counts. ended has all that ever were among them, in their order.
	again  map[string]*element
	ended  []*element
	names  input.Free
	kept   bool // there is the column Eligible
	counts struct{ never, running, failed, preempted, memory, orphans int64 }
}

// job is all elements of a job array, all parts of a heterogeneous job, or one job.
type job struct{ number, next int32 }

// element is a job, or an element of a job array, or a part of a heterogeneous job, as long as steps may come.
type element struct {
	id, array, title string
	// part: it is one of a heterogeneous job, which runs as a whole.
	part bool
	// requeued: it may come again; count is of what it is if it does not.
	requeued bool
	count    *int64
	task     workload.Task
	began    time.Duration
	runs     bool // still
	nodes    int64
	rss      float64
	need     []float32
	noMemory bool
}

// Read reads the output of sacct into a sink. A job on N nodes is N tasks of one gang; so are all parts of a
// heterogeneous job together.
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	s := &reader{given: &g, to: to, tasks: workload.Rebased{Most: part.Tasks}, jobs: map[string]*job{}, again: map[string]*element{},
		names: input.Free{Column: "JobName"}}
	err = m.WithFile(name, func(r io.Reader) error {
		for row, err := range input.Table(r, '|', &s.names) {
			if err != nil {
				return err
			}
			m.Record()
			if err := s.row(row); err != nil {
				return err
			}
		}
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.notAgain(); err != nil {
			return err
		}
		return s.whole()
	})
	if err != nil {
		return a, err
	}
	s.tasks.Cut(&a)
	if !s.kept {
		a.Note("there is no column Eligible: jobs that a dependency, --begin or a hold kept back are submitted when they were handed in")
	}
	a.Note("times are taken as they are printed: an hour is missing or double where daylight saving changed")
	a.NoteSome(
		workload.Noted{N: s.counts.never, Text: "jobs never ran: left out"},
		workload.Noted{N: s.counts.running, Text: "jobs were still running: they have the running time up to then"},
		workload.Noted{N: s.counts.failed, Text: "jobs failed or were ended before they were done: they have the running time they had"},
		workload.Noted{N: s.counts.preempted, Text: "jobs were preempted and are not in the list again: they have the running time they had"},
		workload.Noted{N: s.counts.memory, Text: "jobs do not say what memory they need: they have what they used at most, or else 1 GiB"},
		workload.Noted{N: s.counts.orphans, Text: "steps do not come after their job: left out"},
		workload.Noted{N: s.names.Mended, Text: "rows have the separator or the end of a line in the name of their job: put together again"},
		workload.Noted{N: s.names.Broken, Text: "lines have too few fields for a row, as after the end of a line in a name: left out"},
	)
	return a, s.tasks.Pour(to)
}

func (s *reader) row(row *input.Row) error {
	if !row.Has("JobID") || !row.Has("Submit") || !row.Has("Elapsed") && !(row.Has("Start") && row.Has("End")) {
		return row.Wrong("", "", "the first line does not name the columns JobID, Submit and Elapsed: want what sacct --parsable2 --format="+Format+" prints")
	}
	s.kept = row.Has("Eligible")
	id := row.Get("JobID")
	if base, _, step := strings.Cut(id, "."); step {
		return s.step(row, base)
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.begin(row, id)
}

// step takes over what a step says of memory.
func (s *reader) step(row *input.Row, of string) error {
	if s.last == nil || s.last.id != of {
		s.counts.orphans++
		return nil
	}
	rss := row.Get("MaxRSS")
	if rss == "" {
		return nil
	}
	size, err := parseSize(rss, 1)
	if err != nil {
		return row.Wrong("MaxRSS", rss, err.Error())
	}
	s.last.rss = max(s.last.rss, size.bytes)
	return nil
}

// begin reads a job; its tasks are given when its steps have been seen.
func (s *reader) begin(row *input.Row, id string) error {
	state, _, _ := strings.Cut(strings.ToUpper(row.Get("State")), " ")
	run, began, ran, err := running(row)
	if err != nil {
		return err
	}
	if !ran || state == "PENDING" || strings.Contains(id, "[") {
		s.counts.never++
		s.last = &element{id: id} // its steps, if any, are of nobody else
		return nil
	}
	submit, known, err := parseTime(row.Get("Submit"))
	if err != nil || !known {
		return row.Wrong("Submit", row.Get("Submit"), "want a time such as 2026-01-02T15:04:05")
	}
	// A job that a dependency, a time of its own or a hold keeps back is there for nobody to decide on.
	eligible, known, err := parseTime(row.Get("Eligible"))
	if err != nil {
		return row.Wrong("Eligible", row.Get("Eligible"), err.Error())
	}
	if known {
		submit = max(submit, min(eligible, began))
	}
	e := &element{id: id, nodes: 1, began: began}
	if before := s.again[id]; before != nil {
		submit = min(submit, before.task.Submit) // some versions print when it was queued again
		delete(s.again, id)
	}
	switch state {
	case "RUNNING", "SUSPENDED", "COMPLETING", "STOPPED":
		s.counts.running++
		e.runs = true
	case "PREEMPTED", "REQUEUED":
		e.requeued, e.count = true, &s.counts.preempted
	case "NODE_FAIL":
		e.requeued, e.count = true, &s.counts.failed
	case "COMPLETED", "":
	default:
		s.counts.failed++
	}
	cpus := int64(1)
	for _, n := range []struct {
		to    *int64
		names []string
	}{{&cpus, []string{"NCPUS", "AllocCPUS", "ReqCPUS"}}, {&e.nodes, []string{"NNodes", "AllocNodes"}}} {
		text := row.Get(n.names...)
		if text == "" {
			continue
		}
		v, err := parseCount(text)
		if err != nil || v > workload.MaxJobTasks {
			return row.Wrong(n.names[0], text, fmt.Sprintf("want a whole number, at most %d", workload.MaxJobTasks))
		}
		*n.to = max(1, int64(v))
	}
	e.task = workload.Task{Submit: submit, Run: run, CPUs: float32(float64(cpus) / float64(e.nodes)), User: s.to.User(input.Shown(row.Get("User"))),
		Priority: s.given.Priority(headrace.Normal, row.Get("QOS"), row.Get("Partition"))}
	if err := s.asks(row, e, cpus); err != nil {
		return err
	}
	e.array, _, _ = strings.Cut(id, "_")
	e.array, _, e.part = strings.Cut(e.array, "+")
	e.array, e.title = input.Shown(e.array), input.Shown(row.Get("JobName"))
	s.last = e
	return nil
}

// asks reads memory and counted resources, of which each node has its share.
func (s *reader) asks(row *input.Row, e *element, cpus int64) error {
	nodes := float64(e.nodes)
	tres := row.Get("AllocTRES")
	if tres == "" {
		tres = row.Get("ReqTRES")
	}
	memory, counted, err := parseTRES(tres)
	if err != nil {
		return row.Wrong("AllocTRES", tres, err.Error())
	}
	for _, c := range counted {
		at := s.to.Resource(c.name)
		e.need = workload.Grown(e.need, at+1)
		e.need[at] = float32(c.n / nodes)
	}
	memory /= nodes
	if text := row.Get("ReqMem"); memory == 0 && text != "" {
		size, err := parseSize(text, 1<<20)
		if err != nil {
			return row.Wrong("ReqMem", text, err.Error())
		}
		switch size.of {
		case 'c':
			memory = size.bytes * float64(cpus) / nodes
		case 'n':
			memory = size.bytes
		default:
			memory = size.bytes / nodes
		}
	}
	e.task.Memory, e.noMemory = int64(min(memory, maxBytes)), memory < 1
	return nil
}

// flush gives away the last job, unless it may come again.
func (s *reader) flush() error {
	e := s.last
	s.last = nil
	switch {
	case e == nil || e.nodes == 0:
		return nil
	case e.requeued:
		s.again[e.id] = e
		s.ended = append(s.ended, e)
		return nil
	}
	return s.give(e)
}

// give gives away e, or keeps it until all parts of its job have been seen.
func (s *reader) give(e *element) error {
	if len(s.parts) > 0 && (!e.part || e.array != s.parts[0].array) {
		if err := s.whole(); err != nil {
			return err
		}
	}
	if e.part {
		s.parts = append(s.parts, e)
		return nil
	}
	return s.tasksOf(e)
}

// whole gives away the parts of a job, which Slurm starts together or not at all: when the last one could.
func (s *reader) whole() error {
	parts := s.parts
	s.parts = nil
	submit := time.Duration(0)
	for _, e := range parts {
		submit = max(submit, e.task.Submit)
	}
	for _, e := range parts {
		e.task.Submit = submit
	}
	return s.tasksOf(parts...)
}

// notAgain gives away jobs that were to be queued again, and did not come.
func (s *reader) notAgain() error {
	for _, e := range s.ended {
		if s.again[e.id] != e {
			continue
		}
		*e.count++
		if err := s.give(e); err != nil {
			return err
		}
	}
	return nil
}

// tasksOf gives away the tasks of an element, or of all parts of a job.
func (s *reader) tasksOf(parts ...*element) error {
	gang, nodes := int32(0), int64(0)
	for _, e := range parts {
		nodes += e.nodes
	}
	if nodes > 1 {
		gang = s.to.Gang()
	}
	for _, e := range parts {
		if e.noMemory {
			s.counts.memory++
			if e.task.Memory = int64(min(e.rss, maxBytes)); e.task.Memory == 0 {
				e.task.Memory = 1 << 30
			}
		}
		j := s.jobs[e.array]
		if j == nil {
			name := e.array
			if e.title != "" {
				name += ":" + e.title
			}
			j = &job{number: s.to.Job(name)}
			s.jobs[e.array] = j
		}
		e.task.Job, e.task.Index = j.number, j.next
		j.next += int32(e.nodes)
		t := s.given.Task(e.task)
		t.Need, t.Gang = s.to.Need(e.need), gang
		for range e.nodes {
			if err := s.tasks.Ran(t, e.began, !e.runs); err != nil {
				return err
			}
			t.Index++
		}
	}
	return nil
}

// running returns how long a job ran and since when, and whether it ever did.
func running(row *input.Row) (run, began time.Duration, ran bool, err error) {
	start, started, err := parseTime(row.Get("Start"))
	if err != nil {
		return 0, 0, false, row.Wrong("Start", row.Get("Start"), err.Error())
	}
	began = start
	if !started {
		began = workload.Unknown
	}
	if row.Has("Start") && !started {
		return 0, began, false, nil
	}
	if text := row.Get("Elapsed"); text != "" {
		v, err := parseElapsed(text)
		if err != nil {
			return 0, began, false, row.Wrong("Elapsed", text, err.Error())
		}
		return v, began, started || v > 0, nil
	}
	end, ended, err := parseTime(row.Get("End"))
	if err != nil {
		return 0, began, false, row.Wrong("End", row.Get("End"), err.Error())
	}
	return max(0, end-start), began, started && ended, nil
}
