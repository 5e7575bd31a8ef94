package yarn

import (
	"context"
	"fmt"
	"strings"
	"time"

	"headrace"
	"headrace/lab/rig"
	"headrace/report"
	"headrace/wire/convert"
)

// A demoJob is one of the demonstration's jobs while it runs.
type demoJob struct {
	name  string
	run   *Run
	steps Steps
	tasks int
	told  int // events that a line was written for
}

func startDemoJob(c *Cluster, job ShellJob, steps int, each time.Duration) (*demoJob, error) {
	s, err := c.NewSteps(job.Name, steps, each)
	if err != nil {
		return nil, err
	}
	job.Memory, job.Command = demoMemory, s.Command()
	run, err := c.Shell(job)
	if err != nil {
		return nil, err
	}
	return &demoJob{name: job.Name, run: run, steps: s, tasks: job.Containers}, nil
}

// share returns how much of the job is done, from 0 to 1; what was lost does not count.
func (j *demoJob) share() float64 {
	done, err := j.steps.Done()
	if err != nil {
		return 0
	}
	lost, err := j.steps.Lost()
	if err != nil {
		return 0
	}
	return float64(done-lost) / float64(j.steps.Count*j.tasks)
}

// demoView shows the jobs while they run.
type demoView struct {
	d               *demo
	c               *Cluster
	nightly, urgent *demoJob // urgent is nil before it arrives
	began           time.Time
	states          map[string]headrace.TaskState // of containers, as they were last told
}

const demoRefresh = 100 * time.Millisecond

// watch shows what happens until done.
func (v *demoView) watch(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(demoRefresh):
		}
		if err := v.c.died(); err != nil {
			return err
		}
		if v.nightly.run.Ended() && v.urgent == nil {
			return v.nightly.run.client.problem()
		}
		v.tell(ctx)
	}
	v.tell(ctx)
	return nil
}

// tell writes a line for everything that is new, and how far the jobs are.
func (v *demoView) tell(ctx context.Context) {
	for _, j := range v.jobs() {
		events := j.run.Events()
		for _, e := range events[j.told:] {
			v.event(j, e)
		}
		j.told = len(events)
	}
	if v.c.o.Mode == Headrace {
		v.tellStates(ctx)
	}
	var words []string
	for _, j := range v.jobs() {
		words = append(words, fmt.Sprintf("%s %.0f %%", j.name, j.share()*100))
	}
	v.d.progress.Set(v.nightly.share(), strings.Join(words, ", "))
}

func (v *demoView) jobs() []*demoJob {
	if v.urgent == nil {
		return []*demoJob{v.nightly}
	}
	return []*demoJob{v.nightly, v.urgent}
}

// event writes a line for what an application master has told.
func (v *demoView) event(j *demoJob, e Event) {
	switch {
	case e.Event == "submitted":
		if v.began.IsZero() {
			v.began = e.At()
		}
		v.say(e.At(), "%s arrives: %d tasks of %s", j.name, j.tasks, report.Duration(time.Duration(j.steps.Count)*j.steps.Each))
	case e.Event == "started":
		v.say(e.At(), "%s: task %d runs in %s", j.name, e.Task, shortID(e.Container))
	case e.Event == "completed" && e.Exit == Preempted:
		v.say(e.At(), "%s: %s is killed; task %d has to start over", j.name, shortID(e.Container), e.Task)
	case e.Event == "finished":
		v.say(e.At(), "%s is done", j.name)
	}
}

// tellStates writes a line for each container that is suspended, checkpointed or
// running again.
func (v *demoView) tellStates(ctx context.Context) {
	tasks, err := v.c.Tasks(ctx, 0)
	if err != nil {
		return // the node daemon is asked again soon
	}
	if v.states == nil {
		v.states = map[string]headrace.TaskState{}
	}
	for _, t := range tasks {
		before := v.states[t.Id]
		is, err := convert.State(t)
		v.states[t.Id] = is
		aside := func(s headrace.TaskState) bool { return s == headrace.Suspended || s == headrace.Checkpointed }
		switch {
		case err != nil || before == is:
		case aside(is):
			v.say(time.UnixMilli(t.SinceMs), "%s is %v", shortID(t.Id), is)
		case is == headrace.Running && aside(before):
			v.say(time.UnixMilli(t.SinceMs), "%s goes on", shortID(t.Id))
		}
	}
}

func (v *demoView) say(at time.Time, format string, args ...any) {
	v.d.say("%5.1f s  %s", at.Sub(v.began).Seconds(), fmt.Sprintf(format, args...))
}

// shortID returns a container's name without what all of a demonstration share.
func shortID(container string) string {
	f := strings.Split(container, "_")
	if len(f) < 4 {
		return container
	}
	return "container " + strings.TrimLeft(f[len(f)-3], "0") + "." + strings.TrimLeft(f[len(f)-1], "0")
}

// demoResult is what a run comes to.
type demoResult struct {
	mode            Mode
	urgent, nightly time.Duration
	killed          int
	lost            time.Duration
	panel           report.Panel
}

func (v *demoView) result(ctx context.Context) (demoResult, error) {
	r := demoResult{mode: v.c.o.Mode, urgent: took(v.urgent.run.Events()), nightly: took(v.nightly.run.Events())}
	lost, err := v.nightly.steps.Lost()
	if err != nil {
		return r, err
	}
	r.lost = time.Duration(lost) * v.d.step
	for _, e := range v.nightly.run.Events() {
		if e.Event == "completed" && e.Exit == Preempted {
			r.killed++
		}
	}
	r.panel.Name = r.mode.String()
	r.panel.Note = r.mode.does()
	for _, j := range []*demoJob{v.urgent, v.nightly} {
		lanes, err := v.lanes(ctx, j)
		if err != nil {
			return r, err
		}
		r.panel.Lanes = append(r.panel.Lanes, lanes...)
	}
	return r, nil
}

// took returns the time from submission to end.
func took(events []Event) time.Duration {
	var from, to time.Time
	for _, e := range events {
		switch e.Event {
		case "submitted":
			from = e.At()
		case "finished":
			to = e.At()
		}
	}
	return to.Sub(from)
}

// lanes returns what the tasks of a job did, in seconds since nightly was submitted.
func (v *demoView) lanes(ctx context.Context, j *demoJob) ([]report.Lane, error) {
	lanes := make([]report.Lane, j.tasks)
	began := 0.0
	waiting := make([]float64, j.tasks)
	for i := range lanes {
		lanes[i] = report.Lane{Name: fmt.Sprintf("%s %d", j.name, i), Strong: j == v.urgent}
	}
	started := map[string]time.Time{}
	for _, e := range j.run.Events() {
		at := e.At().Sub(v.began).Seconds()
		switch e.Event {
		case "submitted":
			began = at
			for i := range waiting {
				waiting[i] = began
			}
		case "started":
			started[e.Container] = e.At()
			lanes[e.Task].Segments = append(lanes[e.Task].Segments, report.Segment{Kind: report.Waiting, Start: waiting[e.Task], End: at})
		case "completed":
			h, err := v.history(ctx, e.Container)
			if err != nil {
				return nil, err
			}
			from, lane := started[e.Container], &lanes[e.Task]
			lane.Segments = append(lane.Segments, rig.DrawAttempt(h, v.began, from, e.At(), e.Exit == Preempted)...)
			waiting[e.Task] = at
		}
	}
	return lanes, nil
}

// history returns what Headrace knows of a container.
func (v *demoView) history(ctx context.Context, container string) (headrace.History, error) {
	if v.c.o.Mode != Headrace {
		return nil, nil
	}
	task, err := v.c.TaskOf(ctx, 0, container)
	if err != nil {
		return nil, fmt.Errorf("ask what became of %s: %w", container, err)
	}
	return convert.History(task), nil
}
