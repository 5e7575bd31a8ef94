package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace"
	"headrace/migrate"
	"headrace/proc"
	"headrace/serve"
)

// Elsewhere is where checkpoints of hosted tasks wait until their command is started
// again, on whatever machine: a [migrate.Mover], whose methods say what these do. They
// may block, and are called concurrently.
type Elsewhere interface {
	fmt.Stringer
	Send(ctx context.Context, p migrate.Parcel, begun func() error) error
	Withdraw(ctx context.Context, id string) error
	Take(ctx context.Context, p migrate.Parcel) (migrate.Taken, error)
	// Problem tells why the place cannot be used; empty when it can.
	Problem() string
}

// sent is durable of a task whose checkpoint was sent, or began to be.
type sent struct {
	ID string `json:"id"`
	// Done: it is there.
	Done bool `json:"done,omitempty"`
}

// parcel is the task's checkpoint; store is where it is, or is to come to.
func (l *loop) parcel(t *task, store string, compress bool) migrate.Parcel {
	return migrate.Parcel{
		Task: t.rec.ID, Application: t.rec.Hosting.Application, User: t.rec.User, Spec: t.spec, Store: store, Compress: compress,
	}
}

// archive sends the checkpoint of a task away, for its command to go on elsewhere.
// The task stays what it is: its scheduler ends it, or has it resumed here, which
// takes the checkpoint back.
func (l *loop) archive(t *task, in *intent, c *call) {
	switch {
	case l.cfg.Elsewhere == nil:
		l.answer(c, t, fmt.Errorf("%w: this daemon has no archive; start it with --archive", serve.ErrState))
	case t.rec.State != headrace.Checkpointed:
		l.answer(c, t, fmt.Errorf("%w: task %s is %s; only a checkpoint can go elsewhere", serve.ErrState, t.rec.ID, t.rec.State))
	case t.rec.Held:
		l.answer(c, t, fmt.Errorf("%w: task %s is held by a user", serve.ErrState, t.rec.ID))
	case t.rec.Sent == nil:
		l.send(t, in, c)
	case t.rec.Sent.Done:
		l.answer(c, t, nil)
	default: // an attempt was interrupted
		l.takeBack(t, in, c, func() { l.send(t, in, c) })
	}
}

func (l *loop) send(t *task, in *intent, c *call) {
	p := l.parcel(t, t.rec.Checkpoint.Dir, t.rec.Checkpoint.Compress)
	p.ID = migrate.NewID()
	// Its name is durable before anybody else may have it, but not before it is there:
	// what is not there cannot be withdrawn.
	begun := func() error { return l.durably(func() { t.rec.Sent = &sent{ID: p.ID}; l.touch(t) }) }
	l.begin(t, headrace.Archiving, in, c, func(ctx context.Context) func() error {
		watch := l.stopwatch()
		err := l.cfg.Elsewhere.Send(ctx, p, begun)
		took, at := watch()
		return func() error {
			if err != nil {
				l.log.Warn("a checkpoint could not be archived", "id", t.rec.ID, "err", err)
				l.troubled(t, "its checkpoint could not be archived: "+err.Error(), 0)
				if !errors.Is(err, migrate.ErrUnclear) {
					t.rec.Sent = nil
				}
				return err
			}
			t.rec.Sent = &sent{ID: p.ID, Done: true}
			t.trouble = ""
			t.rec.note(event{AtMs: at, State: "archived", Took: took, Reason: in.Reason, Bytes: t.rec.Checkpoint.ToRead})
			l.touch(t)
			return nil
		}
	})
}

// durably makes a change in the loop, and returns when it is durable. It is called by
// operations.
func (l *loop) durably(change func()) error {
	done := make(chan struct{})
	l.post(func() {
		change()
		l.later(func() { close(done) })
	})
	select {
	case <-done:
		return nil
	case <-l.dead:
		return serve.ErrStopping
	}
}

// takeBack makes sure that nobody else has the task's checkpoint, records that, and
// then goes on.
func (l *loop) takeBack(t *task, in *intent, c *call, then func()) {
	id, step := t.rec.Sent.ID, *in
	l.begin(t, headrace.TakingBack, &step, nil, func(ctx context.Context) func() error {
		err := l.cfg.Elsewhere.Withdraw(ctx, id)
		return func() error {
			if err != nil {
				l.troubled(t, "its checkpoint cannot be taken back: "+err.Error(), 0)
				l.answer(c, t, err)
				return err
			}
			t.rec.Sent, t.trouble = nil, ""
			then()
			return nil
		}
	})
}

// arrivedFrom is what came of looking for a checkpoint of a command that is started.
type arrivedFrom struct {
	taken migrate.Taken
	res   proc.RestoreResult
	// store is where it is; nil: the command was started from the beginning.
	store *store
	// why is the reason for that, unless there was nothing to restore.
	why string
}

// expect is where a checkpoint of the task would come to, if one waits elsewhere; no
// store: none can.
func (l *loop) expect(t *task) (migrate.Parcel, *store) {
	if l.cfg.Elsewhere == nil || l.cfg.CRIU == "" {
		return migrate.Parcel{}, nil
	}
	st, err := l.stores.choose("", t)
	if err != nil {
		return migrate.Parcel{}, nil
	}
	t.rec.addImageDir(st.Dir)
	return l.parcel(t, st.Dir, st.Compress), st
}

// startHere starts a command, or has it go on from a checkpoint that waits elsewhere,
// if there is a store for that.
func (l *loop) startHere(ctx context.Context, spec proc.Spec, stdio proc.Stdio, p migrate.Parcel, st *store) (Task, arrivedFrom, error) {
	var from arrivedFrom
	if st == nil {
		live, err := l.rt.Start(ctx, spec, stdio)
		return live, from, err
	}
	live, err := l.rt.Hold(ctx, spec, stdio)
	if err != nil {
		return nil, from, err
	}
	from, err = l.startHeld(ctx, live, p, st)
	if err != nil && ctx.Err() == nil { // else the next daemon starts what is held
		live.Kill(ctx, time.Millisecond)
	}
	if err != nil {
		return nil, from, err
	}
	return live, from, nil
}

// startHeld is startHere for a supervisor that waits to be told what to do. The error
// is proc.ErrState when it runs its command already.
func (l *loop) startHeld(ctx context.Context, live Task, p migrate.Parcel, st *store) (from arrivedFrom, err error) {
	if st == nil {
		return from, live.Start(ctx)
	}
	err = l.bringHere(ctx, live, p, &from)
	if err == nil {
		from.store = st
		return from, nil
	}
	if ctx.Err() != nil || errors.Is(err, proc.ErrState) {
		return from, err
	}
	if !errors.Is(err, migrate.ErrNothing) {
		from.why = err.Error()
		if !errors.Is(err, migrate.ErrUnknown) {
			from.why = "a checkpoint of it could not be restored: " + from.why
		}
		l.log.Warn("a checkpoint of a container from elsewhere is not used", "id", p.Task, "err", err)
	}
	return from, live.Start(ctx)
}

// bringHere restores a checkpoint of another machine. After an error nothing runs.
func (l *loop) bringHere(ctx context.Context, live Task, p migrate.Parcel, from *arrivedFrom) error {
	taken, err := l.cfg.Elsewhere.Take(ctx, p)
	if err != nil {
		return err
	}
	from.taken = taken
	from.res, err = live.RestoreMoved(ctx, proc.RestoreOptions{
		Store: p.Store, Compress: p.Compress, Scratch: l.cfg.scratchDir(), MovedFrom: taken.TaskDir,
	})
	if err != nil {
		if ferr := taken.End(ctx, err); ferr != nil {
			l.log.Warn("what was fetched from the archive is not removed", "id", p.Task, "err", ferr)
		}
		return err
	}
	if err := taken.End(ctx, nil); err != nil {
		l.log.Warn("a used checkpoint stays in the archive for a while", "id", p.Task, "err", err)
	}
	return nil
}

// came records that a task goes on from a checkpoint of another machine.
func (l *loop) came(t *task, from arrivedFrom) string {
	if from.store == nil {
		if from.why != "" {
			return "starts from the beginning, because " + from.why
		}
		return ""
	}
	im := imageInfo(from.taken.Image)
	t.rec.Checkpoint = &image{
		Store: from.store.Name, Dir: from.store.Dir, Compress: from.store.Compress, Seq: im.Seq, Chain: im.Chain,
		Stored: im.Stored, ToRead: im.ToRead, TakenMs: im.At.UnixMilli(), Restore: from.res.Took,
	}
	t.rec.RanOn = true
	t.rec.addImageDir(from.store.Dir)
	l.counts.restore(from.res.Took, from.res.Read)
	return "goes on where it was on " + from.taken.From
}
