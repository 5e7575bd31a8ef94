package yarn

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"headrace/trace/workload"

	"headrace"
)

func (o Options) check() error {
	for queue, p := range o.Queues {
		if p > headrace.MaxPriority {
			return fmt.Errorf("trace: priority %d for queue %q: want 0 to %d", p, queue, headrace.MaxPriority)
		}
	}
	if o.Priority != nil && *o.Priority > headrace.MaxPriority {
		return fmt.Errorf("trace: priority %d: want 0 to %d", *o.Priority, headrace.MaxPriority)
	}
	return o.Assumed.Check()
}

// priority returns that of an application.
func (o *Options) priority(a *application) headrace.Priority {
	if p, ok := o.Queues[a.queue]; ok {
		return p
	}
	if p, ok := o.Queues[a.queue[strings.LastIndexByte(a.queue, '.')+1:]]; ok {
		return p
	}
	switch {
	case a.priority > 0:
		return headrace.Priority(min(a.priority, int64(headrace.MaxPriority)))
	case o.Priority != nil:
		return *o.Priority
	}
	return headrace.Normal
}

// counts says what was left out or guessed.
type counts struct {
	never, open, alone, unbound, estimated int
}

// maker makes tasks of records. Times become times since the first submission.
//
// A container is a task, submitted when it was allocated (the first container of an
// application: when the application was), that runs from there, or from when the log
// says that it was RUNNING, to its end. A preempted container and the next one of the
// application that is as large and of the same priority, and begins after it, are one
// task, which was preempted; where there is no such container the preempted one is a
// task by itself.
//
// An application without containers is as many tasks of one core or so as it had on
// average: vcoreSeconds, less what was preempted, over its running time.
type maker struct {
	o     *Options
	out   []workload.Task
	jobs  []*application
	last  int64 // the latest time of all
	most  int   // tasks
	count counts
}

func (y *records) tasks(o *Options, most int, to workload.Sink, about *workload.About) error {
	y.universal(o)
	for _, c := range y.containers {
		a := y.app(c.id.app)
		a.containers = append(a.containers, c)
	}
	clear(y.containers)
	t := &maker{o: o, most: most}
	t.jobs = slices.SortedFunc(maps.Values(y.apps), func(a, b *application) int {
		return cmp.Or(cmp.Compare(a.id.cluster, b.id.cluster), cmp.Compare(a.id.number, b.id.number))
	})
	for _, a := range t.jobs {
		t.last = max(t.last, a.submitted, a.started, a.finished)
		for _, c := range a.containers {
			t.last = max(t.last, c.started, c.finished)
		}
	}
	for i, a := range t.jobs {
		if len(a.containers) > 0 {
			t.containers(int32(i), a)
		} else if err := t.estimate(int32(i), a); err != nil {
			return err
		}
		a.containers = nil
	}
	t.notes(about)
	return t.pour(to)
}

// universal makes all times of logs milliseconds since 1970 in UTC. What the REST API
// says goes before what logs say.
func (y *records) universal(o *Options) {
	at := func(ms int64) int64 {
		switch {
		case ms == 0:
			return 0
		case o.Zone != nil:
			t := time.UnixMilli(ms).UTC()
			return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), o.Zone).UnixMilli()
		}
		return ms - y.zone
	}
	for _, a := range y.apps {
		if a.submitted == 0 {
			a.submitted = cmp.Or(a.started, at(a.logSubmitted))
		}
	}
	for _, c := range y.containers {
		c.logAllocated, c.logRun, c.logDone = at(c.logAllocated), at(c.logRun), at(c.logDone)
		if c.started == 0 {
			c.started = cmp.Or(c.logAllocated, c.logRun)
		} else if c.logRun < c.started {
			c.logRun = 0
		}
		if c.finished == 0 {
			c.finished = c.logDone
		}
	}
}

// size is what containers have to have in common to replace each other.
type size struct{ mb, vcores, priority int64 }

// containers makes tasks of an application's containers.
func (t *maker) containers(job int32, a *application) {
	slices.SortFunc(a.containers, func(b, c *container) int {
		return cmp.Or(cmp.Compare(b.started, c.started), cmp.Compare(b.id.epoch, c.id.epoch), cmp.Compare(b.id.attempt, c.id.attempt), cmp.Compare(b.id.number, c.id.number))
	})
	type victim struct {
		task  workload.Task
		until int64
	}
	waiting := map[size][]victim{}
	index := int32(0)
	give := func(v workload.Task) {
		v.Index = index
		index++
		t.out = append(t.out, v)
	}
	for _, c := range a.containers {
		task, until, ok := t.container(job, a, c)
		if !ok {
			t.count.never++
			continue
		}
		size := size{c.mb, c.vcores, c.priority}
		if list := waiting[size]; len(list) > 0 && list[0].until <= c.started {
			before := list[0].task
			waiting[size] = list[1:]
			task.Submit, task.Preempted, task.Lost = before.Submit, before.Preempted, before.Lost
		}
		if c.preempted {
			task.Preempted++
			task.Lost += task.Run
			waiting[size] = append(waiting[size], victim{task, until})
			continue
		}
		give(task)
	}
	var left []victim
	for _, list := range waiting {
		left = append(left, list...)
	}
	slices.SortFunc(left, func(v, w victim) int {
		return cmp.Or(cmp.Compare(v.task.Submit, w.task.Submit), cmp.Compare(v.until, w.until), cmp.Compare(v.task.Memory, w.task.Memory), cmp.Compare(v.task.CPUs, w.task.CPUs))
	})
	t.count.alone += len(left)
	for _, v := range left {
		give(v.task)
	}
}

// container returns the task of one container, submitted at a time since 1970, and when
// it ended; false if it never ran.
func (t *maker) container(job int32, a *application, c *container) (task workload.Task, until int64, ok bool) {
	from := max(c.started, c.logRun)
	until = c.finished
	if until == 0 {
		until = t.last
		t.count.open++
	}
	if c.started == 0 || c.logAllocated != 0 && c.logRun == 0 && c.logDone != 0 || until < from {
		return workload.Task{}, 0, false
	}
	if c.mb == 0 && c.vcores == 0 {
		t.count.unbound++
	}
	submit := c.started
	if c.id.attempt <= 1 && c.id.number == 1 && a.submitted > 0 {
		submit = min(submit, a.submitted)
	}
	return t.task(job, a, submit, until-from, float64(max(1, c.vcores)), cmp.Or(c.mb, 1024)<<20), until, true
}

// task has Submit in milliseconds since 1970 for now.
func (t *maker) task(job int32, a *application, submit, run int64, cpus float64, memory int64) workload.Task {
	return workload.Task{Job: job, Submit: time.Duration(submit), Run: time.Duration(run) * time.Millisecond, Priority: t.o.priority(a),
		CPUs: float32(cpus), Memory: memory, Grow: float32(t.o.Grow.Seconds()), Dirty: float32(t.o.DirtyBytes(memory))}
}

// estimate makes tasks of an application of which only the sums are known.
func (t *maker) estimate(job int32, a *application) error {
	from := cmp.Or(a.launched, a.submitted)
	run := a.finished - from
	if a.finished == 0 {
		run = a.elapsed - (from - a.submitted)
	}
	cores := float64(a.vcoreSeconds-min(a.preemptedVcoreSeconds, a.vcoreSeconds)) * 1000 / float64(run)
	if a.submitted == 0 || run <= 0 || run > maxTime || cores <= 0 {
		t.count.never++
		return nil
	}
	if cores > workload.MaxJobTasks {
		return fmt.Errorf("trace: %s: %d vcore-seconds in %d ms are %.0f cores at once: more than %d", a.id, a.vcoreSeconds, run, cores, workload.MaxJobTasks)
	}
	t.count.estimated++
	n := int64(max(1, math.Round(cores)))
	if len(t.out)+int(n) > t.most {
		return workload.TooManyHeld(t.most)
	}
	memory := float64(a.memorySeconds) * 1000 / float64(run) / float64(n) * (1 << 20)
	task := t.task(job, a, a.submitted, run, cores/float64(n), int64(min(memory, maxMB<<20)))
	preempted := min(a.preemptions, 1<<31)
	for i := range n {
		task.Index = int32(i)
		task.Preempted = int32(min(preempted/n+min(1, max(0, preempted%n-i)), math.MaxInt32))
		if preempted > 0 {
			each := min(float64(a.preemptedVcoreSeconds)/float64(preempted)*float64(task.Preempted), float64(maxTime/1000))
			task.Lost = time.Duration(each * float64(time.Second))
		}
		t.out = append(t.out, task)
	}
	return nil
}

// pour gives the tasks to a sink, with times since the first submission.
func (t *maker) pour(to workload.Sink) error {
	first := time.Duration(math.MaxInt64)
	for i := range t.out {
		first = min(first, t.out[i].Submit)
	}
	for _, a := range t.jobs {
		to.Job(a.jobName())
	}
	for _, task := range t.out {
		task.Submit = (task.Submit - first) * time.Millisecond
		task.User = to.User(t.jobs[task.Job].user)
		if err := to.Task(task); err != nil {
			return err
		}
	}
	return nil
}

func (t *maker) notes(a *workload.About) {
	for _, n := range []struct {
		n    int
		text string
	}{
		{t.count.estimated, "applications without records of containers: tasks of about one core are guessed from their sums"},
		{t.count.never, "containers or applications that never ran: left out"},
		{t.count.open, "containers that had not ended: they have the running time up to the last record"},
		{t.count.alone, "preempted containers without a successor: they are tasks with the running time they had"},
		{t.count.unbound, "containers of unknown size: taken to have 1 core and 1024 MB"},
	} {
		if n.n > 0 {
			a.Note("%d %s", n.n, n.text)
		}
	}
}
