package google

import (
	"fmt"
	"os"

	"headrace/trace/input"
	"headrace/trace/workload"
)

func (g Options) withDefaults() Options {
	if g.CPUs == 0 {
		g.CPUs = 32
	}
	if g.Memory == 0 {
		g.Memory = 128 << 30
	}
	return g
}

// Read reads a trace as published into a sink.
func Read(m *input.Meter, name string, o Options, part workload.Part, to workload.Sink) (workload.About, error) {
	a := workload.About{Name: "google2011:" + name, Recorded: true}
	if !(o.CPUs >= 0 && o.CPUs <= 1e6) || o.Memory < 0 {
		return a, fmt.Errorf("trace: a largest machine of %v CPUs and %d bytes: want positive numbers", o.CPUs, o.Memory)
	}
	if err := o.Check(); err != nil {
		return a, err
	}
	if info, err := os.Stat(name); err != nil {
		return a, fmt.Errorf("trace: %w", err)
	} else if !info.IsDir() {
		return a, fmt.Errorf("trace: %s is a file: want the directory that has task_events in it", name)
	}
	dir := m.Below(name)
	names, err := parts(dir, "task_events")
	if err != nil {
		return a, fmt.Errorf("trace: %s: %w", name, err)
	}
	m.Expect(dir, names)
	for table, read := range map[string]bool{"machine_events": true, "job_events": part.Names} {
		if more, err := parts(dir, table); err == nil && read {
			m.Expect(dir, more)
		}
	}
	f := NewFold(o, part.From, part.For)
	events := func(yield func(Event, error) bool) {
		for e, err := range Dir(dir) {
			m.Record()
			if !yield(e, err) {
				return
			}
		}
	}
	jobNamed := func(int32) string { return "" }
	if part.Names {
		// Before the tasks: rules for priorities go by the name as soon as a job comes.
		logical, err := logicalNames(m, dir)
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		jobNamed = func(job int32) string { return jobName(f.JobID(job), logical) }
	}
	n := int32(0)
	for t, err := range f.Tasks(events) {
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		for ; n <= t.Job; n++ {
			to.Job(jobNamed(n))
		}
		if err := to.Task(t); err != nil {
			return a, err
		}
	}
	a.Outcome = f.Outcome
	f.Notes(&a)
	if a.Cluster, err = cluster(m, dir, f.o, part.From); err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	return a, nil
}

// Notes says what the counts mean for the workload.
func (f *Fold) Notes(a *workload.About) {
	c := &f.Counts
	a.Note("requests are shares of the largest machine, taken to have %v CPUs and %d GiB", f.o.CPUs, f.o.Memory>>30)
	for _, n := range []struct {
		n    int64
		text string
	}{
		{c.Before, "tasks were there before the trace began: they have the running time that the trace saw"},
		{c.StillRunning, "tasks were still running at the end of the trace: they have the longest running time seen"},
		{c.Killed + c.Failed + c.Lost + c.Evicted, "tasks were killed, failed, were lost or evicted and never finished: they have their longest running time"},
		{c.AskNothing, "tasks ask for no CPUs or no memory, or it is not known what they ask for"},
		{c.NeverRan, "tasks never came to run: left out"},
		{c.Evictions - c.Preemptions, "evictions were not followed by a more urgent task on the same machine: not counted as preemptions"},
		{c.Odd, "events did not fit to what was there: ignored"},
	} {
		if n.n > 0 {
			a.Note("%d %s", n.n, n.text)
		}
	}
}
