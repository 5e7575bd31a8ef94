package solo

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"headrace"
	"headrace/proc"
	"headrace/report"
	"headrace/solo/journal"
)

// exitArrived takes in that a task's processes have ended.
func (l *life) exitArrived(t *task, exit proc.Exit) {
	if t.op != nil {
		if t.exit = &exit; t.op.kind == headrace.Archiving || t.op.kind == headrace.TakingBack {
			t.op.cancel() // it was killed, and goes on nowhere
		}
		return
	}
	t.rec.Op = nil // of a checkpoint that was not answered: it is looked for now
	l.exited(t, exit, nil)
	l.idle(t)
	l.redecide = true
}

// exited decides what an end means. in is the operation during which it
// happened, nil if there was none.
func (l *life) exited(t *task, exit proc.Exit, in *journal.Intent) {
	if t.rec.State == headrace.Checkpointed {
		l.schedulerOf(t).idleEnded(t, exit)
		return
	}
	if !exit.At.IsZero() && exit.At.Equal(t.rec.SeenExit) {
		exit = proc.Exit{Lost: true, Usage: t.rec.Last}
	}
	if !exit.Lost {
		t.rec.SeenExit = exit.At
	}
	exit.StartError = journal.Short(exit.StartError)
	if k := t.rec.Kill; k != nil && (in.Doing() != headrace.Killing || k.User && !in.User) && (exit.Lost || exit.Signal != 0 || exit.Code >= 128) {
		in = k // it was asked for, and has done so in the end
	}
	t.rec.Kill = nil
	killing := in.Doing() == headrace.Killing
	switch {
	case killing && in.User, exit.KilledForUser: // also one that an older record, put back, does not know of
		l.final(t, headrace.Killed, &exit, "killed by a user", false)
	case killing && !in.Late && exit.Lost: // by the kill, as it did not answer
		l.unlessSaved(t, func() { l.evicted(t, exit, in) })
	case exit.Lost:
		l.vanished(t, exit, "its supervisor was killed")
	case exit.Abandoned:
		l.final(t, headrace.Killed, &exit, endedBy(t), false)
	case killing && !in.Late:
		l.evicted(t, exit, in)
	case exit.Lacking && !t.hosted():
		l.detach(t)
		l.awaitRoom(t, waitsForMachine(exit.StartError))
	case exit.MayPass && !t.hosted() && t.rec.State == headrace.Pending && t.failures+1 < maxStartFailures:
		l.detach(t)
		l.backOff(t)
		t.rec.Reason = "could not be started, will be tried again: " + exit.StartError
		l.touch(t)
	case exit.OutOfMemory:
		l.final(t, headrace.Failed, &exit, outOfMemory(t, exit), false)
	case exit.StartError != "":
		l.final(t, headrace.Failed, &exit, exit.StartError, false)
	case exit.Code == 0:
		l.final(t, headrace.Done, &exit, "", false)
	case exit.Signal != 0:
		l.final(t, headrace.Failed, &exit, fmt.Sprintf("ended by signal %d (%s)", exit.Signal, syscall.Signal(exit.Signal)), false)
	default:
		reason := fmt.Sprintf("exit code %d", exit.Code)
		if why := l.inputs.trouble(t); why != "" {
			reason += "; its input failed: " + why
		}
		l.final(t, headrace.Failed, &exit, reason, false)
	}
}

// outOfMemory tells that the kernel has ended a process of the task.
func outOfMemory(t *task, exit proc.Exit) string {
	why := "the machine, or the budget of all tasks, had no memory left for it"
	if t.rec.Memory > 0 && !t.hosted() {
		why = fmt.Sprintf("it used more than its %s of memory", report.Bytes(t.rec.Memory))
	}
	if exit.Signal == 0 {
		return fmt.Sprintf("exit code %d; a process of it was killed: %s", exit.Code, why)
	}
	return why
}

// endedBy tells that the process that a hosted task was started for has gone.
func endedBy(t *task) string { return "ended by " + t.rec.Hosting.Scheduler }

// evicted puts a task that was killed to make room back into the queue.
func (l *life) evicted(t *task, exit proc.Exit, in *journal.Intent) {
	cpu, wall := l.accountLoss(t, exit.Usage)
	l.detach(t)
	t.rec.Last = exit.Usage
	l.left(t, in, headrace.Kill)
	t.rec.Forfeit = true
	l.succeeded(t)
	l.requeue(t, fmt.Sprintf("%s; lost %s of work (%s of processor time)", in.Reason, short(wall), short(cpu)))
}

// vanished deals with a task whose processes are gone without an end.
func (l *life) vanished(t *task, exit proc.Exit, why string) {
	l.unlessSaved(t, func() { l.loseOrRequeue(t, exit, why) })
}

// unlessSaved does something with a task whose processes are gone. What a checkpoint that
// nobody has answered may have saved is looked for first: else it would be removed.
func (l *life) unlessSaved(t *task, do func()) {
	if in := t.unanswered; in != nil && in.Dir != "" {
		l.lookForImage(t, in, do)
		return
	}
	do()
}

func (l *life) loseOrRequeue(t *task, exit proc.Exit, why string) {
	cpu, wall := l.accountLoss(t, exit.Usage)
	l.detach(t)
	l.log.Warn("a task vanished", "id", t.rec.ID, "why", why)
	t.rec.Losses++
	if !t.rec.RestartOnLoss {
		l.schedulerOf(t).lose(t, why)
		return
	}
	if t.rec.Losses > 1 {
		l.backOff(t)
	}
	l.requeue(t, fmt.Sprintf("%s; lost %s of work (%s of processor time)", why, short(wall), short(cpu)))
}

// lookForImage has a task without processes be checkpointed if the checkpoint was committed; else it
// goes on with none. The record has the operation until then, so that a daemon that comes meanwhile looks as well.
func (l *life) lookForImage(t *task, in *journal.Intent, none func()) {
	id, last := t.rec.ID, t.rec.Checkpoint
	t.unanswered = nil
	l.begin(t, headrace.Checkpointing, nil, nil, func(ctx context.Context) func() error {
		im, err := l.images.awaitNewer(ctx, id, in, last)
		return func() error {
			switch {
			case err != nil:
				t.unanswered = in
			case im == nil:
				none()
			default:
				l.succeeded(t)
				l.left(t, in, headrace.Checkpoint)
				t.rec.Checkpoint, t.rec.RanOn = im, true
				l.enter(t, headrace.Checkpointed, journal.Event{Bytes: im.Stored, Reason: in.Reason})
				l.detach(t)
				if t.hosted() {
					l.orphaned(t)
				}
			}
			return err
		}
	})
	t.rec.Op = in
	l.touch(t)
}

// requeue makes a task without processes wait to be brought back from its last
// checkpoint, else from the beginning.
func (l *life) requeue(t *task, reason string) {
	if t.rec.Checkpoint != nil {
		t.rec.RanOn = true
		l.enter(t, headrace.Checkpointed, journal.Event{Reason: reason})
		l.inputs.keepLease(t)
		return
	}
	l.startOver(t, reason)
}

// accountLoss adds the work since the start or the last checkpoint to what was
// lost: what was measured last, and what was used after that.
func (l *life) accountLoss(t *task, end proc.Usage) (cpu, wall time.Duration) {
	if t.known {
		s := t.stats
		cpu, wall = s.SinceSaveCPU, s.SinceSaveWall
		cpu += max(0, end.User+end.System-s.Usage.User-s.Usage.System)
		wall += max(0, end.Running-s.Usage.Running)
		t.rec.Last = s.Usage
	} else if t.rec.Checkpoint == nil {
		cpu, wall = end.User+end.System, end.Running
	}
	t.rec.LostCPU += cpu
	t.rec.LostWall += wall
	l.counts.lost(cpu, wall)
	return cpu, wall
}

func short(d time.Duration) string { return d.Round(10 * time.Millisecond).String() }
