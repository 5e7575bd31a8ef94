package alibaba

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// The fields of batch_task.csv, which has no line with their names. They are as in schema.txt, which comes
// with the trace: another description of it, trace_2018.md, has the job and the type the other way round.
var taskFields = [...]string{"task_name", "instance_num", "job_name", "task_type", "status", "start_time", "end_time", "plan_cpu", "plan_mem"}

// Those of batch_instance.csv.
var instanceFields = [...]string{"instance_name", "task_name", "job_name", "task_type", "status", "start_time", "end_time", "machine_id",
	"seq_no", "total_seq_no", "cpu_avg", "cpu_max", "mem_avg", "mem_max"}

// jobField and typeField are where both tables have them.
const jobField, typeField = 2, 3

// maxSeconds is the last time.
const maxSeconds = float64(workload.MaxTime / time.Second)

// stageTask is a task of a job of theirs: so many instances, each of which is a task of ours.
type stageTask struct {
	job        int32
	start, run time.Duration
	instances  int32
	seen       int32 // in batch_instance
	cpus       float32
	memory     int64
	stage      int32
	number     int   // in the job's graph; 0: in none
	after      []int // numbers
	waits      bool  // for one of these that is there
}

// ownName is how instances name their task.
type ownName struct{ job, task string }

type reader struct {
	m      *input.Meter
	given  workload.Given
	part   workload.Part
	to     workload.Sink
	jobs   map[string]int32
	next   []int32 // the number of a job's next task
	first  []time.Duration
	tasks  []*stageTask
	byName map[ownName]*stageTask
	counts struct{ never, unplanned, gone, unknown, open, fewer int64 }
}

// Read reads batch_task.csv and, if it is there, batch_instance.csv of a directory, or their
// archives as published, into a sink.
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	if g.Memory == 0 {
		g.Memory = 128 << 30
	}
	if info, err := os.Stat(name); err != nil {
		return a, fmt.Errorf("trace: %w", err)
	} else if !info.IsDir() {
		return a, fmt.Errorf("trace: %s is a file: want the directory that has batch_task.csv or batch_task.tar.gz in it", name)
	}
	dir := m.Below(name)
	tasks, instances := find(dir, "batch_task"), find(dir, "batch_instance")
	if tasks == "" {
		return a, fmt.Errorf("trace: %s: there is no batch_task.csv, batch_task.csv.gz or batch_task.tar.gz", name)
	}
	m.Expect(dir, []string{tasks, instances})
	r := newReader(m, g, part, to)
	if err := each(dir, tasks, "batch_task.csv", r.readTasks); err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	r.stages()
	if instances != "" {
		if err := each(dir, instances, "batch_instance.csv", r.readInstances); err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := r.rest(instances != ""); err != nil {
		return a, err
	}
	r.notes(&a)
	return a, nil
}

func newReader(m *input.Meter, g workload.Given, part workload.Part, to workload.Sink) *reader {
	return &reader{m: m, given: g, part: part, to: to, jobs: map[string]int32{}, byName: map[ownName]*stageTask{}}
}

// find returns the file that a table is in, empty if there is none.
func find(dir fs.FS, table string) string {
	for _, ext := range []string{".csv", ".csv.gz", ".tar.gz", ".tar"} {
		if _, err := fs.Stat(dir, table+ext); err == nil {
			return table + ext
		}
	}
	return ""
}

// each has a table read, which may be in an archive.
func each(dir fs.FS, name, member string, read func(io.Reader) error) error {
	return input.Open(dir, name, func(in io.Reader) error {
		if !strings.Contains(name, ".tar") {
			return named(name, read(in))
		}
		archive := tar.NewReader(in)
		for {
			h, err := archive.Next()
			if err == io.EOF {
				err = errors.New("there is no " + member + " in it")
			}
			if err != nil {
				return named(name, err)
			}
			if path.Base(h.Name) == member {
				return named(name, read(archive))
			}
		}
	})
}

func named(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// line is a line of a table.
type line struct {
	p      *input.Parser
	names  []string
	fields [][]byte
	err    error
}

func parse(p *input.Parser, text []byte, names []string) *line {
	l := &line{p: p, names: names, fields: make([][]byte, len(names))}
	l.err = p.Commas(text, l.fields)
	return l
}

func (l *line) text(i int) string {
	if l.err != nil {
		return ""
	}
	s, err := l.p.Text(l.names[i], l.fields[i])
	l.err = err
	return s
}

// job reads the name of the job. A table whose type stands in its place would have all tasks in a dozen jobs.
func (l *line) job() string {
	job, kind := l.text(jobField), l.text(typeField)
	if l.err == nil && input.Digits(job) && kind != "" && !input.Digits(kind) {
		l.err = l.p.Wrong(l.names[jobField], l.fields[jobField], "want the job here, such as j_1, and its type in the next field, as in the files that are published: exchange the two")
	}
	return job
}

// number reads a number; none is 0.
func (l *line) number(i int, most float64) float64 {
	if l.err != nil || len(l.fields[i]) == 0 {
		return 0
	}
	v, err := strconv.ParseFloat(string(l.fields[i]), 64)
	if err != nil || !(v >= -1 && v <= most) {
		l.err = l.p.Wrong(l.names[i], l.fields[i], fmt.Sprintf("want a number, at most %.0f", most))
	}
	return v
}

// times returns when a line's task began and how long it ran, and whether both are known: 0
// stands for what is before or after the trace.
func (l *line) times(from, to int) (start, run time.Duration, known bool) {
	a, b := l.number(from, maxSeconds), l.number(to, maxSeconds)
	if a <= 0 || b < a {
		return 0, 0, false
	}
	return seconds(a), seconds(b - a), true
}

func seconds(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }

// readTasks reads batch_task.
func (r *reader) readTasks(in io.Reader) error {
	for l, err := range input.Lines(in, func(p *input.Parser, text []byte) (*line, error) { return parse(p, text, taskFields[:]), nil }) {
		if err != nil {
			return err
		}
		r.m.Record()
		name, job := strings.Clone(l.text(0)), l.job()
		instances := l.number(1, workload.MaxJobTasks)
		start, run, known := l.times(5, 6)
		cpu, memory := l.number(7, 1e8), l.number(8, 1e8)
		status := l.text(4)
		switch {
		case l.err != nil:
			return l.err
		case !known || instances < 1:
			r.counts.never++
			continue
		case status != "Terminated":
			r.counts.open++
		}
		t := &stageTask{start: start, run: run, instances: int32(instances), cpus: float32(cpu / 100)}
		if memory > 0 && memory <= 100 {
			t.memory = int64(memory / 100 * float64(r.given.Memory))
		}
		if cpu <= 0 || t.memory == 0 {
			r.counts.unplanned++
			t.cpus = max(t.cpus, 0)
			if cpu <= 0 {
				t.cpus = 1
			}
			t.memory = cmp.Or(t.memory, r.given.Memory/100)
		}
		t.number, t.after = graph(name)
		t.job = r.job(job, start)
		r.tasks = append(r.tasks, t)
		if len(r.tasks) > r.part.Tasks {
			return workload.TooManyHeld(r.part.Tasks)
		}
		key := ownName{strings.Clone(job), name}
		if r.byName[key] == nil {
			r.byName[key] = t
		}
	}
	return nil
}

// job returns the number of a job, which was there at a time.
func (r *reader) job(name string, at time.Duration) int32 {
	n, ok := r.jobs[name]
	if !ok {
		name = strings.Clone(name)
		n = r.to.Job(cmp.Or(name, "(none)"))
		r.jobs[name] = n
		r.next, r.first = append(r.next, 0), append(r.first, at)
	}
	r.first[n] = min(r.first[n], at)
	return n
}

// graph returns what a name such as R4_2_3 says: that it is task 4 of its job, and comes
// after 2 and 3. Other names say nothing: 0. Parts that are no numbers are passed over.
func graph(name string) (number int, after []int) {
	parts := strings.Split(name, "_")
	digits := strings.TrimLeft(parts[0], "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	if digits == parts[0] || !input.Digits(digits) || len(digits) > 6 {
		return 0, nil
	}
	number, _ = strconv.Atoi(digits)
	for _, p := range parts[1:] {
		if n, err := strconv.Atoi(p); err == nil && input.Digits(p) && len(p) <= 6 && n > 0 && n != number {
			after = append(after, n)
		}
	}
	return number, after
}

// stages makes the graphs of jobs. Every task of a job is submitted with the first one
// where it waits for others; one that waits for none was submitted when it began.
func (r *reader) stages() {
	type place struct {
		job    int32
		number int
	}
	at := map[place]*stageTask{}
	for _, t := range r.tasks {
		if t.number > 0 && at[place{t.job, t.number}] == nil {
			at[place{t.job, t.number}] = t
		}
	}
	for _, t := range r.tasks {
		for _, n := range t.after {
			before := at[place{t.job, n}]
			switch {
			case before == nil:
				r.counts.gone++
				continue
			case before.start > t.start:
				// It began before the other one: names of two runs of a job may be mixed, and
				// what goes back in time could be a circle.
				r.counts.gone++
				continue
			case before.start == t.start && before.number >= t.number:
				r.counts.gone++
				continue
			}
			for _, s := range []*stageTask{before, t} {
				if s.stage == 0 {
					s.stage = r.to.Stage()
				}
			}
			r.to.After(t.stage, before.stage)
			t.waits = true
		}
	}
}

// give gives one instance that ran so long to the sink.
func (r *reader) give(t *stageTask, start, run time.Duration) error {
	submit := start
	if t.waits {
		submit = r.first[t.job]
	}
	k := r.given.Task(workload.Task{Job: t.job, Index: r.next[t.job], Submit: submit, Run: run, Priority: headrace.Normal, CPUs: t.cpus, Memory: t.memory, Stage: t.stage})
	r.next[t.job]++
	t.seen++
	return r.to.Task(k)
}

// readInstances reads batch_instance.
func (r *reader) readInstances(in io.Reader) error {
	for l, err := range input.Lines(in, func(p *input.Parser, text []byte) (*line, error) { return parse(p, text, instanceFields[:]), nil }) {
		if err != nil {
			return err
		}
		r.m.Record()
		task, job, status := l.text(1), l.job(), l.text(4)
		start, run, known := l.times(5, 6)
		if l.err != nil {
			return l.err
		}
		t := r.byName[ownName{job, task}]
		switch {
		case t == nil:
			r.counts.unknown++
			continue
		case !known || status == "Failed" || status == "Interrupted":
			continue // another line may be of the same instance; rest makes up for it otherwise
		case t.seen == t.instances:
			continue
		}
		if err := r.give(t, start, run); err != nil {
			return err
		}
	}
	return nil
}

// rest gives the instances that no line was about: they ran as long as their task.
func (r *reader) rest(instances bool) error {
	for _, t := range r.tasks {
		if instances && t.seen < t.instances {
			r.counts.fewer += int64(t.instances - t.seen)
		}
		for t.seen < t.instances {
			if err := r.give(t, t.start, t.run); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *reader) notes(a *workload.About) {
	a.Note("memory is in shares of the largest machine, taken to have %d GiB", r.given.Memory>>30)
	a.NoteSome(
		workload.Noted{N: r.counts.never, Text: "tasks do not say when they began or ended, or have no instances: left out"},
		workload.Noted{N: r.counts.open, Text: "tasks failed, or were not done when the trace ended: they have the running time seen"},
		workload.Noted{N: r.counts.unplanned, Text: "tasks do not say what they ask for: taken to ask for 1 CPU, or 1 % of the largest machine's memory"},
		workload.Noted{N: r.counts.gone, Text: "dependencies are on tasks that are not there, or that began later: left out"},
		workload.Noted{N: r.counts.unknown, Text: "instances are of tasks that are not there: left out"},
		workload.Noted{N: r.counts.fewer, Text: "instances have no line of their own with both times: they run as long as their task"},
	)
}
