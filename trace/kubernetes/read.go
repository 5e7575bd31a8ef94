package kubernetes

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/trace/input"
	"headrace/trace/workload"
)

// maxObject is the most bytes of one pod.
const maxObject = 4 << 20

// pod is what is read of a pod.
type pod struct {
	Metadata struct {
		Name, Namespace, UID string
		CreationTimestamp    *time.Time
		OwnerReferences      []struct {
			Kind, Name string
			Controller bool
		}
	}
	Spec struct {
		Priority                   *int64
		PriorityClassName          string
		Containers, InitContainers []container
		Resources                  resources // of all containers together
		ResourceClaims             []struct{}
		Overhead                   map[string]input.Scalar
	}
	Status struct {
		Phase             string
		StartTime         *time.Time
		ContainerStatuses []struct {
			State, LastState state
			RestartCount     int64
		}
	}
}

type container struct {
	RestartPolicy string
	Resources     resources
}

type resources struct{ Requests, Limits map[string]input.Scalar }

type state struct{ Running, Terminated *span }

type span struct{ StartedAt, FinishedAt *time.Time }

// entry is a pod as long as others may come.
type entry struct {
	task       workload.Task
	start, end time.Time // end is zero for one that runs
	name, job  string
	restarted  bool // the starts of its containers do not tell when it began
	claims     bool // it asks for devices of which it does not say what they are
}

type reader struct {
	given  *workload.Given
	to     workload.Sink
	most   int
	pods   []entry
	known  map[string]int // by uid
	latest time.Time
	counts struct{ never, running, failed, restarted, claims, memory int64 }
}

// Read reads the pods of a file, or of all files *.json and *.jsonl below a directory, into a
// sink. The controller that owns pods is their job, their namespace the user.
func Read(m *input.Meter, name string, g workload.Given, part workload.Part, to workload.Sink) (a workload.About, err error) {
	if err := g.Check(); err != nil {
		return a, err
	}
	r := &reader{given: &g, to: to, most: part.Tasks, known: map[string]int{}}
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return a, fmt.Errorf("trace: %w", err)
	case info.IsDir():
		err = m.WithDirectory(name, isList, "*.json or *.jsonl", func(_ string, in io.Reader) error { return r.file(m, in) })
	default:
		err = m.WithFile(name, func(in io.Reader) error { return r.file(m, in) })
	}
	if err != nil {
		return a, err
	}
	tasks := workload.Rebased{Most: part.Tasks}
	if err := r.give(&tasks); err != nil {
		return a, err
	}
	tasks.Cut(&a)
	a.NoteSome(
		workload.Noted{N: r.counts.never, Text: "pods never ran, or do not say when: left out"},
		workload.Noted{N: r.counts.running, Text: "pods were still running: they have the running time up to the latest time in the list"},
		workload.Noted{N: r.counts.failed, Text: "pods failed: they have the running time they had"},
		workload.Noted{N: r.counts.restarted, Text: "pods had a container that was started again so often that its first start is not kept: they run since their node took them over"},
		workload.Noted{N: r.counts.claims, Text: "pods ask for devices by resourceClaims: which and how many is not in the list, and none are taken"},
		workload.Noted{N: r.counts.memory, Text: "pods do not ask for CPUs or for memory: 0 of it is taken"},
	)
	return a, tasks.Pour(to)
}

// isList reports whether a file has pods in it, by its name.
func isList(name string) bool {
	return slices.Contains([]string{".json", ".jsonl", ".ndjson"}, path.Ext(strings.TrimSuffix(name, ".gz")))
}

func (r *reader) file(m *input.Meter, in io.Reader) error {
	return input.Each(m, in, maxObject, "items", r.pod)
}

// see returns a time and remembers the latest; zero for none.
func (r *reader) see(o *input.Record[pod], t *time.Time) (time.Time, error) {
	if t == nil || t.IsZero() {
		return time.Time{}, nil
	}
	if t.Year() < 1970 || t.Year() > 2200 {
		return time.Time{}, o.Wrong("time", t.String(), "want one from 1970 to 2200")
	}
	if t.After(r.latest) {
		r.latest = *t
	}
	return *t, nil
}

func (r *reader) pod(o *input.Record[pod]) error {
	p := &o.Value
	created, err := r.see(o, p.Metadata.CreationTimestamp)
	if err != nil {
		return err
	}
	e := entry{name: input.Shown(p.Metadata.Namespace + "/" + p.Metadata.Name), claims: len(p.Spec.ResourceClaims) > 0}
	ended := true
	for _, c := range p.Status.ContainerStatuses {
		for _, s := range []*span{c.LastState.Terminated, c.State.Terminated, c.State.Running} {
			if s == nil {
				continue
			}
			start, err := r.see(o, s.StartedAt)
			if err != nil {
				return err
			}
			end, err := r.see(o, s.FinishedAt)
			if err != nil {
				return err
			}
			if !start.IsZero() && (e.start.IsZero() || start.Before(e.start)) {
				e.start = start
			}
			if end.After(e.end) {
				e.end = end
			}
			ended = ended && s != c.State.Running
		}
		// A status keeps no more than the run before the present one, and that not for ever.
		e.restarted = e.restarted || c.RestartCount > 1 || c.RestartCount == 1 && c.LastState.Terminated == nil
		// A container between two runs will go on.
		ended = ended && (c.State.Terminated != nil || p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed")
	}
	if taken, err := r.see(o, p.Status.StartTime); err != nil {
		return err
	} else if e.restarted = e.restarted && !taken.IsZero() && taken.Before(e.start); e.restarted {
		e.start = taken
	}
	if e.start.IsZero() || created.IsZero() {
		r.counts.never++
		return nil
	}
	if !ended {
		e.end = time.Time{}
	} else if p.Status.Phase == "Failed" {
		r.counts.failed++
	}
	if created.After(e.start) {
		created = e.start // clocks of two machines
	}
	e.task = workload.Task{Submit: time.Duration(created.UnixNano()), User: r.to.User(input.Shown(p.Metadata.Namespace)),
		Priority: r.given.Priority(priority(p.Spec.Priority), p.Spec.PriorityClassName)}
	if err := r.asks(o, &e.task); err != nil {
		return err
	}
	e.job = e.name
	for _, owner := range p.Metadata.OwnerReferences {
		if owner.Controller || len(p.Metadata.OwnerReferences) == 1 {
			e.job = input.Shown(p.Metadata.Namespace + "/" + owner.Kind + "/" + owner.Name)
		}
	}
	uid := cmp.Or(p.Metadata.UID, e.name)
	if at, ok := r.known[uid]; ok {
		// Another look at the same pod: what is known of its end goes before.
		if !e.end.IsZero() || r.pods[at].end.IsZero() {
			r.pods[at] = e
		}
		return nil
	}
	if len(r.pods) == r.most {
		return workload.TooManyHeld(r.most)
	}
	r.known[strings.Clone(uid)] = len(r.pods)
	r.pods = append(r.pods, e)
	return nil
}

// priority returns what a pod's priority becomes.
func priority(p *int64) headrace.Priority {
	switch {
	case p == nil || *p == 0:
		return headrace.Normal
	case *p < 0:
		return 1
	case *p < 1000:
		return 6
	case *p < 1_000_000:
		return headrace.High
	case *p < 1_000_000_000:
		return 9
	case *p < 2_000_000_000:
		return headrace.Production
	}
	return headrace.MaxPriority // what Kubernetes itself needs
}

// asks sums up what a pod's containers ask for. Those before it begins need theirs one after the other, but for those
// that stay beside it (sidecars): they have theirs from their start on. What the pod asks for as a whole goes before that.
func (r *reader) asks(o *input.Record[pod], t *workload.Task) error {
	sum, before, beside := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, c := range o.Value.Spec.InitContainers {
		one, err := requests(o, &c)
		if err != nil {
			return err
		}
		if c.RestartPolicy == "Always" {
			add(beside, one)
			continue
		}
		add(one, beside)
		atLeast(before, one)
	}
	add(sum, beside)
	for _, c := range o.Value.Spec.Containers {
		one, err := requests(o, &c)
		if err != nil {
			return err
		}
		add(sum, one)
	}
	atLeast(sum, before)
	if err := whole(o, sum); err != nil {
		return err
	}
	overhead, err := quantities(o, o.Value.Spec.Overhead)
	if err != nil {
		return err
	}
	add(sum, overhead)
	memory := sum["memory"]
	for name, v := range sum {
		if strings.HasPrefix(name, hugePages) {
			memory += v
		}
	}
	t.CPUs, t.Memory = float32(sum["cpu"]), int64(min(memory, 1<<60))
	if t.CPUs == 0 || t.Memory == 0 {
		r.counts.memory++
	}
	var amounts []float32
	for _, name := range slices.Sorted(maps.Keys(sum)) {
		v := sum[name]
		if !strings.Contains(name, "/") {
			continue
		}
		if name == "nvidia.com/gpu" || name == "amd.com/gpu" {
			name = "gpu"
		}
		at := r.to.Resource(input.Shown(name))
		amounts = workload.Grown(amounts, at+1)
		amounts[at] += float32(v)
	}
	t.Need = r.to.Need(amounts)
	return nil
}

// hugePages begins the names of memory in pages of a size, which is asked for beside the other.
const hugePages = "hugepages-"

// whole replaces in the sum of what the containers ask for what the pod asks for as a whole: processors and memory can be. A limit counts where
// no container requests anything.
func whole(o *input.Record[pod], sum map[string]float64) error {
	requests, err := quantities(o, o.Value.Spec.Resources.Requests)
	if err != nil {
		return err
	}
	limits, err := quantities(o, o.Value.Spec.Resources.Limits)
	if err != nil {
		return err
	}
	for name, v := range limits {
		if _, asked := sum[name]; !asked {
			sum[name] = v
		}
	}
	maps.Copy(sum, requests)
	return nil
}

func add(sum, more map[string]float64) {
	for name, v := range more {
		sum[name] += v
	}
}

func atLeast(sum, least map[string]float64) {
	for name, v := range least {
		sum[name] = max(sum[name], v)
	}
}

// requests returns what a container asks for: its limits where it does not say.
func requests(o *input.Record[pod], c *container) (map[string]float64, error) {
	asked, err := quantities(o, c.Resources.Limits)
	if err != nil {
		return nil, err
	}
	requested, err := quantities(o, c.Resources.Requests)
	maps.Copy(asked, requested)
	return asked, err
}

// quantities reads a list of quantities by name.
func quantities(o *input.Record[pod], list map[string]input.Scalar) (map[string]float64, error) {
	read := map[string]float64{}
	for name, text := range list {
		v, ok := quantity(string(text))
		if !ok {
			return nil, o.Wrong(name, string(text), "want a quantity such as 250m, 2 or 1Gi")
		}
		read[name] = v
	}
	return read, nil
}

// suffixes are those of quantities.
var suffixes = []struct {
	text string
	unit float64
}{{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40}, {"Pi", 1 << 50}, {"Ei", 1 << 60},
	{"n", 1e-9}, {"u", 1e-6}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}}

// quantity reads a quantity of Kubernetes.
func quantity(s string) (float64, bool) {
	unit := 1.0
	for _, x := range suffixes {
		if rest, ok := strings.CutSuffix(s, x.text); ok {
			s, unit = rest, x.unit
			break
		}
	}
	v, ok := input.Scalar(s).Float()
	return v * unit, ok && v >= 0 && v*unit < 1e30
}

// give gives all pods to tasks, those that still run up to the latest time of all.
func (r *reader) give(tasks *workload.Rebased) error {
	type job struct{ number, next int32 }
	jobs := map[string]*job{}
	for i := range r.pods {
		e := &r.pods[i]
		ended := !e.end.IsZero()
		if !ended {
			r.counts.running++
			e.end = r.latest
		}
		if e.restarted {
			r.counts.restarted++
		}
		if e.claims {
			r.counts.claims++
		}
		j := jobs[e.job]
		if j == nil {
			j = &job{number: r.to.Job(e.job)}
			jobs[e.job] = j
		}
		t := r.given.Task(e.task)
		t.Job, t.Index, t.Run = j.number, j.next, max(0, e.end.Sub(e.start))
		j.next++
		if err := tasks.Ran(t, time.Duration(e.start.UnixNano()), ended); err != nil {
			return err
		}
	}
	return nil
}
