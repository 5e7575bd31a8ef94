package solo

import (
	"errors"
	"fmt"

	"headrace"
	"headrace/proc"
	"headrace/serve"
)

// scheduler is who decides for a task: this daemon, by its policy, or, for a container,
// the scheduler that it belongs to, by its orders. Only the loop calls it.
type scheduler interface {
	// order does what another scheduler wants of the task.
	order(t *task, c *call)
	// release lets a task go on that a user wants back. The call is answered when it
	// does, or with why it waits.
	release(t *task, c *call)
	// notStarted deals with a machine that could not start the task at all, which is not
	// the fault of the command, notRestored with a checkpoint that could not be used.
	notStarted(t *task, err error)
	notRestored(t *task, err error)
	// lose ends a task whose processes and their end are not to be found.
	lose(t *task, why string)
	// idleEnded deals with the end of a supervisor whose task was only a checkpoint.
	idleEnded(t *task, exit proc.Exit)
	// startAgain finishes a start that an earlier daemon had begun; notBegun deals with
	// a supervisor that was not told then what to do.
	startAgain(t *task, in *intent)
	notBegun(t *task)
}

func (l *loop) schedulerOf(t *task) scheduler {
	if t.hosted() {
		return l.containers
	}
	return own{l}
}

// own decides for the tasks of this daemon.
type own struct{ *loop }

func (l own) order(t *task, c *call) {
	l.answer(c, t, fmt.Errorf("%w: task %s has no other scheduler", serve.ErrState, t.rec.ID))
}

// release has the policy decide in this same turn whether the task can run at once.
func (l own) release(t *task, c *call) {
	t.rec.Reason = waitsForSlot
	l.touch(t)
	l.redecide = true
	l.released = append(l.released, release{task: t, call: c})
}

const maxStartFailures = 5

func (l own) notStarted(t *task, err error) {
	if noRoom(err.Error()) {
		l.awaitRoom(t, err.Error())
		return
	}
	if t.failures+1 >= maxStartFailures || errors.Is(err, proc.ErrUnsupported) {
		l.final(t, headrace.Failed, nil, "could not be started: "+err.Error(), false)
		return
	}
	l.backOff(t)
	t.rec.Reason = "could not be started, will be tried again: " + err.Error()
}

// maxRestoreFailures is how often in a row CRIU may fail to restore a task before it
// is left to a user.
const maxRestoreFailures = 3

// notRestored tries again: for ever what the machine could not do at the moment,
// some times what CRIU refused; then a user decides. Only a task whose checkpoints are
// all unusable starts over, if that is allowed, or is lost.
func (l own) notRestored(t *task, err error) {
	final := errors.Is(err, proc.ErrUnsupported) || errors.Is(err, proc.ErrState)
	switch {
	case errors.Is(err, proc.ErrNoImage) && (t.rec.RestartOnLoss || t.rec.Forfeit):
		l.succeeded(t)
		l.startOver(t, "restarted from the beginning: "+err.Error())
	case errors.Is(err, proc.ErrNoImage):
		l.lose(t, "no checkpoint could be used: "+err.Error())
	case errors.Is(err, proc.ErrNotNow), !final && t.failures+1 < maxRestoreFailures:
		l.backOff(t)
		t.rec.Reason = "could not be restored, will be tried again: " + err.Error()
	default:
		l.succeeded(t)
		t.rec.Held = true
		l.enter(t, headrace.Checkpointed, event{Reason: fmt.Sprintf(
			"could not be restored: %v; when that is put right: headrace restore %s", err, t.rec.ID)})
	}
}

// lose keeps a checkpoint for the user to decide.
func (l own) lose(t *task, why string) {
	if t.rec.Checkpoint != nil {
		t.rec.RanOn = true
		l.final(t, headrace.Lost, nil, fmt.Sprintf(
			"%s; if its files are as they were then, it goes on from its last checkpoint with: headrace restore %s", why, t.rec.ID), true)
		return
	}
	l.final(t, headrace.Lost, nil, why, false)
}

func (l own) idleEnded(t *task, _ proc.Exit) { l.detach(t) }

func (l own) startAgain(t *task, in *intent) { l.finish(t, in) }

func (l own) notBegun(t *task) { l.dismiss(t) }
