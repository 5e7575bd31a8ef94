package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"headrace/migrate"
	"headrace/proc"
	"headrace/solo/journal"
	"headrace/solo/statedir"
	"headrace/solo/store"
)

// Elsewhere is where checkpoints of hosted tasks wait until their command is started
// again, on whatever machine: a [migrate.Mover], whose methods say what these do. They
// may block, and are called concurrently.
type Elsewhere interface {
	fmt.Stringer
	Send(ctx context.Context, p migrate.Parcel, offering func() error) error
	Withdraw(ctx context.Context, id string) error
	Take(ctx context.Context, p migrate.Parcel) (migrate.Taken, error)
	// Problem tells why the place cannot be used; empty when it can.
	Problem() string
}

// moving brings checkpoints of hosted tasks here from other machines.
type moving struct{ *core }

// parcel returns the task's checkpoint; store is where it is, or is to come to.
func (m *moving) parcel(t *task, store string, compress bool) migrate.Parcel {
	return migrate.Parcel{
		Task: t.rec.ID, Application: t.rec.Hosting.Application, User: t.rec.User, Spec: t.spec,
		Store: store, StoreID: m.stores.ID(store), Compress: compress,
	}
}

// arrivedFrom is what came of looking for a checkpoint of a command that is started.
type arrivedFrom struct {
	taken migrate.Taken
	res   proc.RestoreResult
	// store is where it is; nil: the command was started from the beginning.
	store *store.Store
	// why is the reason for that, unless there was nothing to restore.
	why string
	// ended: the supervisor has, before anything ran.
	ended bool
	// held: the process that the command was started for has let go of it.
	held bool
}

// expect returns where a checkpoint of the task would come to, if one waits elsewhere;
// no store: none can.
func (m *moving) expect(t *task) (migrate.Parcel, *store.Store) {
	if m.cfg.Elsewhere == nil || m.cfg.CRIU == "" {
		return migrate.Parcel{}, nil
	}
	st, err := m.stores.Choose("", t.dump())
	if err != nil {
		return migrate.Parcel{}, nil
	}
	t.rec.AddImageDir(st.Dir)
	as := *st // what is measured of it changes meanwhile
	return m.parcel(t, st.Dir, st.Compress), &as
}

// startHere starts a command, or has it go on from a checkpoint that waits elsewhere,
// if there is a store for that.
func (m *moving) startHere(ctx context.Context, spec proc.Spec, stdio proc.Stdio, p migrate.Parcel, st *store.Store) (Task, arrivedFrom, error) {
	var from arrivedFrom
	if st == nil {
		live, err := m.rt.Start(ctx, spec, stdio)
		return live, from, err
	}
	live, err := m.rt.Hold(ctx, spec, stdio)
	if err != nil {
		return nil, from, err
	}
	from, err = m.startHeld(ctx, live, p, st)
	from.held = true
	if errors.Is(err, proc.ErrGone) {
		select {
		case <-live.Exited():
			from.ended = true
			return live, from, nil
		case <-ctx.Done():
		}
	}
	if err != nil && m.ctx.Err() == nil { // else the next daemon starts what is held
		live.Kill(m.ctx, time.Millisecond)
	}
	if err != nil {
		live.Close()
		return nil, from, err
	}
	return live, from, nil
}

// startHeld is startHere for a supervisor that waits to be told what to do. The error
// is proc.ErrState when it runs its command already.
func (m *moving) startHeld(ctx context.Context, live Task, p migrate.Parcel, st *store.Store) (from arrivedFrom, err error) {
	if st == nil {
		return from, live.Start(ctx)
	}
	err = m.bringHere(ctx, live, p, st, &from)
	if err == nil {
		from.store = st
		return from, nil
	}
	if ctx.Err() != nil || errors.Is(err, proc.ErrState) {
		return from, err
	}
	if _, over := ended(live); over { // it was killed meanwhile
		return from, proc.ErrGone
	}
	if !errors.Is(err, migrate.ErrNothing) {
		from.why = err.Error()
		if !errors.Is(err, migrate.ErrUnknown) {
			from.why = "a checkpoint of it could not be restored: " + from.why
		}
		m.log.Warn("a checkpoint of a container from elsewhere is not used", "id", p.Task, "err", err)
	}
	return from, live.Start(ctx)
}

// bringHere restores a checkpoint of another machine. After an error nothing runs.
func (m *moving) bringHere(ctx context.Context, live Task, p migrate.Parcel, st *store.Store, from *arrivedFrom) error {
	// What is fetched is of no use to anybody when its process has gone, and others may have it then.
	fetching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() {
		select {
		case <-live.Exited():
			stop(proc.ErrGone)
		case <-fetching.Done():
		}
	}()
	var taken migrate.Taken
	err := m.patiently(ctx, live, p, func() (err error) {
		taken, err = m.cfg.Elsewhere.Take(fetching, p)
		return err
	})
	if err != nil {
		return err
	}
	from.taken = taken
	used, asked := false, false
	attempt := func() error {
		asked = false
		restore := st.Restoring(p.Spec.UID, p.Task, imageInfo(taken.Image).ToRead)
		return store.InTurn(ctx, restore, live.Exited(), func() (_ int64, err error) {
			// Until it was its turn another daemon may begin anew. The end of this one ends what has the turn now and this one after the other.
			if err = cmp.Or(ctx.Err(), m.ctx.Err()); err == nil && !used {
				err = taken.Use(ctx)
			}
			if err != nil {
				return 0, err
			}
			used, asked = true, true
			from.res, err = live.RestoreMoved(ctx, proc.RestoreOptions{
				Store: p.Store, StoreID: p.StoreID, Compress: p.Compress, Scratch: statedir.Scratch(m.cfg.StateDir), MovedFrom: taken.TaskDir,
			})
			return from.res.Read, err
		})
	}
	err = m.patiently(ctx, live, p, attempt)
	if asked && ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, proc.ErrGone)) {
		if m.ctx.Err() != nil {
			return err // the daemon ends, and the supervisor goes on with what was fetched
		}
		live.Kill(m.ctx, time.Millisecond) // or it may restore from what is removed now
	}
	if err != nil {
		why := err
		if !asked {
			why = fmt.Errorf("%w: %w", proc.ErrState, err) // others may have it, also the next daemon
		}
		if ferr := taken.End(context.WithoutCancel(ctx), why); ferr != nil {
			m.log.Warn("what was fetched from the archive is not removed", "id", p.Task, "err", ferr)
		}
		return err
	}
	if err := taken.End(ctx, nil); err != nil {
		m.log.Warn("a used checkpoint stays in the archive for a while", "id", p.Task, "err", err)
	}
	m.showLogs(p, taken.TaskDir)
	return nil
}

// patiently makes an attempt to take or restore what comes from elsewhere, and others after it where it is not possible now.
func (m *moving) patiently(ctx context.Context, live Task, p migrate.Parcel, attempt func() error) error {
	err := attempt()
	for _, pause := range restorePauses {
		if ctx.Err() != nil || !errors.Is(err, proc.ErrNotNow) {
			break
		}
		m.log.Warn("what comes from elsewhere cannot be restored now; it is tried again", "id", p.Task, "in", pause, "err", err)
		select {
		case <-time.After(pause):
		case <-live.Exited():
		case <-ctx.Done():
		}
		err = attempt()
	}
	if err != nil && ctx.Err() != nil { // it may have been called off while the store hung
		return errors.Join(err, ctx.Err())
	}
	return err
}

// showLogs has YARN know of what a task writes for people that began as another container. It may be called from anywhere.
func (c *core) showLogs(p migrate.Parcel, began string) {
	if err := p.ShowLogs(began); err != nil {
		c.log.Warn("some of what a container has written is not among its logs", "id", p.Task, "began as", began, "err", err)
	}
}

// restorePauses are between attempts to restore what came from elsewhere where the machine lacks something: others may have
// it in the archive only when the command has been started from the beginning here. Tests shorten them.
var restorePauses = []time.Duration{2 * time.Second, 5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second}

// came records that a task goes on from a checkpoint of another machine.
func (m *moving) came(t *task, from arrivedFrom) string {
	if from.store == nil {
		if from.why != "" {
			return "starts from the beginning, because " + from.why
		}
		return ""
	}
	im := imageInfo(from.taken.Image)
	t.rec.Checkpoint = &journal.Image{
		Store: from.store.Name, Dir: from.store.Dir, Compress: from.store.Compress, Seq: im.Seq, Chain: im.Chain,
		Stored: im.Stored, Total: im.Total, ToRead: im.ToRead, TakenMs: im.At.UnixMilli(), Restore: from.res.Took,
	}
	t.rec.RanOn, t.rec.BeganIn = true, from.taken.TaskDir
	t.rec.AddImageDir(from.store.Dir)
	m.counts.restore(from.res.Took, from.res.Read)
	return "goes on where it was on " + from.taken.From
}
