package yarn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"headrace"
	"headrace/lab/rig"
	"headrace/lab/work"
	"headrace/lab/yarn"
	"headrace/sim"
	"headrace/wire/convert"
)

// yarnWatch is one run: what was submitted and, after account, what became of it.
type yarnWatch struct {
	b    *bench
	dir  string // for accounts and marks
	jobs []*watchedJob
	// cpu is the processor time of all processes before.
	cpu float64
}

// A watchedJob is an application.
type watchedJob struct {
	title, name string // name is the only one of the cluster
	high        bool
	tasks       int
	task        yarnTask

	submitted   time.Time
	started     time.Time // the first container
	ended       time.Time
	application string
	attempts    map[int][]*attempt // by task, the oldest first
}

// An attempt is one container of a task.
type attempt struct {
	container      string
	node           int
	started, ended time.Time
	exit           int
	cpu            float64
	// history and overheadCPU are what Headrace knows of it: nothing without Headrace.
	history     headrace.History
	overheadCPU float64
}

// killed reports whether YARN has taken it away.
func (a *attempt) killed() bool { return a.exit < 0 }

// unstarted reports whether YARN has taken it away before it did anything: there was
// nothing yet to be suspended or lost.
func (a *attempt) unstarted() bool { return a.killed() && a.cpu == 0 }

func (b *bench) watchRun() (*yarnWatch, error) {
	w := &yarnWatch{b: b, dir: filepath.Join(b.h.Disk.Dir, fmt.Sprint("run", b.runs))}
	if err := os.Mkdir(w.dir, 0o755); err != nil {
		return nil, err
	}
	var err error
	w.cpu, err = b.group.Used()
	return w, err
}

// job returns one to be submitted.
func (w *yarnWatch) job(title string, high bool, tasks int, task yarnTask) *watchedJob {
	name := fmt.Sprintf("run%d-%s", w.b.runs, title)
	task.accounts = filepath.Join(w.dir, title)
	return &watchedJob{title: title, name: name, high: high, tasks: tasks, task: task, attempts: map[int][]*attempt{}}
}

func (w *yarnWatch) submit(j *watchedJob, memory int) error {
	if err := os.Mkdir(j.task.accounts, 0o777); err != nil {
		return err
	}
	queue := "low"
	if j.high {
		queue = "high"
	}
	w.jobs = append(w.jobs, j)
	j.submitted = time.Now()
	return w.b.masters.Submit(yarn.ShellJob{Name: j.name, Queue: queue, Containers: j.tasks, Memory: memory,
		Command: j.task.command(w.b.h.Programs.Lab)})
}

// account waits for all jobs, checks their answers, adds up what they have cost and
// fails unless the policy did what it is for.
func (w *yarnWatch) account(ctx context.Context, policy string) (Run, error) {
	for _, j := range w.jobs {
		if err := w.await(ctx, j); err != nil {
			return Run{}, err
		}
	}
	cpu, err := w.b.group.Used()
	if err != nil {
		return Run{}, err
	}
	r := Run{TotalCPU: cpu - w.cpu}
	start, end := w.jobs[0].submitted, w.jobs[0].ended
	for _, j := range w.jobs {
		if err := w.read(ctx, j); err != nil {
			return Run{}, err
		}
		if j.ended.After(end) {
			end = j.ended
		}
		r.Jobs = append(r.Jobs, Job{Name: j.title, High: j.high, Tasks: j.tasks, Submitted: j.submitted.Sub(start).Seconds(),
			Started: j.started.Sub(start).Seconds(), Response: j.ended.Sub(j.submitted).Seconds()})
		for _, attempts := range j.attempts {
			for _, a := range attempts {
				r.add(a)
			}
		}
	}
	r.Makespan = end.Sub(start).Seconds()
	r.Energy = energyOf(r.TotalCPU, r.Makespan, w.b.res.Machine.Processors)
	return r, w.verify(r, policy)
}

// await waits for the end of a job and takes its attempts from what its master tells.
func (w *yarnWatch) await(ctx context.Context, j *watchedJob) error {
	e, err := w.b.masters.Await(ctx, j.name, "finished")
	if err != nil {
		return errors.Join(context.Cause(ctx), err)
	}
	if !e.Good {
		return fmt.Errorf("%w: job %s: a task has failed%s", rig.ErrWrong, j.title, w.complaint(j, e.Application))
	}
	j.ended, j.application = e.At(), e.Application
	events, err := w.b.masters.Events(j.name)
	if err != nil {
		return err
	}
	for _, e := range events {
		switch e.Event {
		case "started":
			if j.started.IsZero() {
				j.started = e.At()
			}
			a := &attempt{container: e.Container, node: -1, started: e.At()}
			for i := range w.b.cluster.Nodes() {
				if strings.HasPrefix(e.Node, w.b.cluster.Host(i)+":") {
					a.node = i
				}
			}
			j.attempts[e.Task] = append(j.attempts[e.Task], a)
		case "completed":
			a := j.attempt(e.Container)
			if a == nil {
				return fmt.Errorf("job %s: container %s has ended and never started", j.title, e.Container)
			}
			a.ended, a.exit = e.At(), e.Exit
		}
	}
	return nil
}

func (j *watchedJob) attempt(container string) *attempt {
	for _, attempts := range j.attempts {
		for _, a := range attempts {
			if a.container == container {
				return a
			}
		}
	}
	return nil
}

// complaint returns what the tasks of a job have written to their standard error.
func (w *yarnWatch) complaint(j *watchedJob, application string) string {
	logs, _ := w.b.cluster.ContainerLogs(application)
	s := ""
	for _, name := range slices.Sorted(maps.Keys(logs)) {
		if text := strings.TrimSpace(logs[name]); filepath.Base(name) == "stderr" && text != "" {
			s += "; " + filepath.Dir(name) + ": " + work.LastOf(text)
		}
	}
	return s
}

// read returns what a job's attempts have used and answered.
func (w *yarnWatch) read(ctx context.Context, j *watchedJob) error {
	logs, err := w.b.cluster.ContainerLogs(j.application)
	if err != nil {
		return err
	}
	for task, attempts := range j.attempts {
		for i, a := range attempts {
			if _, a.cpu, err = work.ReadAccount(filepath.Join(j.task.accounts, fmt.Sprintf("%d.%s", task, a.container))); err != nil {
				return err
			}
			if w.b.setup.mode == yarn.Headrace {
				t, err := w.b.cluster.TaskOf(ctx, a.node, a.container)
				switch {
				case err == nil:
					a.history, a.overheadCPU = convert.History(t), t.GetUsage().GetOverheadCpu()
				case !a.unstarted() || connect.CodeOf(err) != connect.CodeNotFound:
					return fmt.Errorf("%w: container %s did not run under Headrace: %w", rig.ErrWrong, a.container, err)
				}
			}
			if i < len(attempts)-1 {
				continue
			}
			if got := work.LastOf(logs[a.container+"/stdout"]); got != j.task.Answer {
				return fmt.Errorf("%w: job %s, task %d gave a WRONG ANSWER: %q, want %q", rig.ErrWrong, j.title, task, got, j.task.Answer)
			}
		}
	}
	return nil
}

// add counts an attempt.
func (r *Run) add(a *attempt) {
	held := a.ended.Sub(a.started).Seconds()
	r.TaskCPU += a.cpu
	r.OverheadCPU += a.overheadCPU
	dumped, restored := a.history.Moved()
	r.Dumped += dumped
	r.Restored += restored
	aside, idle := a.times()
	held -= aside
	if !a.killed() {
		r.IdleTime += idle
	}
	suspended, checkpointed := a.gaveWay()
	r.Counts.Suspended += suspended
	r.Counts.Checkpointed += checkpointed
	r.HeldTime += held
	if a.unstarted() {
		r.Counts.Unstarted++
		r.LostTime += held
	} else if a.killed() {
		r.Counts.Killed++
		r.LostCPU += a.cpu
		r.LostTime += held
	}
}

// gaveWay returns how often it was suspended and checkpointed.
func (a *attempt) gaveWay() (suspended, checkpointed int) {
	for _, e := range a.history {
		switch {
		case e.CameTo(headrace.Suspended):
			suspended++
		case e.CameTo(headrace.Checkpointed):
			checkpointed++
		}
	}
	return suspended, checkpointed
}

// times returns how long the container was put aside, which is not its time, and how
// long it stood still otherwise: being stopped, dumped, restored.
func (a *attempt) times() (aside, idle float64) {
	for _, s := range a.history.Segments() {
		switch took := s.End.Sub(s.Start).Seconds(); {
		case s.End.IsZero():
		case s.Aside():
			aside += took
		case s.Moving():
			idle += took
		}
	}
	return aside, idle
}

// firstSuspended returns when it was first seen to be stopped.
func (a *attempt) firstSuspended() (time.Time, bool) {
	for _, e := range a.history {
		if e.CameTo(headrace.Suspended) {
			return e.At, true
		}
	}
	return time.Time{}, false
}

// verify fails unless containers have given way as the policy wants it, and only so.
func (w *yarnWatch) verify(r Run, policy string) error {
	c := r.Counts
	c.Unstarted = 0
	bad := func(want string) error {
		return fmt.Errorf("%w: under the policy %s %v; want %s", rig.ErrWrong, policy, c, want)
	}
	switch {
	case policy == "wait" && c != Counts{}:
		return bad("that nobody gives way")
	case policy == "kill" && c.Killed == 0:
		return bad("some that are killed")
	case policy == "suspend" && (c.Suspended == 0 || c.Killed+c.Checkpointed > 0):
		return bad("some that are suspended, and nothing else")
	case policy == "checkpoint" && (c.Checkpointed == 0 || c.Killed+c.Suspended > 0):
		return bad("some that are checkpointed, and nothing else")
	}
	if w.b.setup.mode != yarn.Headrace {
		return nil
	}
	return w.verifyKills()
}

// verifyKills fails when YARN has taken a container away without Headrace's decision.
func (w *yarnWatch) verifyKills() error {
	decisions, err := w.b.cluster.Decisions()
	if err != nil {
		return err
	}
	decided := map[string]bool{}
	for _, d := range decisions {
		if d.Mechanism == headrace.Kill.String() {
			decided[d.Container] = true
		}
	}
	for _, j := range w.jobs {
		for _, attempts := range j.attempts {
			for _, a := range attempts {
				if a.killed() && !a.unstarted() && !decided[a.container] {
					return fmt.Errorf("%w: container %s was killed, which the manager had not decided", rig.ErrWrong, a.container)
				}
			}
		}
	}
	return nil
}

// energyOf returns the model of the papers: the average utilisation of the machine,
// turned into watts, times the time.
func energyOf(cpu, seconds float64, processors int) sim.Energy {
	power := sim.DefaultConfig().Power
	e := sim.Energy{Utilisation: min(1, cpu/(seconds*float64(processors))), Idle: power.Idle * seconds}
	e.Joules = e.Idle + (power.Peak-power.Idle)*e.Utilisation*seconds
	return e
}
