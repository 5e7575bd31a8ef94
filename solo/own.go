package solo

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"headrace"
	"headrace/policy"
	"headrace/proc"
	"headrace/serve"
	"headrace/solo/board"
	"headrace/solo/journal"
	"headrace/solo/request"
)

// decider is the policy: what to do, and with explain why others wait. It must
// not block.
type decider func(v headrace.View, explain bool) ([]headrace.Order, []policy.Note)

// own decides for the tasks of this daemon, by its policy.
type own struct {
	*operations
	admission *admission
	measuring *measuring
	policy    decider
}

// decide asks the policy and carries out what it says. Before somebody has to
// leave, everybody is measured again. What it looks at has to be fresh, however long
// it takes over it: else a long queue would never make anybody leave.
func (s *own) decide() {
	fresh := s.measuring.takeFresh()
	v := s.view()
	orders, notes := s.policy(v, len(s.tasks.active) <= maxExplained)
	s.explain(notes)
	for _, o := range orders {
		switch {
		case evicts(o) && !fresh:
			s.measuring.refresh()
			continue
		case !s.measuring.round.done: // what runs since before this daemon began may have more memory than is known
			continue
		}
		s.carryOut(o)
	}
	s.lapse()
	s.inputs.ready(s.tasks.all, policy.Ahead(&v, orders, notes))
}

// lapse takes the right to room from those who have not come to run, once nobody leaves or
// is written to swap any more: what was made for them is not there, or they do not take it.
func (s *own) lapse() {
	var waiting []*task
	for _, t := range s.tasks.active {
		switch {
		case t.hosted():
		case t.op != nil && (t.op.kind.LeavesBy() != headrace.Wait || t.op.kind == headrace.PagingOut):
			return
		case t.room:
			waiting = append(waiting, t)
		}
	}
	for _, t := range waiting {
		t.room = false
	}
}

// maxExplained is up to how many tasks the policy says why they wait, and in which order.
const maxExplained = 1000

// explain shows why tasks wait, those that run for their input.
func (s *own) explain(notes []policy.Note) {
	waits := make(map[headrace.TaskID]string, len(notes))
	for _, n := range notes {
		waits[n.Task] = n.Reason
	}
	heldUp := s.inputs.heldUp(s.tasks.all)
	for _, t := range s.tasks.active {
		note := cmp.Or(t.limited, waits[t.rec.ID], heldUp(t))
		if missing := s.images.missing(t); missing != nil && !t.hosted() {
			note = missing.Error()
		}
		if note != t.note {
			t.note = note
			s.show(t)
		}
	}
}

func evicts(o headrace.Order) bool {
	return o.Verb == headrace.OrderPreempt || o.Verb == headrace.OrderPageOut
}

// carryOut does what the policy ordered, unless it is not possible (any more);
// then the policy will be asked again when something has changed.
func (s *own) carryOut(o headrace.Order) {
	t := s.tasks.all[o.Task]
	if t == nil || t.rec.State.Final() {
		s.warn("order", "the policy wants something of a task that is not there", "id", o.Task, "order", o.Verb.String())
		return
	}
	if t.op != nil {
		if t.op.kind == headrace.PagingOut && o.Verb == headrace.OrderResume {
			t.op.cancel()
		}
		return
	}
	if s.clk.boot() < t.retryAt {
		return
	}
	in := &journal.Intent{For: o.For, PageOut: o.PageOut, Delay: o.Delay, Reason: o.Reason}
	switch o.Verb {
	case headrace.OrderStart, headrace.OrderResume, headrace.OrderRestore:
		s.bringBack(t, o, in)
	case headrace.OrderPreempt:
		s.preempt(t, o, in)
		s.madeFor(o.For)
	case headrace.OrderPageOut:
		s.pageOut(t, o.PageOut)
		s.madeFor(o.For)
	}
}

// madeFor remembers that room is made for a task. A daemon that starts again does
// not know it; then whoever comes first in the queue gets the room.
func (s *own) madeFor(id headrace.TaskID) {
	if u := s.tasks.all[id]; u != nil {
		u.room, u.displaced = true, true
	}
}

// bringBack starts, resumes or restores a task if there is a slot for it.
func (s *own) bringBack(t *task, o headrace.Order, in *journal.Intent) {
	if t.rec.Held || s.tasks.slotsUsed()+t.rec.CPUs > s.cfg.Slots+1e-9 {
		s.warn("slots", "the policy wants to run a task for which there is no slot", "id", o.Task)
		return
	}
	t.room = false
	s.admission.had(t)
	switch {
	case o.Verb == headrace.OrderStart && t.rec.State == headrace.Pending:
		s.start(t, in)
	case o.Verb == headrace.OrderResume && t.rec.State == headrace.Suspended && t.live != nil:
		s.resume(t, in)
	case o.Verb == headrace.OrderRestore && t.rec.State == headrace.Checkpointed:
		s.restore(t, in)
	default:
		s.warn("order", "the policy's order does not fit the task's state", "id", o.Task,
			"order", o.Verb.String(), "state", t.rec.State.String())
	}
}

func (s *own) preempt(t *task, o headrace.Order, in *journal.Intent) {
	running := t.rec.State == headrace.Running
	if t.live == nil || !running && t.rec.State != headrace.Suspended {
		s.warn("order", "the policy wants to preempt a task without processes", "id", o.Task)
		return
	}
	switch o.Mechanism {
	case headrace.Suspend:
		if running {
			s.suspend(t, in, nil)
		}
	case headrace.Checkpoint:
		if s.admission.refusesCheckpoint(t) != nil { // another one was decided since the policy was shown that it may be
			s.redecide = true
			return
		}
		if st := s.stores.Named(o.Store); st != nil {
			s.checkpoint(t, in, st, nil)
			return
		}
		s.warn("order", "the policy wants a checkpoint in an unknown store", "id", o.Task, "store", o.Store)
	case headrace.Kill:
		in.Grace = atOnce
		s.kill(t, in, nil)
	case headrace.Wait:
		s.warn("order", "the policy preempts by waiting", "id", o.Task)
	}
}

func (s *own) order(t *task, c *call) {
	s.answer(c, t, fmt.Errorf("%w: task %s has no other scheduler", serve.ErrState, t.rec.ID))
}

// release has the policy decide in this same turn whether the task can run at once.
func (s *own) release(t *task, c *call) {
	t.rec.Reason = board.WaitsForSlot
	s.touch(t)
	s.redecide = true
	s.inputs.expect(t)
	s.released = append(s.released, release{task: t, call: c})
}

const maxStartFailures = 5

func (s *own) notStarted(t *task, err error) {
	if lacks(err) {
		s.awaitRoom(t, waitsFor(err))
		return
	}
	if t.failures+1 >= maxStartFailures || errors.Is(err, proc.ErrUnsupported) || errors.Is(err, request.ErrRights) {
		s.final(t, headrace.Failed, nil, "could not be started: "+err.Error(), false)
		return
	}
	s.backOff(t)
	t.rec.Reason = "could not be started, will be tried again: " + err.Error()
}

// maxRestoreFailures is how often in a row CRIU may fail to restore a task before it
// is left to a user.
const maxRestoreFailures = 3

// notRestored tries again: for ever what the machine could not do, or had not enough for, at the moment,
// some times what CRIU refused; then a user decides. Only a task whose checkpoints are
// all unusable starts over, if that is allowed, or is lost.
func (s *own) notRestored(t *task, err error, _ proc.Exit) {
	final := errors.Is(err, proc.ErrUnsupported) || errors.Is(err, proc.ErrState) || errors.Is(err, request.ErrRights)
	switch {
	case errors.Is(err, proc.ErrNoImage) && (t.rec.RestartOnLoss || t.rec.Forfeit):
		s.succeeded(t)
		s.startOver(t, "restarted from the beginning: "+err.Error())
	case errors.Is(err, proc.ErrNoImage):
		s.lose(t, "no checkpoint could be used: "+err.Error())
	case lacks(err), !final && t.failures+1 < maxRestoreFailures:
		s.backOff(t)
		t.rec.Reason = "could not be restored, will be tried again: " + err.Error()
	default:
		s.succeeded(t)
		t.rec.Held = true
		s.enter(t, headrace.Checkpointed, journal.Event{Reason: fmt.Sprintf(
			"could not be restored: %v; when that is put right: headrace restore %s", err, t.rec.ID)})
	}
}

// lose keeps a checkpoint for the user to decide.
func (s *own) lose(t *task, why string) {
	if t.rec.Checkpoint != nil {
		t.rec.RanOn = true
		s.final(t, headrace.Lost, nil, fmt.Sprintf(
			"%s; if its files are as they were then, it goes on from its last checkpoint with: headrace restore %s", why, t.rec.ID), true)
		return
	}
	s.final(t, headrace.Lost, nil, why, false)
}

func (s *own) idleEnded(t *task, _ proc.Exit) { s.detach(t) }

func (s *own) startAgain(t *task, in *journal.Intent) { s.finish(t, in) }

// notBegun ends the supervisor, unless the command has begun after all: then it runs.
func (s *own) notBegun(t *task, in *journal.Intent) {
	live := t.live
	s.begin(t, headrace.Dismissing, nil, nil, func(ctx context.Context) func() error {
		limited, cancel := context.WithTimeout(ctx, dismissTimeout)
		defer cancel()
		err := live.Dismiss(limited)
		var stats proc.Stats
		if errors.Is(err, proc.ErrState) {
			stats, err = live.Stats(ctx)
		}
		return func() error {
			switch {
			case errors.Is(err, proc.ErrGone) || err == nil && stats.State == headrace.Pending:
				s.detach(t)
			case err == nil:
				return s.settledAs(t, in, stats, nil, nil)
			default:
				s.log.Warn("the supervisor of a task that has not begun does not end", "id", t.rec.ID, "err", err)
				s.detach(t)
			}
			return nil
		}
	})
}
