package trace

import (
	"fmt"
	"os"
)

func (g GoogleOptions) withDefaults() GoogleOptions {
	if g.CPUs == 0 {
		g.CPUs = 32
	}
	if g.Memory == 0 {
		g.Memory = 128 << 30
	}
	return g
}

// readGoogle reads a trace as published into a sink.
func readGoogle(m *meter, name string, o OpenOptions, to sink) (about, error) {
	a := about{Name: "google2011:" + name, Recorded: true}
	if g := o.Google; !(g.CPUs >= 0 && g.CPUs <= 1e6) || g.Memory < 0 {
		return a, fmt.Errorf("trace: a largest machine of %v CPUs and %d bytes: want positive numbers", g.CPUs, g.Memory)
	}
	if err := o.Google.check(); err != nil {
		return a, err
	}
	if info, err := os.Stat(name); err != nil {
		return a, fmt.Errorf("trace: %w", err)
	} else if !info.IsDir() {
		return a, fmt.Errorf("trace: %s is a file: want the directory that has task_events in it", name)
	}
	dir := meteredFS{os.DirFS(name), m}
	parts, err := googleParts(dir, "task_events")
	if err != nil {
		return a, fmt.Errorf("trace: %s: %w", name, err)
	}
	m.expect(dir, parts)
	_, collects := to.(*window).to.(*collector)
	for table, read := range map[string]bool{"machine_events": true, "job_events": collects} {
		if more, err := googleParts(dir, table); err == nil && read {
			m.expect(dir, more)
		}
	}
	f := NewGoogleFold(o.Google, o.From, o.For)
	events := func(yield func(GoogleEvent, error) bool) {
		for e, err := range GoogleDir(dir) {
			m.record()
			if !yield(e, err) {
				return
			}
		}
	}
	n := int32(0)
	for t, err := range f.Tasks(events) {
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		for ; n <= t.Job; n++ {
			to.job("")
		}
		if err := to.task(t); err != nil {
			return a, err
		}
	}
	a.Outcome = f.Outcome
	f.notes(&a)
	if a.Cluster, err = googleCluster(m, dir, f.o, o.From); err != nil {
		return a, fmt.Errorf("%s: %w", name, err)
	}
	if collects {
		logical, err := googleJobNames(m, dir)
		if err != nil {
			return a, fmt.Errorf("%s: %w", name, err)
		}
		a.JobNames = func(job int32) string { return googleJobName(f.JobID(job), logical) }
	}
	return a, nil
}

// notes says what the counts mean for the workload.
func (f *GoogleFold) notes(a *about) {
	c := &f.Counts
	a.note("requests are shares of the largest machine, taken to have %v CPUs and %d GiB", f.o.CPUs, f.o.Memory>>30)
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
			a.note("%d %s", n.n, n.text)
		}
	}
}
