package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"headrace"
	"headrace/proc"
	"headrace/solo/journal"
)

const (
	attachTimeout = 5 * time.Second
	attachRetry   = 2 * time.Second
	// attachPatience is how long who wants something of a task waits until its supervisor is found, as that of a proc.Runtime.
	attachPatience = 30 * time.Second
)

// recovery makes the records agree with what is true.
type recovery struct {
	*operations
	// written is the boot in which they were written.
	written string
	// supervised are the supervisors that there were when the daemon started, those that cannot be reached too; nil: it is not known.
	supervised map[headrace.TaskID]int
}

// same tells whether the machine has not been restarted since the records were written.
func (r *recovery) same() bool { return r.written == r.boot }

// run makes the records agree with what is true, before anybody is served.
//
// In the same boot of the machine a task's supervisor knows best. Where there is
// none, the recorded end counts; where that is missing too, the task has
// vanished, unless it was only about to be started and its command had not begun.
// After another boot there are no processes: checkpointed tasks stay so, of the
// others those are restored or started again that may be. In both cases a checkpoint
// that was committed while no daemon was there to see it counts.
func (r *recovery) run(ctx context.Context, c journal.Contents) error {
	var err error
	if r.supervised, err = r.rt.Supervisors(); err != nil {
		return err
	}
	var look, over []*task
	var concluded []headrace.TaskID
	for _, rec := range c.Records {
		t := &task{rec: *rec}
		// How long these were to hold is not recorded; the next attempt finds out anew.
		t.rec.NoCheckpoint, t.rec.NoSuspend = "", ""
		t.recall(r.clk)
		if spec := c.Specs[rec.ID]; spec != nil {
			t.spec = *spec
			t.store()
		}
		r.tasks.load(t)
		r.show(t)
		if rec.State.Final() {
			if rec.Checkpoint == nil {
				r.images.drop(t)
			}
			if r.same() {
				over = append(over, t)
			}
			if rec.Checkpoint == nil {
				concluded = append(concluded, rec.ID)
			}
			continue
		}
		if mayHaveProcesses(rec) {
			look = append(look, t)
		}
	}
	r.conclude(concluded...) // the last daemon may not have come to that
	if err := r.unknown(ctx); err != nil {
		return err
	}
	r.tasks.sort()

	found := make([]finding, len(look))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(16)
	for i, t := range look {
		group.Go(func() error {
			found[i] = r.find(ctx, t.rec)
			return nil
		})
	}
	waits := make([]Task, len(over))
	for i, t := range over {
		group.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, attachTimeout)
			defer cancel()
			waits[i], _ = r.rt.Attach(ctx, t.rec.ID) // as a rule there is none
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, t := range over {
		if waits[i] != nil {
			r.attach(t, waits[i])
			r.dismiss(t)
		}
	}
	for i, t := range look {
		r.reconcile(t, found[i])
	}
	if err := r.inputs.reconcile(r.tasks.all); err != nil {
		return err
	}
	r.endUnsupervised()
	for _, t := range r.tasks.active {
		r.inputs.expect(t)
	}
	r.rebase()
	r.metaChanged = true // the boot
	r.log.Info("state read", "tasks", len(r.tasks.all), "unended", len(r.tasks.active), "same boot", r.same())
	return nil
}

// mayHaveProcesses tells whether something of the task may exist outside the
// records.
func mayHaveProcesses(r *journal.Record) bool {
	return r.Op != nil || r.State == headrace.Running || r.State == headrace.Suspended || r.State == headrace.Checkpointed
}

// mostOverBoot bounds what is added to a wait for the time before a restart of the machine. It is
// enough for the top of any band.
const mostOverBoot = 24 * time.Hour

// waitedBefore returns for how long t had waited when the machine was restarted, and while that was
// down. Only the wall clock tells; where it has jumped that is nothing, or mostOverBoot.
func (t *task) waitedBefore(wall time.Time) time.Duration {
	began := t.rec.SinceMs
	if began == 0 && t.rec.StartedMs == 0 { // written by a daemon that did not know SinceMs
		began = t.rec.SubmittedMs
	}
	if t.rec.State == headrace.Running || t.rec.Limited || began == 0 {
		return 0
	}
	return min(max(0, wall.Sub(time.UnixMilli(began))), mostOverBoot)
}

// rebase continues waiting times across boots and forgets what cannot be
// continued.
func (r *recovery) rebase() {
	now, wall := r.clk.boot(), r.clk.wall()
	for _, t := range r.tasks.active {
		if r.same() && t.rec.Boot == r.boot && t.rec.Since <= now {
			continue
		}
		if t.rec.Boot != r.boot {
			t.rec.Waited += t.waitedBefore(wall)
		}
		r.sinceNow(t)
		r.touch(t)
	}
}

// endUnsupervised ends hosted tasks that have no supervisor after a start of the
// daemon: nothing of them can come back, unless they are saved and their processes are still there.
func (r *recovery) endUnsupervised() {
	why := "its supervisor was gone when the daemon came back"
	if !r.same() {
		why = "the machine was restarted"
	}
	for _, t := range append([]*task(nil), r.tasks.active...) {
		if t.hosted() && t.live == nil && t.op == nil && t.awaited == 0 {
			r.final(t, headrace.Lost, nil, why, false)
		}
	}
}

// finding is what is true of a task that a record says something about.
type finding struct {
	live Task
	exit *proc.Exit
	// err is why nobody knows; proc.ErrGone when there is no supervisor.
	err error
	// begun: it has no supervisor, and the start or restore under way may have begun its command.
	begun bool
	// stats are its supervisor's, of a task that nothing was being done to; nil: none, or it does not say.
	stats *proc.Stats
	// image is a checkpoint newer than the recorded one.
	image *journal.Image
}

func (r *recovery) find(ctx context.Context, rec journal.Record) finding {
	f := finding{err: proc.ErrGone}
	if r.same() {
		f = r.findProcesses(ctx, rec)
	} else if live := r.alive(ctx, rec.ID); live != nil { // the records are from before the reboot, the task is not
		f = finding{live: live}
	} else if exit, _ := r.unseenEnd(rec.ID, rec.SeenExit); exit != nil {
		f = finding{exit: exit}
	}
	if f.live == nil && f.exit == nil && errors.Is(f.err, proc.ErrGone) {
		err := r.unreached(rec.ID)
		if err == nil && rec.Op.Doing() == headrace.Restoring {
			f.begun, err = r.rt.Begun(rec.ID, r.written, rec.Op.Began)
		}
		if err != nil {
			f.err = err
		}
	}
	if rec.Op == nil && rec.Kill == nil && (rec.State == headrace.Running || rec.State == headrace.Suspended) {
		r.findOtherwise(ctx, rec, &f)
	}
	if in := rec.Op; in.Doing() == headrace.Checkpointing && in.Dir != "" && f.exit == nil && errors.Is(f.err, proc.ErrGone) {
		im, err := r.images.newer(ctx, rec.ID, in, rec.Checkpoint)
		if f.image = im; err != nil {
			f.err = fmt.Errorf("its last checkpoint cannot be looked for: %w", err)
		}
	}
	return f
}

// findOtherwise looks whether a task is not as recorded although nothing was being done to it: its record may be an older
// one that was put back.
func (r *recovery) findOtherwise(ctx context.Context, rec journal.Record, f *finding) {
	if f.live != nil {
		ctx, cancel := context.WithTimeout(ctx, attachTimeout)
		defer cancel()
		if stats, err := f.live.Stats(ctx); err == nil {
			f.stats = &stats
		}
	}
	empty := f.stats != nil && f.stats.State == headrace.Checkpointed
	if empty || f.live == nil && f.exit == nil && errors.Is(f.err, proc.ErrGone) {
		image, err := r.images.unrecorded(ctx, &rec)
		if f.image = image; err == nil {
			return
		}
		if f.live != nil { // else it would be taken for one that has lost its processes
			f.live.Close()
		}
		*f = finding{err: fmt.Errorf("whether it has a checkpoint that is not recorded is not known: %w", err)}
	}
}

// unreached is Runtime.Unreached, which looks at all processes only if there was a supervisor when the daemon started.
func (r *recovery) unreached(id headrace.TaskID) error {
	if r.supervised != nil && r.supervised[id] == 0 {
		return nil
	}
	return r.rt.Unreached(id)
}

// alive returns the connection to a task's supervisor; nil: none answers.
func (r *recovery) alive(ctx context.Context, id headrace.TaskID) Task {
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	if live, err := r.rt.Attach(ctx, id); err == nil { // a nil pointer in an interface is not nil
		return live
	}
	return nil
}

func (r *recovery) findProcesses(ctx context.Context, rec journal.Record) (f finding) {
	ctx, cancel := context.WithTimeoutCause(ctx, attachTimeout, proc.ErrNoAnswer)
	defer cancel()
	f.live, f.err = r.rt.Attach(ctx, rec.ID)
	if !errors.Is(f.err, proc.ErrGone) {
		return f
	}
	exit, err := r.unseenEnd(rec.ID, rec.SeenExit)
	if exit == nil && err == nil && rec.Op.Doing() == headrace.Starting {
		f.begun, err = r.rt.Begun(rec.ID, r.boot, rec.Op.Began)
		if f.begun && err == nil { // without namespaces what was started may go on
			err = r.rt.End(ctx, rec.ID)
		}
	}
	if exit != nil || err != nil {
		f.exit, f.err = exit, err
	}
	return f
}

// reconcile brings one record up to date with what was found.
func (r *recovery) reconcile(t *task, f finding) {
	in := t.rec.Op
	if in == nil && t.rec.Kill != nil && t.rec.Kill.User {
		in = t.rec.Kill // which could not be done: it is not forgotten
	}
	switch {
	case f.live != nil:
		r.attach(t, f.live)
		switch {
		case in != nil:
			r.settle(t, in)
		case f.image != nil:
			r.saved(t, in, f.image)
		case f.stats != nil && f.stats.State != t.rec.State && f.stats.State != headrace.Checkpointed && !f.stats.State.Final():
			t.stats, t.statsAt, t.known = *f.stats, r.clk.boot(), true
			r.enter(t, f.stats.State, journal.Event{Reason: otherwise})
		}
		return
	case f.exit != nil && (t.rec.State != headrace.Checkpointed || f.exit.KilledForUser || in.Doing() == headrace.Restoring && f.exit.EndsRestore(t.rec.SeenExit)):
		if t.rec.State == headrace.Checkpointed {
			t.rec.State = headrace.Running // it was restored before it ended
		}
		t.rec.Op = nil
		if in.Doing() == headrace.Killing {
			in.Late = before(*f.exit, in)
		}
		if in.Doing() == headrace.Checkpointing {
			t.unanswered = in
		}
		r.exited(t, *f.exit, in)
		return
	case f.exit == nil && !errors.Is(f.err, proc.ErrGone):
		r.reattach(t, f.err)
		return
	}
	op := t.rec.Op
	t.rec.Op = nil
	r.touch(t)
	if op != nil {
		t.rec.Note(journal.Event{AtMs: r.clk.wall().UnixMilli(), State: t.rec.State.String(), Reason: "the daemon ended meanwhile"})
	}
	r.gone(t, in, f)
}

// before tells whether a command ended by itself before it was to be killed, as
// far as that can be told afterwards. In doubt it was killed: to do work again is
// better than to take a half for the whole.
func before(exit proc.Exit, in *journal.Intent) bool {
	return exit.Signal == 0 && exit.Code < 128 && exit.At.UnixMilli() < in.AtMs
}

// gone deals with a task that has no supervisor and no recorded end.
func (r *recovery) gone(t *task, in *journal.Intent, f finding) {
	why := "its supervisor was killed while no daemon was running"
	if !r.same() {
		why = "the machine was restarted"
	}
	switch kind := in.Doing(); {
	case kind == headrace.Killing && in.User:
		r.final(t, headrace.Killed, nil, "killed by a user", false)
	case kind == headrace.Starting && r.same() && !f.begun:
		// The next start begins by ending whatever this one has left.
	case kind == headrace.Starting:
		r.vanished(t, proc.Exit{}, why+" while it was being started: its command may have begun")
	case f.image != nil:
		r.saved(t, in, f.image)
		r.awaitProcess(t, f)
	case t.rec.State == headrace.Checkpointed && (kind != headrace.Restoring || !f.begun):
		r.awaitProcess(t, f)
	case kind == headrace.Killing:
		r.evicted(t, proc.Exit{Usage: t.rec.Last}, in)
	default:
		r.vanished(t, proc.Exit{Usage: t.rec.Last}, why)
	}
}

const otherwise = "so it was when the daemon started, with records that said something else"

// saved takes in a checkpoint that was committed while no daemon was there to see it; in is what made it, nil: nobody knows.
func (r *recovery) saved(t *task, in *journal.Intent, im *journal.Image) {
	reason := otherwise
	if in != nil {
		t.rec.Held = t.rec.Held || in.User
		reason = in.Reason
	}
	t.rec.Checkpoint, t.rec.RanOn = im, t.live == nil
	t.rec.AddImageDir(im.Dir)
	r.enter(t, headrace.Checkpointed, journal.Event{Bytes: im.Stored, Reason: reason})
}

// awaitProcess has a container that is saved wait for its process, which has not ended as far as is known.
func (r *recovery) awaitProcess(t *task, f finding) {
	if t.hosted() && r.same() && (f.exit == nil || f.exit.Lost) && t.rec.Checkpoint != nil {
		r.orphaned(t)
	}
}

// settle has the supervisor finish what an earlier daemon had asked for, and
// takes in how it came out. Nobody knows whether the request had got through, or
// is still being worked on, so it is made again: the supervisor carries out one
// after the other, and refuses what is done already.
func (r *recovery) settle(t *task, in *journal.Intent) {
	again := *in
	again.Again = true
	t.rec.Op = nil
	switch in.Kind {
	case headrace.Killing:
		if t.rec.State == headrace.Checkpointed {
			r.discard(t, nil)
			return
		}
		r.kill(t, &again, nil)
		return
	case headrace.Restoring:
		r.restore(t, &again)
		return
	case headrace.Starting:
		r.schedulerOf(t).startAgain(t, &again)
		return
	}
	r.finish(t, &again)
}

// reattach tries for ever to find out what is with a task whose supervisor
// neither answers nor is gone, or of which nobody can say whether it was checkpointed. It holds what it has until then.
func (r *recovery) reattach(t *task, err error) {
	why := fmt.Errorf("what became of it is not known, trying again: %w", err)
	r.log.Warn("what became of a task is not known", "id", t.rec.ID, "err", err)
	rec, began := t.rec, r.clk.boot()
	r.begin(t, headrace.Attaching, nil, nil, func(ctx context.Context) func() error {
		for {
			select {
			case <-time.After(attachRetry):
			case <-ctx.Done():
				return func() error { r.silent(t, nil); return ctx.Err() }
			}
			f := r.find(ctx, rec)
			if f.live != nil || f.exit != nil || errors.Is(f.err, proc.ErrGone) {
				return func() error { r.silent(t, nil); r.reconcile(t, f); return nil }
			}
			if r.clk.boot()-began >= attachPatience {
				r.post(func() { r.silent(t, why) })
			}
		}
	})
	r.touch(t)
}
