package solo

import (
	"context"
	"errors"
	"fmt"

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
	offering := func() error { return h.durably(func() { t.rec.Sent = &journal.Sent{ID: p.ID}; h.touch(t) }) }
	h.begin(t, headrace.Archiving, in, c, func(ctx context.Context) func() error {
		watch := h.stopwatch()
		err := h.cfg.Elsewhere.Send(ctx, p, offering)
		took, at := watch()
		return func() error {
			if err != nil {
				h.log.Warn("a checkpoint could not be archived", "id", t.rec.ID, "err", err)
				h.troubled(t, "its checkpoint could not be archived: "+err.Error(), 0)
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

// durably makes a change in the loop, and returns when it is durable. It is called by
// operations.
func (h *containers) durably(change func()) error {
	done := make(chan struct{})
	h.post(func() {
		change()
		h.later(func() { close(done) })
	})
	select {
	case <-done:
		return nil
	case <-h.dead:
		return serve.ErrStopping
	}
}

// takeBack makes sure that nobody else has the task's checkpoint, records that, and
// then goes on.
func (h *containers) takeBack(t *task, in *journal.Intent, c *call, then func()) {
	id, step := t.rec.Sent.ID, *in
	h.begin(t, headrace.TakingBack, &step, nil, func(ctx context.Context) func() error {
		err := h.cfg.Elsewhere.Withdraw(ctx, id)
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
