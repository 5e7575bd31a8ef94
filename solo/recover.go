package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/proc"
)

const (
	attachTimeout = 5 * time.Second
	attachRetry   = 2 * time.Second
)

// recover makes the records agree with what is true. It runs before anybody is
// served.
//
// In the same boot of the machine a task's supervisor knows best. Where there is
// none, the recorded end counts; where that is missing too, the task has
// vanished, unless it was only about to be started. After another boot there
// are no processes: checkpointed tasks stay so, of the others those are restored
// or started again that may be. In both cases a checkpoint that was committed
// while no daemon was there to see it counts.
func (l *loop) recover(ctx context.Context, c contents) error {
	same := c.meta.Boot == l.boot
	var look, over []*task
	for _, r := range c.records {
		t := &task{rec: *r}
		// How long these were to hold is not recorded; the next attempt finds out anew.
		t.rec.NoCheckpoint, t.rec.NoSuspend = "", ""
		if spec := c.specs[r.ID]; spec != nil {
			t.spec = *spec
			t.store()
		}
		l.tasks.load(t)
		l.show(t)
		if r.State.Final() {
			if r.Checkpoint == nil {
				l.images.drop(t)
			}
			if same {
				over = append(over, t)
			}
			continue
		}
		if mayHaveProcesses(r) {
			look = append(look, t)
		}
	}
	l.tasks.sort()

	found := make([]finding, len(look))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, t := range look {
		group.Go(func() error {
			found[i] = l.find(ctx, t.rec, same)
			return nil
		})
	}
	waits := make([]Task, len(over))
	for i, t := range over {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, attachTimeout)
			defer cancel()
			waits[i], _ = l.rt.Attach(ctx, t.rec.ID) // as a rule there is none
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, t := range over {
		if waits[i] != nil {
			l.attach(t, waits[i])
			l.dismiss(t)
		}
	}
	for i, t := range look {
		l.reconcile(t, found[i], same)
	}
	if err := l.inputs.reconcile(l.tasks.all); err != nil {
		return err
	}
	l.containers.endUnsupervised(same)
	for _, t := range l.tasks.active {
		l.inputs.expect(t)
	}
	l.rebase(same)
	l.metaChanged = true // the boot
	l.log.Info("state read", "tasks", len(l.tasks.all), "unended", len(l.tasks.active), "same boot", same)
	return nil
}

// mayHaveProcesses tells whether something of the task may exist outside the
// records.
func mayHaveProcesses(r *record) bool {
	return r.Op != nil || r.State == headrace.Running || r.State == headrace.Suspended || r.State == headrace.Checkpointed
}

// rebase continues waiting times across boots and forgets what cannot be
// continued.
func (l *loop) rebase(same bool) {
	now := l.clk.boot()
	for _, t := range l.tasks.active {
		if same && t.rec.Boot == l.boot && t.rec.Since <= now {
			continue
		}
		t.rec.Since, t.rec.Boot = now, l.boot
		l.touch(t)
	}
}

// finding is what is true of a task that a record says something about.
type finding struct {
	live Task
	exit *proc.Exit
	// err is why nobody knows; proc.ErrGone when there is no supervisor.
	err error
	// image is a checkpoint newer than the recorded one.
	image *image
}

func (l *loop) find(ctx context.Context, r record, same bool) finding {
	f := finding{err: proc.ErrGone}
	if same {
		f = l.findProcesses(ctx, r)
	} else if exit, _ := l.unseenEnd(r.ID, r.SeenExit); exit != nil {
		f = finding{exit: exit}
	}
	if in := r.Op; in.doing() == headrace.Checkpointing && in.Dir != "" {
		f.image = l.images.newer(r.ID, in, r.Checkpoint)
	}
	return f
}

func (l *loop) findProcesses(ctx context.Context, r record) (f finding) {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	f.live, f.err = l.rt.Attach(ctx, r.ID)
	if !errors.Is(f.err, proc.ErrGone) {
		return f
	}
	if exit, err := l.unseenEnd(r.ID, r.SeenExit); exit != nil || err != nil {
		f.exit, f.err = exit, err
	}
	return f
}

// unseenEnd reads how a task has ended that has no supervisor, if no daemon has taken
// that in, the last end that one has being at seen; else it returns nil.
func (l *loop) unseenEnd(id headrace.TaskID, seen time.Time) (*proc.Exit, error) {
	exit, ok, err := l.rt.ExitOf(id)
	if err != nil || !ok || exit.At.Equal(seen) {
		return nil, err
	}
	return &exit, nil
}

// reconcile brings one record up to date with what was found.
func (l *loop) reconcile(t *task, f finding, same bool) {
	in := t.rec.Op
	switch {
	case f.live != nil:
		l.attach(t, f.live)
		if in != nil {
			l.settle(t, in)
		}
		return
	case f.exit != nil && (t.rec.State != headrace.Checkpointed || in.doing() == headrace.Restoring && f.exit.EndsRestore(t.rec.SeenExit)):
		if t.rec.State == headrace.Checkpointed {
			t.rec.State = headrace.Running // it was restored before it ended
		}
		t.rec.Op = nil
		if in.doing() == headrace.Killing {
			in.Late = before(*f.exit, in)
		}
		l.exited(t, *f.exit, in)
		return
	case f.exit == nil && !errors.Is(f.err, proc.ErrGone):
		l.reattach(t, f.err)
		return
	}
	t.rec.Op = nil
	l.touch(t)
	if in != nil {
		t.rec.note(event{AtMs: l.clk.wall().UnixMilli(), State: t.rec.State.String(), Reason: "the daemon ended meanwhile"})
	}
	l.gone(t, in, f, same)
}

// before tells whether a command ended by itself before it was to be killed, as
// far as that can be told afterwards. In doubt it was killed: to do work again is
// better than to take a half for the whole.
func before(exit proc.Exit, in *intent) bool {
	return exit.Signal == 0 && exit.Code < 128 && exit.At.UnixMilli() < in.AtMs
}

// gone deals with a task that has no supervisor and no recorded end.
func (l *loop) gone(t *task, in *intent, f finding, same bool) {
	why := "its supervisor was killed while no daemon was running"
	if !same {
		why = "the machine was restarted"
	}
	switch kind := in.doing(); {
	case kind == headrace.Killing && in.User:
		l.final(t, headrace.Killed, nil, "killed by a user", false)
	case kind == headrace.Starting && same:
		// The next start begins by ending whatever this one has left.
	case kind == headrace.Starting:
		l.vanished(t, proc.Exit{}, why)
	case f.image != nil:
		t.rec.Checkpoint, t.rec.RanOn = f.image, true
		t.rec.Held = t.rec.Held || in.User
		l.enter(t, headrace.Checkpointed, event{Bytes: f.image.Stored, Reason: in.Reason})
	case t.rec.State == headrace.Checkpointed && kind != headrace.Restoring:
	case kind == headrace.Killing:
		l.evicted(t, proc.Exit{Usage: t.rec.Last}, in)
	default:
		l.vanished(t, proc.Exit{Usage: t.rec.Last}, why)
	}
}

// settle has the supervisor finish what an earlier daemon had asked for, and
// takes in how it came out. Nobody knows whether the request had got through, or
// is still being worked on, so it is made again: the supervisor carries out one
// after the other, and refuses what is done already.
func (l *loop) settle(t *task, in *intent) {
	again := *in
	again.Again = true
	t.rec.Op = nil
	switch in.Kind {
	case headrace.Killing:
		if t.rec.State == headrace.Checkpointed {
			l.discard(t, nil)
			return
		}
		l.kill(t, &again, nil)
		return
	case headrace.Restoring:
		l.restore(t, &again)
		return
	case headrace.Starting:
		l.schedulerOf(t).startAgain(t, &again)
		return
	}
	l.finish(t, &again)
}

// finish has the supervisor carry out an operation that an earlier daemon had begun.
func (l *loop) finish(t *task, again *intent) {
	live, id := t.live, t.rec.ID
	last := t.rec.Checkpoint
	l.begin(t, again.Kind, again, nil, func(ctx context.Context) func() error {
		stats, err := l.askAgain(ctx, live, again)
		var im *image
		if err == nil && stats.State == headrace.Checkpointed && again.Kind == headrace.Checkpointing {
			im = l.images.newer(id, again, last)
		}
		return func() error { return l.settledAs(t, again, stats, im, err) }
	})
}

// startSeen is how long a supervisor without processes may take to begin a start
// that was under way when the daemon ended.
const startSeen = time.Second

// askAgain makes a request again and returns the state after it.
func (l *loop) askAgain(ctx context.Context, live Task, in *intent) (proc.Stats, error) {
	var err error
	switch in.Kind {
	case headrace.Suspending:
		_, err = live.Suspend(ctx, in.Grace)
	case headrace.Resuming:
		err = live.Resume(ctx)
	case headrace.Checkpointing:
		st := l.stores.named(in.Store)
		opts := proc.CheckpointOptions{Store: in.Dir, Compress: st != nil && st.Compress}
		_, err = live.Checkpoint(ctx, opts)
	}
	if err != nil && !errors.Is(err, proc.ErrState) {
		l.log.Warn("what was under way when the daemon ended did not succeed", "operation", in.Kind, "err", err)
	}
	began := l.clk.boot()
	for {
		stats, err := live.Stats(ctx)
		starting := in.Kind == headrace.Starting && stats.State == headrace.Checkpointed && l.clk.boot()-began < startSeen
		if err == nil && !starting || errors.Is(err, proc.ErrGone) {
			return stats, err
		}
		select {
		case <-time.After(startSeen / 10):
		case <-ctx.Done():
			return stats, ctx.Err()
		}
	}
}

func (l *loop) settledAs(t *task, in *intent, stats proc.Stats, im *image, err error) error {
	if err != nil {
		return err // its end is reported by the connection
	}
	t.stats, t.statsAt, t.known = stats, l.clk.boot(), stats.State != headrace.Checkpointed
	reason := in.Reason
	if stats.State == t.rec.State {
		reason = "the daemon ended while it was " + in.Kind.String()
		l.enter(t, stats.State, event{Reason: reason})
		return nil
	}
	switch stats.State {
	case headrace.Running:
		if in.Kind == headrace.Restoring {
			t.rec.RanOn = true
		}
		t.rec.Forfeit = false
	case headrace.Suspended:
		l.left(t, in, headrace.Suspend)
	case headrace.Checkpointed:
		if in.Kind == headrace.Starting {
			l.schedulerOf(t).notBegun(t)
			return nil
		}
		if im == nil {
			l.vanished(t, proc.Exit{Usage: stats.Usage}, fmt.Sprintf("its processes were gone after the daemon ended while it was %s", in.Kind))
			return nil
		}
		t.rec.Checkpoint, t.rec.RanOn = im, false
		l.left(t, in, headrace.Checkpoint)
		l.enter(t, headrace.Checkpointed, event{Bytes: im.Stored, Reason: reason})
		l.images.collect(t)
		return nil
	default:
		return nil // ended; the connection will tell
	}
	l.enter(t, stats.State, event{Reason: reason})
	return nil
}

// reattach tries for ever to find out what is with a task whose supervisor
// neither answers nor is gone. It holds what it has until then.
func (l *loop) reattach(t *task, err error) {
	t.rec.Reason = "its supervisor does not answer, trying again: " + err.Error()
	l.log.Warn("a supervisor does not answer", "id", t.rec.ID, "err", err)
	rec := t.rec
	l.begin(t, headrace.Attaching, nil, nil, func(ctx context.Context) func() error {
		for {
			select {
			case <-time.After(attachRetry):
			case <-ctx.Done():
				return func() error { return ctx.Err() }
			}
			f := l.find(ctx, rec, true)
			if f.live != nil || f.exit != nil || errors.Is(f.err, proc.ErrGone) {
				return func() error { l.reconcile(t, f, true); return nil }
			}
		}
	})
	l.touch(t)
}
