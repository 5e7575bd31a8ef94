package solo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headrace"
	"headrace/migrate"
	"headrace/serve"
	"headrace/solo/journal"
)

// archive sends the checkpoint of a task away, for its command to go on elsewhere.
// The task stays what it is: its scheduler ends it, or has it resumed here, which
// takes the checkpoint back.
func (h *containers) archive(t *task, in *journal.Intent, c *call) {
	switch {
	case h.cfg.Elsewhere == nil:
		h.answer(c, t, fmt.Errorf("%w: this daemon has no archive; start it with --archive", serve.ErrState))
	case t.rec.State != headrace.Checkpointed:
		h.answer(c, t, fmt.Errorf("%w: task %s is %s; only a checkpoint can go elsewhere", serve.ErrState, t.rec.ID, t.rec.State))
	case t.rec.Held:
		h.answer(c, t, fmt.Errorf("%w: task %s is held by a user", serve.ErrState, t.rec.ID))
	case t.rec.Sent == nil:
		h.send(t, in, c)
	case t.rec.Sent.Done:
		h.answer(c, t, nil)
	default: // an attempt was interrupted
		h.takeBack(t, in, c, func() { h.send(t, in, c) })
	}
}

func (h *containers) send(t *task, in *journal.Intent, c *call) {
	p := h.moving.parcel(t, t.rec.Checkpoint.Dir, t.rec.Checkpoint.Compress)
	p.ID = migrate.NewID()
	// Its name is durable before anybody else may have it, but not before it is there whole: what
	// is not there cannot be withdrawn, and could not be told from what others have.
	h.begin(t, headrace.Archiving, in, c, func(ctx context.Context) func() error {
		offering := func() error {
			return h.durably(func() error {
				err := ctx.Err()
				if err == nil { // else it was called off, and nobody waits for it
					t.rec.Sent = &journal.Sent{ID: p.ID}
					h.touch(t)
				}
				return err
			})
		}
		watch := h.stopwatch()
		answered, err := atLatest(ctx, sendEnds, func() error { return h.cfg.Elsewhere.Send(ctx, p, offering) })
		off := ctx.Err() != nil
		took, at := watch()
		return func() error {
			if !answered && t.rec.Sent != nil {
				err = fmt.Errorf("%w: %w", migrate.ErrUnclear, err)
			}
			if err != nil {
				h.log.Warn("a checkpoint could not be archived", "id", t.rec.ID, "called off", off, "err", err)
				if !off {
					h.troubled(t, "its checkpoint could not be archived: "+err.Error(), 0)
				}
				if !errors.Is(err, migrate.ErrUnclear) {
					t.rec.Sent = nil
				}
				return err
			}
			t.rec.Sent = &journal.Sent{ID: p.ID, Done: true}
			t.trouble = ""
			t.rec.Note(journal.Event{AtMs: at, State: journal.Archived, Took: took, Reason: in.Reason, Bytes: t.rec.Checkpoint.ToRead})
			h.touch(t)
			return nil
		}
	})
}

// sendEnds is for how long an upload that was called off is waited for, and withdrawTime for how long it is waited that
// something is withdrawn: the archive may be a file system whose server is gone, and which nothing can interrupt. Tests shorten the first.
var sendEnds = 2 * time.Second

const withdrawTime = 30 * time.Second

// atLatest does something, and tells what came of it, or, in a while after ctx has ended, that it was not answered: then it goes on.
func atLatest(ctx context.Context, while time.Duration, do func() error) (answered bool, err error) {
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return true, err
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return true, err
	case <-time.After(while):
		return false, context.Cause(ctx)
	}
}

// revoke takes back what was sent of a task that a user has killed: it is not to go on elsewhere. It is called by operations.
func (c *core) revoke(ctx context.Context, id headrace.TaskID, sent *journal.Sent) {
	if sent == nil {
		return
	}
	err := fmt.Errorf("%w: this daemon has no archive", serve.ErrState)
	if c.cfg.Elsewhere != nil {
		ctx, cancel := context.WithTimeout(ctx, withdrawTime)
		defer cancel()
		_, err = atLatest(ctx, 0, func() error { return c.cfg.Elsewhere.Withdraw(ctx, sent.ID) })
	}
	if err != nil {
		c.log.Warn("a container was killed of which a checkpoint may be in the archive; when its command is started again it may go on from that", "id", id, "err", err)
	}
}

// durably makes a change in the loop, and returns when it is durable, or why it was not made. It is called by
// operations.
func (h *containers) durably(change func() error) error {
	done := make(chan error, 1)
	h.post(func() {
		err := change()
		h.later(func() { done <- err })
	})
	select {
	case err := <-done:
		return err
	case <-h.dead:
		return serve.ErrStopping
	}
}

// takeBack makes sure that nobody else has the task's checkpoint, records that, and
// then goes on.
func (h *containers) takeBack(t *task, in *journal.Intent, c *call, then func()) {
	if h.cfg.Elsewhere == nil {
		err := fmt.Errorf("%w: the checkpoint of %s may be in an archive that this daemon does not have; start it with --archive, or kill the container", serve.ErrState, t.rec.ID)
		h.troubled(t, err.Error(), 0)
		h.answer(c, t, err)
		return
	}
	id, step := t.rec.Sent.ID, *in
	h.begin(t, headrace.TakingBack, &step, nil, func(ctx context.Context) func() error {
		// A kill does not wait for an archive that hangs. Who wants it back does: what is withdrawn later must be known here.
		_, err := atLatest(ctx, 0, func() error { return h.cfg.Elsewhere.Withdraw(ctx, id) })
		return func() error {
			if err != nil {
				h.troubled(t, "its checkpoint cannot be taken back: "+err.Error(), 0)
				h.answer(c, t, err)
				return err
			}
			t.rec.Sent, t.trouble = nil, ""
			then()
			return nil
		}
	})
}
