package solo

import (
	"context"
	"errors"
	"fmt"

	"headrace"
	"headrace/migrate"
	"headrace/policy"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/serve"
	"headrace/solo/journal"
	"headrace/solo/store"
	"headrace/wire/convert"
)

// hosted tells whether the task's scheduler is another one; see containers.
func (t *task) hosted() bool { return t.rec.Hosting != nil }

// containers decides for tasks that belong to another scheduler. The policy neither
// starts such a task nor makes it leave: it came with its process, and its scheduler
// gives the orders. It has no second life: without its supervisor, or without the
// process that it was started for, it has ended.
type containers struct {
	*operations
	admission *admission
	announced *announcements
}

// arrival is the process of an announced container, and what it wants to run.
type arrival struct {
	attach.Request
	from  attach.Peer
	files attach.Files
	// cgroups are those that it is in and the daemon is not.
	cgroups []string
}

// takeIn takes in a container whose process has come, and starts its
// command. The call is answered when that runs.
func (h *containers) takeIn(a arrival, c *call) {
	if a.Again {
		h.takeBackIn(a, c)
		return
	}
	t, err := h.arrived(a)
	if err != nil {
		a.files.Close()
		h.answer(c, nil, err)
		return
	}
	delete(h.announced.all, t.rec.ID)
	t.files = a.files
	h.admission.admit(t)
	h.start(t, &journal.Intent{Reason: "started by " + t.rec.Hosting.Scheduler})
	t.op.calls = append(t.op.calls, c)
}

// arrived returns the announced task with its command, or why it cannot be run here.
func (h *containers) arrived(a arrival) (*task, error) {
	id, from := headrace.TaskID(a.ID), a.from
	want, err := h.announced.expected(id, from.UID)
	if err != nil {
		return nil, err
	}
	if err := h.admission.refuses(1); err != nil {
		return nil, err
	}
	t := &task{rec: want.Record, spec: a.Spec(from)}
	if old := h.tasks.all[id]; old != nil {
		if !old.rec.State.Final() || old.op != nil {
			return nil, fmt.Errorf("%w: container %s runs already", serve.ErrState, id)
		}
		h.succeed(t, old)
	}
	t.spec.Cgroups = a.cgroups
	t.rec.UID = from.UID
	return t, nil
}

// succeed makes t take the place of an ended task with the same id: a container
// that is launched again.
func (h *containers) succeed(t, old *task) {
	t.rec.Starts, t.rec.ImageDirs, t.rec.SeenExit = old.rec.Starts, old.rec.ImageDirs, old.rec.SeenExit
	h.tasks.unend(old)
}

// keepPromises writes down which ends containers have told: their manager keeps nothing, and may be started again.
func (h *containers) keepPromises(ends map[string]float64) {
	for id, seconds := range ends {
		t, end := h.tasks.all[headrace.TaskID(id)], convert.Seconds(seconds)
		if t != nil && t.hosted() && !t.rec.State.Final() && policy.PromiseIsNearer(end, t.rec.Promised) {
			t.rec.Promised = end
			h.touch(t)
		}
	}
}

func (h *containers) order(t *task, c *call) {
	in := &journal.Intent{Reason: c.reason, Delay: c.delay, PageOut: c.pageOut}
	state := t.rec.State
	switch {
	case t.live == nil || state == headrace.Pending:
		h.answer(c, t, fmt.Errorf("%w: task %s has no processes yet", serve.ErrState, t.rec.ID))
	case c.onlySuspended && state != headrace.Suspended: // it has gone on, or was checkpointed, since its manager heard of it
		h.answer(c, t, nil)
	case c.command == headrace.CommandSuspend && state == headrace.Running:
		h.suspend(t, in, c)
	case c.command == headrace.CommandSuspend && state == headrace.Suspended:
		t.rec.Keeps = false
		if c.pageOut > 0 {
			h.pageOut(t, c.pageOut)
			t.op.calls = append(t.op.calls, c)
			return
		}
		h.touch(t)
		h.answer(c, t, nil)
	case c.command == headrace.CommandCheckpoint && state != headrace.Checkpointed:
		st, err := h.stores.Choose(c.store, t.dump())
		if err != nil {
			h.answer(c, t, err)
			return
		}
		h.checkpoint(t, in, st, c)
	case c.command == headrace.CommandArchive:
		h.archive(t, in, c)
	case c.command == headrace.CommandResume && state != headrace.Running:
		h.bringBack(t, in, c)
	default: // it is so already
		h.answer(c, t, nil)
	}
}

func (h *containers) bringBack(t *task, in *journal.Intent, c *call) {
	if c.force {
		t.rec.Held = false
	}
	switch {
	case t.awaited != 0:
		h.answer(c, t, fmt.Errorf("%w: %s", serve.ErrState, t.rec.Reason))
		return
	case t.rec.Held:
		h.answer(c, t, fmt.Errorf("%w: task %s is held by a user; to release it: headrace resume %s", serve.ErrState, t.rec.ID, t.rec.ID))
		return
	case t.rec.Sent != nil:
		h.takeBack(t, in, c, func() { h.bringBack(t, in, c) })
		return
	case t.rec.State == headrace.Suspended:
		h.resume(t, in)
	default:
		h.restore(t, in)
	}
	t.op.calls = append(t.op.calls, c)
}

// release does so at once where no manager is, where its scheduler has its room still, or
// when root insists, else when its scheduler has room for it.
func (h *containers) release(t *task, c *call) {
	if h.cfg.Cluster == nil || t.rec.KeepsRoom() || c.force {
		h.bringBack(t, &journal.Intent{Reason: "a user asked for it"}, c)
		return
	}
	t.rec.Reason = "waits until " + t.rec.Hosting.Scheduler + " has room for it"
	h.touch(t)
	h.answer(c, t, nil)
}

// receive hands a container to the loop and waits until it runs.
func (h *containers) receive(ctx context.Context, a arrival) error {
	c := &call{}
	_, err := h.await(ctx, c, func() { h.takeIn(a, c) })
	return err
}

// startAgain finishes the start: whoever waits for it has been told that it would be
// started.
func (h *containers) startAgain(t *task, in *journal.Intent) {
	p, st := h.moving.expect(t)
	p.Again = true
	live, dirs := t.live, t.rec.ImageDirs
	h.begin(t, headrace.Starting, in, nil, func(ctx context.Context) func() error {
		elsewhere := false
		from, err := h.startIfHeld(ctx, live, p, st)
		switch {
		case errors.Is(err, proc.ErrState) && from.why != "":
			from.why, elsewhere = "", true
		case errors.Is(err, proc.ErrState): // it had got the first request
		case err != nil:
			h.log.Warn("what an earlier daemon was starting could not be started", "id", p.Task, "err", err)
		case from.why != "":
			h.images.remove(dirs, p.Task) // they are of no use now
		}
		began := ""
		if st != nil && from.store == nil && from.why == "" { // its supervisor was told before, and not only by this daemon
			if began = p.Began(); began != "" {
				h.showLogs(p, began)
			}
		}
		stats, err := h.askAgain(ctx, live, in, proc.CheckpointOptions{})
		return func() error {
			if elsewhere {
				in.Reason = "goes on where it was on another machine"
			}
			t.rec.BeganIn = began
			if why := h.moving.came(t, from); why != "" {
				in.Reason = why
			}
			return h.settledAs(t, in, stats, nil, err)
		}
	})
}

// startIfHeld does startHeld, if the supervisor has not begun anything.
func (h *containers) startIfHeld(ctx context.Context, live Task, p migrate.Parcel, st *store.Store) (from arrivedFrom, err error) {
	stats, err := live.Stats(ctx)
	if err != nil || stats.State != headrace.Checkpointed {
		return from, err
	}
	return h.moving.startHeld(ctx, live, p, st)
}

func (h *containers) notStarted(t *task, err error) {
	h.final(t, headrace.Failed, nil, "could not be started here: "+err.Error(), false)
}

// notRestored leaves it to the scheduler whether it tries again. One whose supervisor has gone has not run: its process would
// have been told, and does not come for another one then.
func (h *containers) notRestored(t *task, err error, end proc.Exit) {
	t.rec.Reason = "could not be restored: " + err.Error()
	if t.live == nil {
		h.idleEnded(t, end)
	}
}

func (h *containers) lose(t *task, why string) { h.final(t, headrace.Lost, nil, why, false) }

func (h *containers) idleEnded(t *task, exit proc.Exit) {
	if exit.Lost && t.rec.Checkpoint != nil {
		h.detach(t)
		h.orphaned(t)
		return
	}
	if id, sent := t.rec.ID, t.rec.Sent; sent != nil && !sent.Done { // nobody was told that others have it
		h.background(func(ctx context.Context) func() { h.revoke(ctx, id, sent); return nil })
	}
	h.final(t, headrace.Killed, &exit, endedBy(t), false)
}

// notBegun ends the task: whoever it was made for has given it up.
func (h *containers) notBegun(t *task, _ *journal.Intent) {
	h.kill(t, &journal.Intent{User: true, Reason: "it had not started when the daemon ended"}, nil)
}
