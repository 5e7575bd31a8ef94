package rumen

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// maxObject is the most bytes of one job, maxMillis the last time and the longest.
const (
	maxObject = 256 << 20
	maxMillis = int64(workload.MaxTime / time.Millisecond)
)

// job is a job as Rumen writes it. Times are milliseconds since 1970, -1 where they are not
// known.
type job struct {
	ID        string `json:"jobID"`
	Name      string `json:"jobName"`
	User      string `json:"user"`
	Queue     string `json:"queue"`
	Priority  string `json:"priority"`
	Submit    int64  `json:"submitTime"`
	Launch    int64  `json:"launchTime"`
	MapMB     int64  `json:"jobMapMB"`
	ReduceMB  int64  `json:"jobReduceMB"`
	Maps      []task `json:"mapTasks"`
	Reduces   []task `json:"reduceTasks"`
	OtherTask []task `json:"otherTasks"`
}

type task struct {
	Attempts []attempt `json:"attempts"`
}

type attempt struct {
	Result string `json:"result"`
	Start  int64  `json:"startTime"`
	Finish int64  `json:"finishTime"`
}

// priorities are what those of MapReduce become.
var priorities = map[string]headrace.Priority{"VERY_HIGH": headrace.Production, "HIGH": headrace.High, "NORMAL": headrace.Normal, "DEFAULT": headrace.Normal,
	"LOW": headrace.Low, "VERY_LOW": headrace.Free}

// reader makes tasks of jobs.
type reader struct {
	given  *workload.Given
	to     workload.Sink
	tasks  workload.Rebased
	jobs   int
	names  workload.Unique
	counts struct{ never, failed, memory, others, undated int64 }
}

// Read reads jobs into a sink. All tasks of a job are submitted with it, reduces wait for
// maps.
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	s := &reader{given: &g, to: to, tasks: workload.Rebased{Most: part.Tasks}, names: workload.Unique{}}
	if err := m.WithFile(name, func(r io.Reader) error { return input.Each(m, r, maxObject, "", s.job) }); err != nil {
		return a, err
	}
	a.NoteSome(
		workload.Noted{N: s.counts.undated, Text: "jobs do not say when they were submitted: left out"},
		workload.Noted{N: s.counts.never, Text: "tasks never ran, or do not say how long: left out"},
		workload.Noted{N: s.counts.failed, Text: "tasks never succeeded: they have the running time of their longest attempt"},
		workload.Noted{N: s.counts.others, Text: "tasks that set jobs up or clean up after them: left out"},
		workload.Noted{N: s.counts.memory, Text: "jobs do not say what memory their tasks ask for: taken to ask for 1 GiB"},
	)
	return a, s.tasks.Pour(to)
}

func (s *reader) job(r *input.Record[job]) error {
	j := &r.Value
	submit := j.Submit
	if submit <= 0 {
		submit = j.Launch
	}
	switch {
	case submit > maxMillis, max(j.MapMB, j.ReduceMB) > 1<<30:
		return r.Wrong("submitTime", fmt.Sprint(submit), "a job that is too late or too large: want milliseconds and MB")
	case submit <= 0:
		s.counts.undated++
		return nil
	}
	p, known := priorities[strings.ToUpper(j.Priority)]
	if !known {
		p = headrace.Normal
	}
	s.jobs++
	name := cmp.Or(input.Shown(j.ID), fmt.Sprintf("job %d", s.jobs))
	if title := input.Shown(j.Name); title != "" {
		name += ":" + title
	}
	base := workload.Task{Job: s.to.Job(s.names.Name(name)), Submit: time.Duration(submit) * time.Millisecond, CPUs: 1, User: s.to.User(input.Shown(j.User)),
		Priority: s.given.Priority(p, j.Queue, j.Queue[strings.LastIndexByte(j.Queue, '.')+1:])}
	s.counts.others += int64(len(j.OtherTask))
	if j.MapMB <= 0 && len(j.Maps) > 0 || j.ReduceMB <= 0 && len(j.Reduces) > 0 {
		s.counts.memory++
	}
	maps, reduces := base, base
	if len(j.Maps) > 0 && len(j.Reduces) > 0 {
		maps.Stage, reduces.Stage = s.to.Stage(), s.to.Stage()
		s.to.After(reduces.Stage, maps.Stage)
	}
	last := int64(0) // when the maps were done
	for _, t := range j.Maps {
		for _, a := range t.Attempts {
			if a.Result == "SUCCESS" {
				last = max(last, a.Finish)
			}
		}
	}
	if err := s.give(maps, j.Maps, j.MapMB, 0, 0); err != nil {
		return err
	}
	return s.give(reduces, j.Reduces, j.ReduceMB, last, int32(len(j.Maps)))
}

// give gives tasks of one kind, which are numbered from a number on. What an attempt ran
// before a time was waiting.
func (s *reader) give(t workload.Task, list []task, mb, from int64, index int32) error {
	if mb <= 0 {
		mb = 1024
	}
	t.Memory = mb << 20
	t = s.given.Task(t)
	for i := range list {
		t.Index = index + int32(i)
		run, succeeded := list[i].run(from)
		switch {
		case run < 0 || run > maxMillis:
			s.counts.never++
			continue
		case !succeeded:
			s.counts.failed++
		}
		t.Run = time.Duration(run) * time.Millisecond
		if err := s.tasks.Task(t); err != nil {
			return err
		}
	}
	return nil
}

// run returns how many milliseconds the attempt ran that succeeded, or the longest one if
// none did; negative: it is not known.
func (t *task) run(from int64) (run int64, succeeded bool) {
	run = -1
	for _, a := range t.Attempts {
		if a.Start <= 0 || a.Finish < a.Start {
			continue
		}
		length := a.Finish - min(max(a.Start, from), a.Finish)
		if a.Result == "SUCCESS" {
			return length, true
		}
		run = max(run, length)
	}
	return run, false
}
