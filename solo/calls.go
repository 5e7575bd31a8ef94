package solo

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"headrace"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/solo/journal"
)

func errEnded(t *task) error {
	return fmt.Errorf("%w: task %s has ended already (%s)", serve.ErrState, t.rec.ID, t.rec.State)
}

func errForgotten(id headrace.TaskID) error { return fmt.Errorf("%w: %s", serve.ErrNotFound, id) }

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
	// onlySuspended: what runs runs on.
	onlySuspended bool
	// force brings a hosted task back at once, whoever holds it. Else nobody runs what its
	// scheduler does not count.
	force bool

	reply chan reply // has room for the one reply
}

type reply struct {
	task *board.Task
	err  error
}

// calls carries out what people, and other schedulers, ask of tasks.
type calls struct {
	*operations
	admission *admission
}

// ask hands a request to the loop and waits for the answer. When ctx ends
// before that, the request is carried out all the same.
func (s *calls) ask(ctx context.Context, c *call) (*board.Task, error) {
	return s.await(ctx, c, func() { s.take(c) })
}

func (s *calls) take(c *call) {
	t := s.tasks.all[c.id]
	switch {
	case t == nil || !c.by.Sees(t.rec.UID):
		s.answer(c, nil, errForgotten(c.id))
	case s.stopping:
		s.answer(c, t, serve.ErrStopping)
	default:
		if err := s.admission.refusesGrace(t, c); err != nil {
			s.answer(c, t, err)
			return
		}
		s.serve(t, c)
		s.redecide = true
	}
}

// maxQueued is how many requests for one task may wait for what is done to it, and as many kills more. Each is kept until
// it is answered, also when whoever has made it has gone. Root and the daemon's own user are not held up.
const maxQueued = 64

// serve carries out a request, or queues it behind the operation that runs. A
// kill does not wait: it has the operation called off, whatever it is.
func (s *calls) serve(t *task, c *call) {
	if t.op == nil {
		s.perform(t, c)
		return
	}
	most := maxQueued
	if c.command == headrace.CommandKill {
		most *= 2
	}
	if len(t.queue)+len(t.op.calls) >= most && !c.by.All {
		s.answer(c, t, fmt.Errorf("%w: %d requests for task %s wait already until it is %s; try again when some are answered", serve.ErrBusy, most, t.rec.ID, t.op.kind))
		return
	}
	if c.command == headrace.CommandKill {
		switch t.op.kind {
		case headrace.Checkpointing, headrace.PagingOut, headrace.Restoring, headrace.Suspending, headrace.Resuming, headrace.Attaching, headrace.Archiving, headrace.TakingBack:
			t.op.cancel()
		case headrace.Starting:
			if !t.hosted() { // else the process that it was started for decides
				t.op.cancel()
			}
		case headrace.Killing:
			if in := t.rec.Op; in != nil && in.User {
				t.op.calls = append(t.op.calls, c)
				s.hurry(t, in, c)
				return
			}
		}
		if t.silence != nil && t.op.kind != headrace.Killing {
			t.op.cancel()
		}
		t.queue = append([]*call{c}, t.queue...)
		return
	}
	if aside := t.op.kind == headrace.PagingOut || t.op.kind == headrace.Archiving; aside && c.command == headrace.CommandResume && (c.ordered || c.force && c.by.All) {
		t.op.cancel()
	} else if t.silence != nil && !t.op.awaits(c) {
		s.answer(c, t, t.silence)
		return
	}
	t.queue = append(t.queue, c)
}

// nextCall serves what has waited for an operation to end.
func (s *calls) nextCall(t *task) {
	for t.op == nil && len(t.queue) > 0 {
		c := t.queue[0]
		t.queue = t.queue[1:]
		s.perform(t, c)
	}
}

// perform carries out a request for a task that has no operation under way.
func (s *calls) perform(t *task, c *call) {
	backFromLoss := c.command == headrace.CommandResume && !c.ordered && t.rec.State == headrace.Lost && t.rec.Checkpoint != nil
	switch {
	case c.command == headrace.CommandForget:
		if !t.rec.State.Final() {
			s.answer(c, t, fmt.Errorf("%w: task %s is %s; kill it first: headrace kill %s", serve.ErrState, t.rec.ID, t.rec.State, t.rec.ID))
			return
		}
		if s.inputs.owed(t) {
			s.answer(c, t, fmt.Errorf("%w: task %s reads an input that waits for a newer version of headrace, which has to be told how it has ended; kill all that read it first", serve.ErrState, t.rec.ID))
			return
		}
		s.forget(t, c)
	case backFromLoss:
		s.tasks.reactivate(t)
		t.rec.EndedMs, t.rec.Exit = 0, nil
		s.enter(t, headrace.Checkpointed, journal.Event{Reason: "to be restored, as a user asked"})
		s.bringBackFor(t, c)
	case t.rec.State.Final():
		s.answer(c, t, errEnded(t))
	case c.ordered:
		s.schedulerOf(t).order(t, c)
	case c.command == headrace.CommandSuspend:
		s.suspendFor(t, c)
	case c.command == headrace.CommandCheckpoint:
		s.checkpointFor(t, c)
	case c.command == headrace.CommandResume:
		s.bringBackFor(t, c)
	case c.command == headrace.CommandKill:
		s.killFor(t, c)
	}
}

func (s *calls) suspendFor(t *task, c *call) {
	running := t.rec.State == headrace.Running
	if running || t.rec.State == headrace.Suspended {
		if err := s.admission.refusesSuspend(t); err != nil && !c.by.All {
			s.answer(c, t, err)
			return
		}
	}
	if running {
		s.suspend(t, &journal.Intent{User: true, Grace: c.grace, Reason: "a user asked for it"}, c)
		return
	}
	s.hold(t)
	s.answer(c, t, nil)
}

// hold keeps a task that does not run from being brought back.
func (s *calls) hold(t *task) {
	if t.rec.Held {
		return
	}
	t.rec.Held = true
	t.rec.Reason = "held by a user; to go on: headrace resume " + string(t.rec.ID)
	t.rec.Note(journal.Event{AtMs: s.clk.wall().UnixMilli(), State: journal.Held, Reason: "a user asked for it"})
	s.touch(t)
}

func (s *calls) checkpointFor(t *task, c *call) {
	switch t.rec.State {
	case headrace.Pending:
		s.answer(c, t, fmt.Errorf("%w: task %s has not started; there is nothing to save", serve.ErrState, t.rec.ID))
		return
	case headrace.Checkpointed:
		s.hold(t)
		s.answer(c, t, nil)
		return
	}
	if err := s.admission.refusesCheckpoint(t); err != nil && !c.by.All {
		s.answer(c, t, fmt.Errorf("%w: %w", serve.ErrBusy, err))
		return
	}
	st, err := s.stores.Choose(c.store, t.dump())
	if err != nil {
		s.answer(c, t, err)
		return
	}
	s.checkpoint(t, &journal.Intent{User: true, Reason: "a user asked for it"}, st, c)
}

// bringBackFor lets the task run again. The policy decides in this same turn
// whether it can run at once; else it is queued, and the answer says so.
func (s *calls) bringBackFor(t *task, c *call) {
	if c.force && t.hosted() && s.cfg.Cluster != nil && !c.by.All {
		s.answer(c, t, fmt.Errorf("%w: only root may have %s go on although %s has no room for it", serve.ErrDenied, t.rec.ID, t.rec.Hosting.Scheduler))
		return
	}
	if t.rec.State == headrace.Running {
		s.answer(c, t, nil)
		return
	}
	if t.rec.Held {
		t.rec.Held = false
		s.sinceNow(t)
		t.rec.Waited = 0
		t.rec.Note(journal.Event{AtMs: s.clk.wall().UnixMilli(), State: journal.Released, Reason: "a user asked for it"})
	}
	s.succeeded(t)
	t.setbacks = setbacks{}
	t.letClaim()
	s.schedulerOf(t).release(t, c)
}

func (s *calls) killFor(t *task, c *call) {
	switch {
	case t.rec.State == headrace.Pending && t.rec.Starts == 0:
		s.final(t, headrace.Killed, nil, "killed by a user before it ran", false)
		s.answer(c, t, nil)
	case t.rec.State == headrace.Checkpointed || t.live == nil: // waits to be started again, or its supervisor does not answer
		s.discard(t, c)
	default: // also a pending task that an earlier daemon had begun to start
		s.kill(t, &journal.Intent{User: true, Grace: s.killGrace(c), Reason: "a user asked for it"}, c)
	}
}

func (s *calls) killGrace(c *call) time.Duration { return cmp.Or(c.grace, s.cfg.KillGrace) }

// hurry makes the grace of the kill under way end with that of another request, if
// that is sooner.
func (s *calls) hurry(t *task, in *journal.Intent, c *call) {
	grace, live := s.killGrace(c), t.live
	if live == nil || s.clk.boot()+grace >= t.op.began+in.Grace {
		return
	}
	in.Grace = s.clk.boot() + grace - t.op.began
	s.touch(t)
	s.background(func(ctx context.Context) func() {
		live.KillForUser(ctx, grace) // the kill under way tells what comes of it
		return nil
	})
}

// submit accepts tasks, which are alike, from a user: all of them are durable when
// it returns, or none. Those that read are one job.
func (s *calls) submit(ctx context.Context, by serve.Viewer, tasks ...*task) ([]headrace.TaskID, headrace.JobID, error) {
	c := &call{}
	first, err := s.await(ctx, c, func() {
		if err := s.admission.refusesFrom(by, tasks); err != nil {
			s.answer(c, nil, err)
			return
		}
		for _, t := range tasks {
			s.admission.admit(t)
			if t.rec.Input != nil && t.rec.Job == "" {
				t.rec.Job = headrace.JobID(fmt.Sprintf("j%d", tasks[0].rec.Order))
			}
		}
		s.answer(c, tasks[0], nil)
	})
	if err != nil {
		return nil, "", err
	}
	ids := make([]headrace.TaskID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.spec.ID // the loop does not change it any more
	}
	return ids, first.Record.Job, nil
}
