package solo

import (
	"context"
	"errors"
	"strings"
	"time"

	"headrace"
	"headrace/disk"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/solo/journal"
	"headrace/solo/request"
	"headrace/solo/statedir"
	"headrace/solo/store"
)

// checkpoint dumps a running or suspended task to in.Store. The task goes on
// until it is its turn at the device.
func (o *operations) checkpoint(t *task, in *journal.Intent, st *store.Store, c *call) {
	live := t.live
	in.Store, in.Dir = st.Name, st.Dir
	t.rec.AddImageDir(st.Dir)
	opts := proc.CheckpointOptions{Store: st.Dir, Compress: st.Compress, MaxDeleted: o.admission.deletedRoom(t, st, c)}
	need, had := t.dump().Writes(st), t.checkpointBytes()
	p, m := o.stores.Promise(st, need), st.Dumping(o.serves(t, in, c), t.rec.ID, need)
	reads, settled := t.opensItself(), o.images.settled(t.rec.ID)
	o.begin(t, headrace.Checkpointing, in, c, func(ctx context.Context) func() error {
		defer m.Close()
		var positions map[linux.FileID]int64
		var res proc.CheckpointResult
		var took time.Duration
		var at int64
		asked := false
		write := func() (bytes int64, err error) {
			if err := o.stores.There(ctx, opts.Store); err != nil {
				return 0, err
			}
			free, err := o.stores.Fits(ctx, opts.Store, need)
			if err != nil {
				return 0, err
			}
			if free >= 0 {
				opts.MaxDeleted = max(1, min(opts.MaxDeleted, free-need))
			}
			o.offer(func() { p.Begin(free) })
			opts.StoreID, opts.Asked = o.stores.ID(opts.Store), in.Began
			positions = o.positions(live, reads) // it may read on until it is stopped
			watch := o.stopwatch()
			asked = true
			res, err = live.Checkpoint(ctx, opts)
			took, at = watch()
			return res.Stored, err
		}
		err := settled(ctx) // before its turn: nobody is to wait while old checkpoints are removed
		if err == nil {
			err = store.InTurn(ctx, m, live.Exited(), write)
		}
		return func() error {
			p.End(o.clk.boot(), res.Stored)
			if asked && errors.Is(err, proc.ErrGone) {
				t.unanswered = in
			}
			if err != nil {
				o.checkpointFailed(t, st, err)
				return err
			}
			o.inputs.expectRest(t, positions)
			o.checkpointed(t, in, st, res, took, at)
			return nil
		}
	})
	o.admission.promised(t, had)
}

// serves returns for whom a task is dumped: users have equal shares of a device. It is who asks for it, else
// the owner of the task that is to have its room; what another scheduler orders is nobody's in particular.
func (o *operations) serves(t *task, in *journal.Intent, c *call) (uid uint32) {
	switch u := o.tasks.all[in.For]; {
	case c != nil && c.ordered:
		return 0
	case c != nil:
		return c.by.UID
	case u != nil:
		return u.rec.UID
	}
	return t.rec.UID
}

func (o *operations) checkpointed(t *task, in *journal.Intent, st *store.Store, res proc.CheckpointResult, took time.Duration, at int64) {
	o.succeeded(t)
	st.LearnDump(res.Stored, res.Total, took)
	o.metaChanged = true
	o.counts.dump(took, res.Stored)
	if res.Chain > 1 && res.Total > 0 {
		t.rec.Ratio = store.Average(t.rec.Ratio, float64(res.Stored)/float64(res.Total))
	}
	t.rec.Checkpoint = &journal.Image{
		Store: st.Name, Dir: st.Dir, Compress: st.Compress, Seq: res.Seq, Chain: res.Chain,
		Stored: res.Stored, Total: res.Total, ToRead: res.ToRead, TakenMs: at, Dump: took,
	}
	t.rec.RanOn = false
	t.rec.NoCheckpoint, t.noCheckpointUntil = "", 0
	o.left(t, in, headrace.Checkpoint)
	o.enter(t, headrace.Checkpointed, journal.Event{AtMs: at, Took: took, Bytes: res.Stored, Reason: in.Reason, Delay: in.Delay})
	t.known = false
	o.images.collect(t)
}

// laterFor is how long a task is not checkpointed again that held something which
// passes while it runs.
const laterFor = 10 * time.Second

// stalledFor is how long a task is not checkpointed again at whose dump CRIU hung: it
// has stood still for long.
const stalledFor = 15 * time.Minute

// checkpointFailed leaves the task as it was and remembers why, for as long as that
// holds.
func (o *operations) checkpointFailed(t *task, st *store.Store, err error) {
	until := time.Duration(0)
	switch {
	case errors.Is(err, context.Canceled):
		return
	case errors.Is(err, proc.ErrGone):
		o.foundGone(t)
		return
	case errors.Is(err, proc.ErrNotCheckpointable), errors.Is(err, proc.ErrUnsupported):
		t.rec.NoCheckpoint, t.noCheckpointUntil = err.Error(), 0
	case errors.Is(err, proc.ErrCheckpointLater):
		t.rec.NoCheckpoint = err.Error()
		t.noCheckpointUntil = o.clk.boot() + laterFor
	case errors.Is(err, proc.ErrStalled):
		t.rec.NoCheckpoint = err.Error()
		t.noCheckpointUntil = o.clk.boot() + stalledFor
		o.images.tidy(st.Dir, t.rec.ID)
	case errors.Is(err, proc.ErrNoSpace):
		until = o.stores.Full(st)
	default:
		t.rec.NoCheckpoint = err.Error()
		t.noCheckpointUntil = o.clk.boot() + time.Minute
		if !errors.Is(err, proc.ErrNotNow) { // else it has not begun, or the store is away
			o.images.tidy(st.Dir, t.rec.ID)
		}
	}
	o.counts.failure.Inc()
	o.log.Warn("a checkpoint failed; the task goes on", "id", t.rec.ID, "store", st.Name, "err", err)
	o.troubled(t, "checkpoint failed: "+err.Error(), max(until, t.noCheckpointUntil))
}

// restore brings a checkpointed task back.
func (o *operations) restore(t *task, in *journal.Intent) {
	im, spec, user, stored := *t.rec.Checkpoint, o.specOf(t), t.rec.User, t.stored
	opts := proc.RestoreOptions{Store: im.Dir, Compress: im.Compress, Last: im.Seq, RanOn: t.rec.RanOn, SharedOutput: t.rec.SharedOutput, Scratch: statedir.Scratch(o.cfg.StateDir), SeenExit: t.rec.SeenExit}
	in.Store, in.Dir = im.Store, im.Dir
	o.detach(t)
	var m *disk.Reader
	if st := o.stores.Named(im.Store); st != nil {
		m = st.Restoring(t.rec.UID, spec.ID, im.ToRead)
	}
	o.begin(t, headrace.Restoring, in, nil, func(ctx context.Context) func() error {
		watch := o.stopwatch()
		var live Task
		var res proc.RestoreResult
		err := store.InTurn(ctx, m, nil, func() (bytes int64, err error) {
			watch = o.stopwatch() // without the waiting
			if err = o.stores.There(ctx, im.Dir); err != nil {
				return 0, err
			}
			opts.StoreID = o.stores.ID(im.Dir)
			if spec, err = o.ledger.whole(spec, stored); err == nil {
				spec, err = o.renew(spec, user)
			}
			if ran, none := o.rt.SpecOf(spec.ID); err == nil && none == nil && !spec.Attached {
				err = request.MayGoOn(&ran, &spec)
			}
			if err == nil {
				live, res, err = o.rt.Restore(ctx, spec, opts)
			}
			return res.Read, err
		})
		took, at := watch()
		if err != nil {
			if errors.Is(err, context.Canceled) { // by a kill, which sees to the supervisor
				return func() error { return err }
			}
			// The supervisor that waits for the next attempt, if there is one.
			idle, attachErr := o.attachOrGone(ctx, spec.ID)
			exit, _ := o.unseenEnd(spec.ID, opts.SeenExit)
			if errors.Is(attachErr, proc.ErrGone) && exit != nil && exit.EndsRestore(opts.SeenExit) {
				return func() error {
					t.rec.State = headrace.Running // an earlier daemon's request had got through
					o.exited(t, *exit, in)
					return nil
				}
			}
			live = idle
			if idle != nil && gotThrough(ctx, idle, opts.SeenExit, err) {
				return func() error {
					o.restored(t, in, idle, im, proc.RestoreResult{}, took, at)
					return nil
				}
			}
			end := proc.Exit{Lost: true}
			if exit != nil {
				end = *exit
			}
			return func() error { o.restoreFailed(t, live, err, end); return err }
		}
		return func() error {
			o.restored(t, in, live, im, res, took, at)
			return nil
		}
	})
}

// attachOrGone finds the supervisor of a task, however often it has to ask: that it could not be asked does not say that it is gone. Its
// error is proc.ErrGone, or ctx's.
func (o *operations) attachOrGone(ctx context.Context, id headrace.TaskID) (Task, error) {
	defer o.heard(id, nil)
	for {
		live, err := o.rt.Attach(ctx, id)
		switch {
		case err == nil:
			return live, nil
		case errors.Is(err, proc.ErrGone):
			return nil, err
		case errors.Is(err, proc.ErrNoAnswer):
			o.heard(id, err)
		}
		o.log.Warn("a supervisor does not answer", "id", id, "err", err)
		select {
		case <-time.After(attachRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// gotThrough tells whether a restore was refused because the request of an earlier
// daemon has brought the task to life: it runs, or it has ended since, maybe just now.
func gotThrough(ctx context.Context, live Task, seen time.Time, refused error) bool {
	if !errors.Is(refused, proc.ErrState) && !errors.Is(refused, proc.ErrGone) {
		return false
	}
	stats, err := live.Stats(ctx)
	if !errors.Is(err, proc.ErrGone) {
		return err == nil && stats.State == headrace.Running
	}
	select {
	case <-live.Exited(): // its supervisor is writing down how it ended
		return live.Exit().EndsRestore(seen)
	case <-ctx.Done():
		return false
	}
}

func (o *operations) restored(t *task, in *journal.Intent, live Task, im journal.Image, res proc.RestoreResult, took time.Duration, at int64) {
	o.succeeded(t)
	if st := o.stores.Named(im.Store); st != nil && res.Read > 0 {
		st.LearnRestore(res.Read, took)
		o.metaChanged = true
	}
	o.counts.restore(took, res.Read)
	if res.Seq != 0 {
		im.Restore, im.Seq = took, res.Seq
	}
	t.rec.Checkpoint = &im
	t.rec.RanOn, t.rec.Forfeit = true, false
	o.attach(t, live)
	t.back = im.Memory()
	reason := in.Reason
	if len(res.Skipped) > 0 {
		reason = "from an older checkpoint: " + strings.Join(res.Skipped, "; ")
		o.log.Warn("a checkpoint could not be used, an older one was", "id", t.rec.ID, "skipped", res.Skipped)
	}
	o.enter(t, headrace.Running, journal.Event{AtMs: at, Took: took, Bytes: res.Read, Reason: reason, Delay: in.Delay})
}

// restoreFailed leaves a task without processes; idle is its supervisor, if there is
// one, and end how that has ended, if there is none.
func (o *operations) restoreFailed(t *task, idle Task, err error, end proc.Exit) {
	o.log.Error("restoring a task failed", "id", t.rec.ID, "err", err)
	o.counts.restoreFailure.Inc()
	if idle != nil {
		o.attach(t, idle)
	}
	o.schedulerOf(t).notRestored(t, err, end)
}
