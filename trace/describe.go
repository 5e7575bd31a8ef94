package trace

import (
	"context"
	"time"

	"headrace/trace/workload"

	"headrace"
)

// Description is what there is to know of a workload as a whole. Times are seconds,
// sizes bytes.
type Description struct {
	Name  string `json:"name"`
	Jobs  int    `json:"jobs"`
	Tasks int    `json:"tasks"`
	// Files is how many files are read, Input how many bytes.
	Files int     `json:"files"`
	Bytes float64 `json:"bytes"`
	// Span is from the start of the trace to the last submission.
	Span    float64          `json:"span"`
	Cluster workload.Cluster `json:"cluster"`

	// Arrivals is how many tasks are submitted in each hour.
	Arrivals   []int   `json:"arrivals"`
	ByPriority []Group `json:"by_priority"`
	ByBand     []Group `json:"by_band"`
	ByClass    []Group `json:"by_class"`

	TasksPerJob Distribution `json:"tasks_per_job"`
	Run         Distribution `json:"run"`
	CPUs        Distribution `json:"cpus"`
	Memory      Distribution `json:"memory"`
	// Input is that of tasks that have one.
	Input Distribution `json:"input"`

	Related

	// Requested is the sum of the CPUs that tasks ask for. Peak is how many would be
	// busy if every task ran as soon as it is submitted: the greatest mean of a
	// minute (of a longer time in traces of more than 45 days). CoreHours is CPUs
	// times running time.
	Requested float64 `json:"requested"`
	Peak      float64 `json:"peak"`
	CoreHours float64 `json:"core_hours"`

	// Recorded: Lost and Outcome are what became of the tasks. Lost is in core-hours.
	Recorded bool              `json:"recorded"`
	Lost     float64           `json:"lost,omitempty"`
	Outcome  *workload.Outcome `json:"outcome,omitempty"`
	// Bands are the outcome's priorities put together: free, middle, production.
	Bands []workload.Preempted `json:"bands,omitempty"`

	// Notes say what of the trace was left out or had to be guessed.
	Notes []string `json:"notes,omitempty"`
}

// Group is the tasks of one priority, band or class.
type Group struct {
	Name      string  `json:"name"`
	Tasks     int     `json:"tasks"`
	Requested float64 `json:"requested"`
	CoreHours float64 `json:"core_hours"`
}

func (g *Group) add(t *workload.Task) {
	g.Tasks++
	g.Requested += float64(t.CPUs)
	g.CoreHours += float64(t.CPUs) * t.Run.Hours()
}

// Describe describes a workload that is held.
func Describe(w *workload.Workload) Description {
	d := newDescriber()
	d.jobs = make([]int32, len(w.Jobs))
	d.files = len(w.Files)
	d.Relations = workload.Relations{Users: w.Users, Resources: w.Resources, Needs: w.Needs, Stages: w.Stages}
	for i := range w.Tasks {
		d.add(&w.Tasks[i])
	}
	o := w.Outcome
	if o == nil && w.Recorded {
		o = d.outcome
	}
	return d.description(workload.About{Name: w.Name, Cluster: w.Cluster, Recorded: w.Recorded, Outcome: o, Notes: w.Notes})
}

// DescribeSource describes a trace, with Open's sources and options, as it is read:
// tasks are not kept, so a trace may be larger than memory. What takes room is four
// bytes for each job, and what reading the trace takes (see docs/traces.md): the tasks
// of synthetic, slurm, kubernetes, sls and rumen traces, the containers of YARN, the jobs
// of swf and the tasks of alibaba2018, each with many instances, are held. Of what is held
// OpenOptions.MaxTasks is the most, not of what is described; synthetic has a bound of its own.
func DescribeSource(ctx context.Context, source string, o OpenOptions) (Description, error) {
	d := newDescriber()
	a, err := read(ctx, source, o, o.part(), o.part().Window(d))
	if err != nil {
		return Description{}, err
	}
	if a.Outcome == nil && a.Recorded {
		a.Outcome = d.outcome
	}
	return d.description(a), nil
}

// describer is a sink that describes what goes into it.
type describer struct {
	workload.Relations
	related                        related
	jobs                           []int32 // tasks of each
	files                          int
	last                           time.Duration
	arrivals                       []int
	byPriority                     [workload.Priorities]Group
	byClass                        [workload.Classes]Group
	perJob, run, cpus, mem, inputs sketch
	demand                         demand
	lost                           float64
	outcome                        *workload.Outcome
}

func newDescriber() *describer { return &describer{outcome: workload.NewOutcome()} }

func (d *describer) Job(string) int32 {
	d.jobs = append(d.jobs, 0)
	return int32(len(d.jobs) - 1)
}

func (d *describer) File(string) int32 {
	d.files++
	return int32(d.files)
}

func (d *describer) Size(int32, int64) {}

func (d *describer) Task(t workload.Task) error {
	d.add(&t)
	return nil
}

func (d *describer) add(t *workload.Task) {
	d.jobs[t.Job]++
	d.last = max(d.last, t.Submit)
	h := workload.HourOf(t.Submit)
	d.arrivals = workload.Grown(d.arrivals, h+1)
	d.arrivals[h]++
	d.byPriority[t.Priority].add(t)
	d.byClass[t.Class].add(t)
	d.run.add(t.Run.Seconds())
	d.cpus.add(float64(t.CPUs))
	d.mem.add(float64(t.Memory))
	if t.File != 0 {
		d.inputs.add(float64(t.Input))
	}
	d.demand.add(t.Submit, t.Run, float64(t.CPUs))
	d.related.add(t)
	d.lost += t.Lost.Hours() * float64(t.CPUs)
	d.outcome.Add(t, int(t.Preempted)+1)
}

// description returns the end.
func (d *describer) description(a workload.About) Description {
	r := Description{Name: a.Name, Files: d.files, Bytes: d.inputs.sum, Span: d.last.Seconds(), Cluster: a.Cluster,
		Arrivals: d.arrivals, Run: d.run.distribution(), CPUs: d.cpus.distribution(), Memory: d.mem.distribution(), Input: d.inputs.distribution(),
		Peak: d.demand.peak(), Recorded: a.Recorded, Notes: a.Notes, ByBand: bandGroups(), Related: d.related.sums(&d.Relations)}
	for _, n := range d.jobs {
		if n > 0 {
			r.Jobs++
			d.perJob.add(float64(n))
		}
	}
	r.TasksPerJob = d.perJob.distribution()
	for p, g := range d.byPriority {
		g.Name = headrace.Priority(p).String()
		r.ByPriority = append(r.ByPriority, g)
		b := &r.ByBand[workload.BandOf(headrace.Priority(p))]
		b.Tasks += g.Tasks
		b.Requested += g.Requested
		b.CoreHours += g.CoreHours
		r.Tasks += g.Tasks
		r.Requested += g.Requested
		r.CoreHours += g.CoreHours
	}
	for c, g := range d.byClass {
		g.Name = string(rune('0' + c))
		r.ByClass = append(r.ByClass, g)
	}
	if a.Recorded {
		r.Lost, r.Outcome, r.Bands = d.lost, a.Outcome, a.Outcome.Bands()
	}
	return r
}

func bandGroups() []Group {
	groups := make([]Group, len(workload.BandNames))
	for i, name := range workload.BandNames {
		groups[i].Name = name
	}
	return groups
}
