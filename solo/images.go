package solo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/proc"
	"headrace/solo/journal"
	"headrace/solo/store"
)

// images are the checkpoints on storage.
type images struct {
	Images
	turn   *turn
	tasks  *table
	stores *store.Stores
	clk    clock
	log    *slog.Logger
	// littered tasks have ended and left checkpoints that could not be removed; at the
	// boot time given it is tried again.
	littered map[*task]time.Duration
	// removing has what is closed when no checkpoints of a task are being removed any more beside whatever else is done to it.
	removing map[headrace.TaskID]chan struct{}
}

func newImages(on Images, c *core) *images {
	return &images{
		Images: on, turn: c.turn, tasks: c.tasks, stores: c.stores, clk: c.clk, log: c.log,
		littered: map[*task]time.Duration{}, removing: map[headrace.TaskID]chan struct{}{},
	}
}

// aside removes checkpoints beside whatever else goes on. What writes new ones of a task with that id waits for it (settled): else
// they would go with the old ones.
func (m *images) aside(id headrace.TaskID, remove func() func()) {
	before, over := m.settled(id), make(chan struct{})
	m.removing[id] = over
	m.turn.background(func(context.Context) func() {
		before(context.Background())
		finish := remove()
		close(over)
		return func() {
			if m.removing[id] == over {
				delete(m.removing, id)
			}
			finish()
		}
	})
}

// settled returns what waits until no checkpoints of a task are being removed. It may be called from anywhere; its error is ctx's.
func (m *images) settled(id headrace.TaskID) func(ctx context.Context) error {
	over := m.removing[id]
	return func(ctx context.Context) error {
		if over == nil {
			return nil
		}
		select {
		case <-over:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

const dropRetry = 30 * time.Second

// remove removes a task's checkpoints from directories and returns those for which it
// did not succeed, and why, which is proc.ErrNotNow. It may be called from anywhere.
func (m *images) remove(dirs []string, id headrace.TaskID) (left []string, why error) {
	for _, d := range dirs {
		err := m.stores.There(context.Background(), d)
		if err == nil {
			err = m.Remove(d, m.stores.ID(d), id)
		}
		if err != nil {
			m.log.Warn("checkpoints were not removed", "id", id, "dir", d, "err", err)
			if !errors.Is(err, proc.ErrNotNow) {
				err = fmt.Errorf("%w: old checkpoints in %s cannot be removed: %w", proc.ErrNotNow, d, err)
			}
			left, why = append(left, d), errors.Join(why, err)
		}
	}
	return left, why
}

// newer looks for a checkpoint that was committed by the operation under way of a
// record; nil: there is none. It may be called from anywhere. Sequence numbers are those of one directory: another one may
// still have a checkpoint from before the recorded one, and which was taken first the clock does not tell, which may be set.
// An error says nothing of what there is: ask again.
func (m *images) newer(ctx context.Context, id headrace.TaskID, in *journal.Intent, old *journal.Image) (*journal.Image, error) {
	info, ok, err := m.latest(ctx, in.Dir, id)
	switch {
	case err != nil || !ok:
		return nil, err
	case old == nil: // there is no other
	case old.Dir == in.Dir:
		if info.Seq <= old.Seq {
			return nil, nil
		}
	case info.Asked != 0:
		if info.Asked != in.Began {
			return nil, nil
		}
	case info.At.UnixMilli() <= old.TakenMs: // written by an older supervisor, which did not note what it was asked for
		return nil, nil
	}
	return m.imageOf(in.Store, in.Dir, info), nil
}

// latest is Latest, asked with patience. It may be called from anywhere.
func (m *images) latest(ctx context.Context, dir string, id headrace.TaskID) (ImageInfo, bool, error) {
	if err := m.stores.There(ctx, dir); err != nil {
		return ImageInfo{}, false, err
	}
	type latest struct {
		ImageInfo
		ok bool
	}
	answer, err := m.stores.Ask(ctx, "latest of "+string(id)+" in "+dir, func() (any, error) {
		info, ok, err := m.Latest(dir, m.stores.ID(dir), id)
		return latest{info, ok}, err
	})
	if err != nil {
		return ImageInfo{}, false, err
	}
	found := answer.(latest)
	return found.ImageInfo, found.ok, nil
}

// unrecorded looks in all stores for a checkpoint of a task that the record does not know, made since the task entered
// the recorded state: an older record was put back, say. A store that is not there has none: it may be for other tasks alone. It may be
// called from anywhere.
func (m *images) unrecorded(ctx context.Context, rec *journal.Record) (im *journal.Image, err error) {
	for _, st := range m.stores.All {
		if err := m.stores.There(ctx, st.Dir); err != nil {
			m.log.Warn("a store was not looked through for a task that has gone", "id", rec.ID, "dir", st.Dir, "err", err)
			continue
		}
		info, ok, err := m.latest(ctx, st.Dir, rec.ID)
		switch old := rec.Checkpoint; {
		case err != nil:
			return nil, err
		case !ok, info.At.UnixMilli() < rec.SinceMs, im != nil && info.At.UnixMilli() <= im.TakenMs:
		case old != nil && (info.At.UnixMilli() <= old.TakenMs || old.Dir == st.Dir && info.Seq <= old.Seq):
		default:
			im = m.imageOf(st.Name, st.Dir, info)
		}
	}
	return im, nil
}

func (m *images) imageOf(store, dir string, info ImageInfo) *journal.Image {
	im := &journal.Image{
		Store: store, Dir: dir, Seq: info.Seq, Chain: info.Chain,
		Stored: info.Stored, Total: info.Total, ToRead: info.ToRead, TakenMs: info.At.UnixMilli(),
	}
	if st := m.stores.Named(store); st != nil {
		im.Compress = st.Compress
	}
	return im
}

// awaitNewer is newer, asked until it is known. Its error is ctx's.
func (m *images) awaitNewer(ctx context.Context, id headrace.TaskID, in *journal.Intent, old *journal.Image) (*journal.Image, error) {
	for {
		im, err := m.newer(ctx, id, in, old)
		if err == nil {
			return im, nil
		}
		m.log.Warn("looking for a checkpoint failed, it is tried again", "id", id, "dir", in.Dir, "err", err)
		select {
		case <-time.After(attachRetry):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// missing returns why a task that waits cannot be brought back now: what is kept of it,
// or is to be removed before it starts, is in a store that is not there.
func (m *images) missing(t *task) error {
	switch {
	case t.rec.State == headrace.Checkpointed && t.rec.Checkpoint != nil:
		return m.stores.Away(t.rec.Checkpoint.Dir)
	case t.rec.State == headrace.Pending:
		for _, dir := range t.rec.ImageDirs {
			if away := m.stores.Away(dir); away != nil {
				return away
			}
		}
	}
	return nil
}

// collectIn removes from a directory what no restore of a task will read. It may be called from anywhere.
func (m *images) collectIn(dir string, id headrace.TaskID) {
	err := m.stores.There(context.Background(), dir)
	if err == nil {
		err = m.Collect(dir, m.stores.ID(dir), id)
	}
	if err != nil {
		m.log.Warn("old checkpoints were not removed", "id", id, "dir", dir, "err", err)
	}
}

// tidy removes what a dump has left that was ended in the middle: it may have the size of the task. The next dump need not wait
// for that, on a store that has just been slow say: only what nobody writes is taken for left.
func (m *images) tidy(dir string, id headrace.TaskID) {
	m.turn.background(func(context.Context) func() {
		m.collectIn(dir, id)
		return nil
	})
}

// collect removes checkpoints that the newest one has made useless, once that
// one is recorded.
func (m *images) collect(t *task) {
	id, keep, dirs := t.rec.ID, t.rec.Checkpoint.Dir, t.rec.ImageDirs
	m.aside(id, func() func() {
		crash.Here("solo.collect")
		m.collectIn(keep, id)
		left := slices.DeleteFunc(slices.Clone(dirs), func(d string) bool { return d == keep })
		if _, ok, err := m.Latest(keep, m.stores.ID(keep), id); ok && err == nil { // else one of the others may be all there is
			left, _ = m.remove(left, id)
		}
		return func() {
			im := t.rec.Checkpoint
			if im == nil || im.Dir != keep || t.op != nil {
				return
			}
			t.rec.ImageDirs = append(left, keep)
			m.turn.touch(t)
		}
	})
}

// drop removes the checkpoints of an ended task. The record names their directories
// until that is done; what does not succeed is tried again later.
func (m *images) drop(t *task) {
	id, dirs := t.rec.ID, t.rec.ImageDirs
	delete(m.littered, t)
	if len(dirs) == 0 {
		return
	}
	m.aside(id, func() func() {
		left, _ := m.remove(dirs, id)
		return func() {
			if !m.tasks.has(t) || !t.rec.State.Final() || t.rec.Checkpoint != nil {
				return
			}
			t.rec.ImageDirs = left
			m.turn.touch(t)
			m.retry(t)
		}
	})
}

// retry has checkpoints of an ended task that could not be removed removed later.
func (m *images) retry(t *task) {
	if len(t.rec.ImageDirs) > 0 {
		m.littered[t] = m.clk.boot() + dropRetry
	}
}

// sweep tries again to remove checkpoints of ended tasks.
func (m *images) sweep() {
	now := m.clk.boot()
	for t, at := range m.littered {
		switch {
		case !m.tasks.has(t) || !t.rec.State.Final(): // its directories may belong to a successor
			delete(m.littered, t)
		case now >= at:
			m.drop(t)
		}
	}
}
