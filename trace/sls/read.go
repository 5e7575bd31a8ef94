package sls

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// maxObject is the most bytes of one job, maxMillis the last time and the longest.
const (
	maxObject = 64 << 20
	maxMillis = int64(workload.MaxTime / time.Millisecond)
)

// job is a job as the simulator reads it.
type job struct {
	AM       string                    `json:"am.type"`
	OtherAM  string                    `json:"yarn.sls.am.type"`
	Start    input.Scalar              `json:"job.start.ms"`
	Queue    string                    `json:"job.queue.name"`
	ID       input.Scalar              `json:"job.id"`
	User     string                    `json:"job.user"`
	Priority input.Scalar              `json:"job.priority"`
	Count    input.Scalar              `json:"job.count"`
	Tasks    []map[string]input.Scalar `json:"job.tasks"`
}

// reader makes tasks of jobs.
type reader struct {
	given *workload.Given
	to    workload.Sink
	tasks workload.Rebased
	jobs  int
	names workload.Unique
	empty int64
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
	a.NoteSome(workload.Noted{N: s.empty, Text: "jobs have no tasks: left out"})
	return a, s.tasks.Pour(to)
}

// number reads a whole number of 0 to most; negative ones and none are otherwise.
func number(r *input.Record[job], field string, s input.Scalar, otherwise, most int64) (int64, error) {
	v, err := s.Whole(otherwise)
	switch {
	case err != nil || v > most:
		return 0, r.Wrong(field, string(s), fmt.Sprintf("want a whole number, at most %d", most))
	case v < 0:
		return otherwise, nil
	}
	return v, nil
}

func (s *reader) job(r *input.Record[job]) error {
	j := &r.Value
	start, err := number(r, "job.start.ms", j.Start, 0, maxMillis)
	if err != nil {
		return err
	}
	priority, err := number(r, "job.priority", j.Priority, 0, 1<<31)
	if err != nil {
		return err
	}
	count, err := number(r, "job.count", j.Count, 1, workload.MaxJobTasks)
	if err != nil {
		return err
	}
	if len(j.Tasks) == 0 {
		s.empty++
		return nil
	}
	p := headrace.Normal
	if priority > 0 {
		p = headrace.Priority(min(priority, int64(headrace.MaxPriority)))
	}
	base := workload.Task{Submit: time.Duration(start) * time.Millisecond, User: s.to.User(input.Shown(j.User)),
		Priority: s.given.Priority(p, j.Queue, j.Queue[strings.LastIndexByte(j.Queue, '.')+1:])}
	s.jobs++
	id := cmp.Or(input.Shown(string(j.ID)), fmt.Sprintf("job %d", s.jobs))
	for n := range count {
		name := id
		if count > 1 {
			name += "-" + strconv.FormatInt(n, 10)
		}
		base.Job = s.to.Job(s.names.Name(name))
		if err := s.give(r, base); err != nil {
			return err
		}
	}
	return nil
}

// give gives a job's tasks.
func (s *reader) give(r *input.Record[job], base workload.Task) error {
	j := &r.Value
	maps, reduces := false, false
	for _, c := range j.Tasks {
		maps, reduces = maps || c["container.type"] == "map", reduces || c["container.type"] == "reduce"
	}
	var stages map[input.Scalar]int32
	if strings.EqualFold(cmp.Or(j.AM, j.OtherAM), "mapreduce") && maps && reduces {
		stages = map[input.Scalar]int32{"map": s.to.Stage(), "reduce": s.to.Stage()}
		s.to.After(stages["reduce"], stages["map"])
	}
	index := int32(0)
	for _, c := range j.Tasks {
		t, count, err := s.container(r, c)
		if err != nil {
			return err
		}
		t.Job, t.User, t.Priority, t.Stage = base.Job, base.User, base.Priority, stages[c["container.type"]]
		t.Submit += base.Submit
		for range count {
			t.Index = index
			index++
			if err := s.tasks.Task(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// container returns a task, how long after the job it is submitted, and how many times it
// is there.
func (s *reader) container(r *input.Record[job], c map[string]input.Scalar) (t workload.Task, count int64, err error) {
	var begin, end, length, delay, memory, cpus int64
	const none = -1
	for _, v := range []struct {
		to              *int64
		field           string
		otherwise, most int64
	}{
		{&begin, "container.start.ms", none, maxMillis}, {&end, "container.end.ms", none, maxMillis}, {&length, "duration.ms", none, maxMillis},
		{&delay, "container.request.delay", 0, maxMillis}, {&memory, "container.memory", 1024, 1 << 30}, {&cpus, "container.vcores", 1, 1 << 20},
		{&count, "count", 1, workload.MaxJobTasks},
	} {
		field, text := v.field, c[v.field]
		switch {
		case text != "":
		case field == "container.memory":
			field, text = "container.memory-mb", c["container.memory-mb"]
		case field == "duration.ms":
			field, text = "container.duration.ms", c["container.duration.ms"]
		case field == "count":
			field, text = "container.count", c["container.count"]
		}
		if *v.to, err = number(r, field, text, v.otherwise, v.most); err != nil {
			return t, 0, err
		}
	}
	if length == none {
		if begin == none || end < begin {
			return t, 0, r.Wrong("job.tasks", "", "a task without duration.ms, and without container.start.ms and a later container.end.ms")
		}
		length = end - begin
	}
	t = s.given.Task(workload.Task{Submit: time.Duration(delay) * time.Millisecond, Run: time.Duration(length) * time.Millisecond,
		CPUs: float32(max(1, cpus)), Memory: memory << 20})
	t.Need, err = s.need(r, c)
	return t, count, err
}

// need reads what else a task asks for, such as container.yarn.io/gpu.
func (s *reader) need(r *input.Record[job], c map[string]input.Scalar) (int32, error) {
	var amounts []float32
	for _, field := range slices.Sorted(maps.Keys(c)) {
		text := c[field]
		resource, ok := strings.CutPrefix(field, "container.yarn.io/")
		if !ok || resource == "" {
			continue
		}
		n, err := number(r, field, text, 0, 1<<20)
		if err != nil {
			return 0, err
		}
		at := s.to.Resource(input.Shown(resource))
		amounts = workload.Grown(amounts, at+1)
		amounts[at] = float32(n)
	}
	return s.to.Need(amounts), nil
}
