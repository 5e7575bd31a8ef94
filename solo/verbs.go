package solo

import (
	"context"
	"fmt"
	"time"

	"headrace"
	"headrace/serve"
)

func errEnded(t *task) error {
	return fmt.Errorf("%w: task %s has ended already (%s)", serve.ErrState, t.rec.ID, t.rec.State)
}

// call is a request of a user, or of the scheduler of a hosted task.
type call struct {
	command headrace.Command
	// ordered: a scheduler wants it.
	ordered bool

	id    headrace.TaskID
	by    serve.Viewer
	grace time.Duration
	store string
	// Of an order.
	reason  string
	delay   time.Duration
	pageOut int64
	// force brings a hosted task back at once, whoever holds it.
	force bool

	reply chan reply // has room for the one reply
}

type reply struct {
	task *snapshot
	err  error
}

// ask hands a request to the loop and waits for the answer. When ctx ends
// before that, the request is carried out all the same.
func (l *loop) ask(ctx context.Context, c *call) (*snapshot, error) {
	return l.await(ctx, c, func() { l.take(c) })
}

func (l *loop) take(c *call) {
	t := l.tasks.all[c.id]
	switch {
	case t == nil || !c.by.Sees(t.rec.UID):
		l.answer(c, nil, fmt.Errorf("%w: %s", serve.ErrNotFound, c.id))
	case l.stopping:
		l.answer(c, t, serve.ErrStopping)
	default:
		l.serve(t, c)
		l.redecide = true
	}
}

// serve carries out a request, or queues it behind the operation that runs. A
// kill does not wait: it has the operation called off, whatever it is.
func (l *loop) serve(t *task, c *call) {
	if t.op == nil {
		l.perform(t, c)
		return
	}
	if c.command == headrace.CommandKill {
		switch t.op.kind {
		case headrace.Checkpointing, headrace.PagingOut, headrace.Restoring, headrace.Suspending, headrace.Resuming, headrace.Attaching:
			t.op.cancel()
		case headrace.Starting:
			if !t.hosted() { // else the process that it was started for decides
				t.op.cancel()
			}
		case headrace.Killing:
			if in := t.rec.Op; in != nil && in.User {
				t.op.calls = append(t.op.calls, c)
				return
			}
		}
		t.queue = append([]*call{c}, t.queue...)
		return
	}
	if c.ordered && c.command == headrace.CommandResume && t.op.kind == headrace.PagingOut {
		t.op.cancel()
	}
	t.queue = append(t.queue, c)
}

// nextCall serves what has waited for an operation to end.
func (l *loop) nextCall(t *task) {
	for t.op == nil && len(t.queue) > 0 {
		c := t.queue[0]
		t.queue = t.queue[1:]
		l.perform(t, c)
	}
}

// perform carries out a request for a task that has no operation under way.
func (l *loop) perform(t *task, c *call) {
	backFromLoss := c.command == headrace.CommandResume && !c.ordered && t.rec.State == headrace.Lost && t.rec.Checkpoint != nil
	switch {
	case c.command == headrace.CommandForget:
		if !t.rec.State.Final() {
			l.answer(c, t, fmt.Errorf("%w: task %s is %s; kill it first: headrace kill %s", serve.ErrState, t.rec.ID, t.rec.State, t.rec.ID))
			return
		}
		l.forget(t, c)
	case backFromLoss:
		l.tasks.reactivate(t)
		t.rec.EndedMs, t.rec.Exit = 0, nil
		l.enter(t, headrace.Checkpointed, event{Reason: "to be restored, as a user asked"})
		l.bringBackFor(t, c)
	case t.rec.State.Final():
		l.answer(c, t, errEnded(t))
	case c.ordered:
		l.schedulerOf(t).order(t, c)
	case c.command == headrace.CommandSuspend:
		l.suspendFor(t, c)
	case c.command == headrace.CommandCheckpoint:
		l.checkpointFor(t, c)
	case c.command == headrace.CommandResume:
		l.bringBackFor(t, c)
	case c.command == headrace.CommandKill:
		l.killFor(t, c)
	}
}

func (l *loop) suspendFor(t *task, c *call) {
	if t.rec.State == headrace.Running {
		l.suspend(t, &intent{User: true, Grace: c.grace, Reason: "a user asked for it"}, c)
		return
	}
	l.hold(t)
	l.answer(c, t, nil)
}

// hold keeps a task that does not run from being brought back.
func (l *loop) hold(t *task) {
	if t.rec.Held {
		return
	}
	t.rec.Held = true
	t.rec.Reason = "held by a user; to go on: headrace resume " + string(t.rec.ID)
	t.rec.note(event{AtMs: l.clk.wall().UnixMilli(), State: "held", Reason: "a user asked for it"})
	l.touch(t)
}

func (l *loop) checkpointFor(t *task, c *call) {
	switch t.rec.State {
	case headrace.Pending:
		l.answer(c, t, fmt.Errorf("%w: task %s has not started; there is nothing to save", serve.ErrState, t.rec.ID))
		return
	case headrace.Checkpointed:
		l.hold(t)
		l.answer(c, t, nil)
		return
	}
	st, err := l.stores.choose(c.store, t)
	if err != nil {
		l.answer(c, t, err)
		return
	}
	l.checkpoint(t, &intent{User: true, Reason: "a user asked for it"}, st, c)
}

// bringBackFor lets the task run again. The policy decides in this same turn
// whether it can run at once; else it is queued, and the answer says so.
func (l *loop) bringBackFor(t *task, c *call) {
	if t.rec.State == headrace.Running {
		l.answer(c, t, nil)
		return
	}
	if t.rec.Held {
		t.rec.Held = false
		t.rec.Since, t.rec.Waited, t.rec.Boot = l.clk.boot(), 0, l.boot
		t.rec.note(event{AtMs: l.clk.wall().UnixMilli(), State: "released", Reason: "a user asked for it"})
	}
	l.succeeded(t)
	l.schedulerOf(t).release(t, c)
}

func (l *loop) killFor(t *task, c *call) {
	switch {
	case t.rec.State == headrace.Pending && t.rec.Starts == 0:
		l.final(t, headrace.Killed, nil, "killed by a user before it ran", false)
		l.answer(c, t, nil)
	case t.rec.State == headrace.Checkpointed || t.live == nil: // waits to be started again, or its supervisor does not answer
		l.discard(t, c)
	default: // also a pending task that an earlier daemon had begun to start
		grace := c.grace
		if grace == 0 {
			grace = l.cfg.KillGrace
		}
		l.kill(t, &intent{User: true, Grace: grace, Reason: "a user asked for it"}, c)
	}
}

// discard ends a task that exists only as a checkpoint, or whose supervisor does not
// answer, with whatever is being done to it.
func (l *loop) discard(t *task, c *call) {
	id := t.rec.ID
	l.detach(t)
	l.begin(t, headrace.Killing, &intent{User: true, Reason: "a user asked for it"}, c, func(ctx context.Context) func() error {
		err := l.rt.End(ctx, id)
		return func() error {
			if err != nil {
				l.log.Error("killing a task failed", "id", id, "err", err)
				l.troubled(t, "could not be killed: "+err.Error(), l.clk.boot()+time.Minute)
				return err
			}
			l.final(t, headrace.Killed, nil, "killed by a user", false)
			return nil
		}
	})
}

// submit accepts tasks, which are alike, from a user: all of them are durable when
// it returns, or none. Those that read are one job.
func (l *loop) submit(ctx context.Context, by serve.Viewer, tasks ...*task) ([]headrace.TaskID, headrace.JobID, error) {
	c := &call{}
	first, err := l.await(ctx, c, func() {
		if err := l.refusesFrom(by, tasks); err != nil {
			l.answer(c, nil, err)
			return
		}
		for _, t := range tasks {
			l.admit(t)
			if t.rec.Input != nil && t.rec.Job == "" {
				t.rec.Job = headrace.JobID(fmt.Sprintf("j%d", tasks[0].rec.Order))
			}
		}
		l.answer(c, tasks[0], nil)
	})
	if err != nil {
		return nil, "", err
	}
	ids := make([]headrace.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.spec.ID // the loop does not change it any more
	}
	return ids, first.rec.Job, nil
}

// refuses tells why n tasks cannot be accepted now; nil: they can.
func (l *loop) refuses(n int) error {
	switch {
	case l.stopping:
		return serve.ErrStopping
	case l.ledger.full:
		return fmt.Errorf("%w: the file system of %s is full; make room and ask again", serve.ErrBusy, l.cfg.StateDir)
	case len(l.tasks.active)+n > maxUnended:
		return fmt.Errorf("%w: %d tasks are waiting or running already; wait until some have ended", serve.ErrBusy, len(l.tasks.active))
	}
	return nil
}

// admit puts a new task into the queue.
func (l *loop) admit(t *task) {
	l.tasks.order++
	l.metaChanged = true
	t.rec.Order = l.tasks.order
	if !t.hosted() {
		t.rec.ID = headrace.TaskID(fmt.Sprintf("t%d", l.tasks.order))
	}
	t.spec.ID = t.rec.ID
	t.rec.SpecBytes = t.specBytes()
	t.rec.State = headrace.Pending
	t.rec.SubmittedMs = l.clk.wall().UnixMilli()
	t.rec.Since, t.rec.Boot = l.clk.boot(), l.boot
	t.rec.Reason = waitsForSlot
	if t.rec.Held {
		t.rec.Reason = "held by a user; to start it: headrace resume " + string(t.rec.ID)
	}
	t.rec.note(event{AtMs: t.rec.SubmittedMs, State: headrace.Pending.String()})
	l.tasks.add(t)
	l.admitted(t)
	l.written[t.rec.ID] = &t.spec
	l.touch(t)
	l.inputs.expect(t)
	l.redecide = true
}
