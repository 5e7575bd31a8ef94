package yarn

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headrace/lab/rig"
	"headrace/lab/work"
	"headrace/report"
)

// pairMemory is the memory of the one node that pairs run on, in MB.
const pairMemory = 4096

// pairs returns the experiment of os-assisted-preemption, section IV, with containers.
func (b *bench) pairs(ctx context.Context) error {
	plan := b.o.pairPlan()
	var entries []entry
	for i := range plan.Cases {
		c := &plan.Cases[i]
		low, urgent, err := b.pairTasks(ctx, c)
		if err != nil {
			return err
		}
		for _, policy := range b.o.chosen("wait", "kill", "suspend", "checkpoint", "cost") {
			entries = append(entries, entry{
				setup: yarnSetup{mode: modeOf(policy), nodes: 1, memory: pairMemory}, policy: policy, store: pairStore(policy), kind: c.Name,
				run: func(ctx context.Context, b *bench) (Run, error) {
					return b.pair(ctx, plan, *c, policy, low, urgent)
				},
				bound: pairTime,
			})
		}
	}
	b.res.Pair = plan
	return b.repeat(ctx, expPair, b.o.Repeats, entries)
}

// pairStore returns where pairs' checkpoints go.
func pairStore(policy string) string {
	if policy == "checkpoint" || policy == "cost" {
		return rig.StoreDisk
	}
	return ""
}

// pairTasks are of the lengths that were asked for; the plan gets those that were
// measured.
func (b *bench) pairTasks(ctx context.Context, c *PairCase) (low, urgent rig.Job, err error) {
	b.h.Say(0, "(%s) preparing the tasks: %s", expPair, c.Name)
	if low, err = b.kmeans(ctx, c.Bytes, c.Low); err != nil {
		return low, urgent, err
	}
	if urgent, err = b.kmeans(ctx, c.Bytes, c.Urgent); err != nil {
		return low, urgent, err
	}
	c.Low, c.Urgent = low.Alone, urgent.Alone
	return low, urgent, nil
}

// kmeans returns a job of about so many seconds of processor time, which a busy machine
// does not change.
func (b *bench) kmeans(ctx context.Context, bytes int64, target float64) (rig.Job, error) {
	args := func(n int64) []string {
		return []string{"kmeans", "--bytes", strconv.FormatInt(bytes, 10), "--iterations", strconv.FormatInt(n, 10),
			"--seed", strconv.FormatUint(b.o.Seed, 10)}
	}
	// Small ones are over too soon to be measured.
	few := max(1, (256<<20)/bytes)
	small, err := b.reference(ctx, args(few), bytes)
	if err != nil {
		return rig.Job{}, err
	}
	large, err := b.reference(ctx, args(3*few), bytes)
	if err != nil {
		return rig.Job{}, err
	}
	return b.reference(ctx, args(rig.Amount(float64(few), small.Alone, float64(3*few), large.Alone, target)), bytes)
}

// reference returns the job of a workload, with the answer and the processor time of a
// run alone.
func (b *bench) reference(ctx context.Context, args []string, bytes int64) (rig.Job, error) {
	path := filepath.Join(b.h.Disk.Dir, "alone")
	if err := os.RemoveAll(path); err != nil {
		return rig.Job{}, err
	}
	out, _, err := b.h.Alone(ctx, append([]string{args[0], "--account", path}, args[1:]...), "")
	if err != nil {
		return rig.Job{}, err
	}
	_, cpu, err := work.ReadAccount(path)
	return rig.Job{Args: b.h.JobArgs(args), Memory: bytes + rig.TaskOverhead, Answer: work.LastOf(out), Alone: cpu}, err
}

// pair runs a low-priority job, and an urgent one when the first task of the former
// is half done.
func (b *bench) pair(ctx context.Context, plan *PairPlan, c PairCase, policy string, low, urgent rig.Job) (Run, error) {
	w, err := b.watchRun()
	if err != nil {
		return Run{}, err
	}
	mark := filepath.Join(w.dir, "half")
	size := pairMemory / c.Tasks
	start := time.Now()
	lowJob := w.job("low", false, c.Tasks, yarnTask{Job: low, mark: mark, share: plan.Share})
	if err := w.submit(lowJob, size); err != nil {
		return Run{}, err
	}
	if err := b.awaitMark(ctx, w, lowJob, mark); err != nil {
		return Run{}, err
	}
	urgentJob := w.job("urgent", true, c.Tasks, yarnTask{Job: urgent})
	if err := w.submit(urgentJob, size); err != nil {
		return Run{}, err
	}
	r, err := w.account(ctx, policy)
	if err != nil {
		return r, err
	}
	r.Arrived = urgentJob.submitted.Sub(start).Seconds()
	r.Lanes = append(w.lanes(urgentJob, start), w.lanes(lowJob, start)...)
	r.Stops, err = w.stops(lowJob, urgentJob.submitted)
	return r, err
}

// awaitMark waits for a file of a task of a job.
func (b *bench) awaitMark(ctx context.Context, w *yarnWatch, j *watchedJob, path string) error {
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		events, err := b.masters.Events(j.name)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Event == "finished" || e.Event == "broken" || e.Event == "completed" && e.Exit != 0 {
				return fmt.Errorf("%w: job %s before it was half done: %s %s %s", rig.ErrWrong, j.name, e.Event, e.Reason, e.Diagnostics)
			}
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), fmt.Errorf("wait until half of the job %s is done", j.name))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// lanes returns what the tasks of a job did.
func (w *yarnWatch) lanes(j *watchedJob, zero time.Time) []report.Lane {
	var out []report.Lane
	for task := range j.tasks {
		lane := report.Lane{Name: j.title, Strong: j.high}
		if j.tasks > 1 {
			lane.Name += " " + strconv.Itoa(task+1)
		}
		at := j.submitted.Sub(zero).Seconds()
		for _, a := range j.attempts[task] {
			began := a.started.Sub(zero).Seconds()
			lane.Segments = rig.AppendSegment(lane.Segments, report.Segment{Kind: report.Waiting, Start: at, End: began})
			for _, s := range rig.DrawAttempt(a.history, zero, a.started, a.ended, a.killed()) {
				lane.Segments = rig.AppendSegment(lane.Segments, s)
			}
			at = a.ended.Sub(zero).Seconds()
		}
		out = append(out, lane)
	}
	return out
}

// stops returns the times from the choice of the job's containers, after another job
// has come, until each was seen to be stopped.
func (w *yarnWatch) stops(j *watchedJob, after time.Time) ([]float64, error) {
	marks, err := w.b.cluster.Marks(after)
	if err != nil {
		return nil, err
	}
	var chosen time.Time
	for _, m := range marks {
		if m.Attempt == attemptOf(j.application) {
			chosen = m.At
			break
		}
	}
	var out []float64
	for _, attempts := range j.attempts {
		for _, a := range attempts {
			at, ok := a.firstSuspended()
			if !ok {
				continue
			}
			if chosen.IsZero() {
				return nil, fmt.Errorf("%w: container %s was suspended, and the ResourceManager has not written down that it chose it", rig.ErrWrong, a.container)
			}
			out = append(out, at.Sub(chosen).Seconds())
		}
	}
	return out, nil
}

// attemptOf returns the only attempt of an application.
func attemptOf(application string) string {
	return "appattempt_" + application[len("application_"):] + "_000001"
}
