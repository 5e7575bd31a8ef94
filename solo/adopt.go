package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/journal"
)

// stray is a task that has a supervisor and that the records do not know, or know as one
// that has not begun: they were moved away, or older ones put back.
type stray struct {
	live  Task
	spec  proc.Spec
	stats proc.Stats
	err   error
}

// unknown takes in the tasks that run and that the records do not know. They are not ended: what they do is
// not worth less for that. Those that can be taken in are tasks like others from now on; the others go on by
// themselves, and their cgroups stay.
func (r *recovery) unknown(ctx context.Context) error {
	ids, err := r.rt.Tasks()
	if err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(r.supervised)) {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	strays := make([]stray, len(ids))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, id := range ids {
		if t := r.tasks.all[id]; t != nil && (t.rec.State != headrace.Pending || t.rec.Op != nil || t.hosted()) {
			continue
		}
		group.Go(func() error {
			strays[i] = r.lookAtStray(ctx, id)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, id := range ids {
		r.tasks.notAgain(string(id))
		r.takeStray(id, strays[i])
	}
	return nil
}

func (r *recovery) lookAtStray(ctx context.Context, id headrace.TaskID) (s stray) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	live, err := r.rt.Attach(ctx, id)
	if errors.Is(err, proc.ErrGone) && r.supervised[id] != 0 {
		err = cmp.Or(r.rt.Unreached(id), err)
	}
	if err != nil {
		return stray{err: err}
	}
	s.live = live
	if s.spec, s.err = r.rt.SpecOf(id); s.err == nil {
		s.stats, s.err = live.Stats(ctx)
	}
	return s
}

const strayWhy = "it was running when the daemon started with records that did not know it"

func (r *recovery) takeStray(id headrace.TaskID, s stray) {
	t := r.tasks.all[id]
	runs := s.err == nil && (s.stats.State == headrace.Running || s.stats.State == headrace.Suspended)
	switch {
	case s.live == nil && (s.err == nil || t == nil && errors.Is(s.err, proc.ErrGone)):
		return
	case t != nil && !runs:
		r.startsAfresh(t, s.live)
		return
	case t == nil && (!runs || s.spec.Attached || len(s.spec.Under) > 0):
		r.leaveStray(id, s)
		return
	case t == nil:
		t = r.recordOf(id, s.spec)
		r.tasks.load(t)
		r.writeSpec(t)
	}
	r.log.Warn("a task runs that the records do not know; it is taken in, and its name, priority and other wishes are the usual ones: headrace show, kill",
		"id", id, "state", s.stats.State.String(), "command", t.spec.Argv)
	t.rec.Starts = max(t.rec.Starts, 1)
	t.rec.Held = s.stats.State == headrace.Suspended
	r.attach(t, s.live)
	r.enter(t, s.stats.State, journal.Event{Reason: strayWhy})
	t.stats, t.statsAt, t.known = s.stats, r.clk.boot(), true
}

// startsAfresh has the next start of a task begin by ending whatever is left, and by removing the
// checkpoints that the records do not know. live is its supervisor; nil: there is none, or it does not answer.
func (r *recovery) startsAfresh(t *task, live Task) {
	if live != nil {
		live.Close()
	} else if t.rec.Starts > 0 {
		return // the records know what it has left
	}
	t.rec.Starts = max(t.rec.Starts, 1)
	for _, st := range r.stores.All {
		t.rec.AddImageDir(st.Dir)
	}
	r.touch(t)
}

// leaveStray lets a task go on of which too little is known to take it in.
func (r *recovery) leaveStray(id headrace.TaskID, s stray) {
	why := "its supervisor does not say what it does"
	switch {
	case errors.Is(s.err, proc.ErrNotNow):
		why = "its supervisor cannot be reached, as its directory was removed or replaced"
	case s.err != nil:
	case s.spec.Attached:
		why = "it is a container of another scheduler"
	case len(s.spec.Under) > 0:
		why = "which part of its input it is to have is not known"
		r.inputs.spare = true
	default:
		why = "it has no processes, only a checkpoint"
	}
	r.alone[id] = why
	if s.live != nil {
		s.live.Close()
	}
	r.log.Error("a task that the records do not know is left alone, and no command of headrace reaches it; see 'not in the records' in docs/troubleshooting.md for how to end it",
		"id", id, "why", why, "err", s.err, "command", s.spec.Argv)
}

// recordOf returns the record of a task of which is known what its directory says.
func (r *recovery) recordOf(id headrace.TaskID, spec proc.Spec) *task {
	t := &task{spec: spec}
	t.rec.ID, t.rec.Name, t.rec.UID, t.rec.User = id, serve.Label(filepath.Base(spec.Argv[0])), spec.UID, serve.UserName(spec.UID)
	t.rec.Order, _ = numberOf(string(id)) // 0 for others, which come first
	t.rec.Priority, t.rec.CPUs = headrace.Normal, cmp.Or(spec.CPUs, 1)
	t.rec.Memory, t.rec.PIDs, t.rec.IOWeight = spec.Memory, spec.PIDs, spec.IOWeight
	t.rec.SpecBytes = t.specBytes()
	t.rec.State, t.rec.SubmittedMs = headrace.Pending, r.clk.wall().UnixMilli()
	t.rec.Since, t.rec.Boot = r.clk.boot(), r.boot
	return t
}

// sweepable tells whether what is left in the cgroup of a task may be ended: nothing supervises
// it, and nothing ever will. dirs are the tasks that have left a directory, members what is in the group.
func (c *core) sweepable(name string, dirs map[headrace.TaskID]bool, members int) bool {
	id := headrace.TaskID(name)
	t := c.tasks.all[id]
	switch {
	case t != nil && !t.rec.State.Final() || c.alone[id] != "":
		return false
	case dirs[id] || t != nil || members == 0:
		return true
	}
	c.tasks.notAgain(name)
	c.alone[id] = "only processes are left of it, in a cgroup of its name"
	c.log.Error("processes of a task that the records do not know, and that has no directory, are left alone; see 'not in the records' in docs/troubleshooting.md for how to end them",
		"id", id, "processes", members)
	return false
}

// tasksWithDirs returns the tasks that have left a directory.
func (c *core) tasksWithDirs() (map[headrace.TaskID]bool, error) {
	ids, err := c.rt.Tasks()
	if err != nil {
		return nil, fmt.Errorf("look for what earlier tasks have left: %w", err)
	}
	dirs := make(map[headrace.TaskID]bool, len(ids))
	for _, id := range ids {
		dirs[id] = true
	}
	return dirs, nil
}
