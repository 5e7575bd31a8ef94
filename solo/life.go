package solo

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/internal/crash"
	"headrace/migrate"
	"headrace/proc"
	"headrace/solo/journal"
)

// life is what becomes of tasks: the states that they enter, the operations that they
// undergo one at a time, and their supervisors, which come and go.
type life struct {
	*core
	// own and foreign decide for the tasks of this daemon and for containers.
	own, foreign scheduler
	// comeBack is for how long the process of a container that is checkpointed is waited for when
	// its supervisor has gone.
	comeBack time.Duration
	// idle is told of tasks that nothing is done to any more.
	idle func(t *task)
}

func (l *life) schedulerOf(t *task) scheduler {
	if t.hosted() {
		return l.foreign
	}
	return l.own
}

// begin records an operation and, once the record is durable, runs work outside
// the loop. What work returns runs in the loop; its error answers the calls.
// work must not touch the task. in is nil for operations that leave no trace.
func (l *life) begin(t *task, kind headrace.Operation, in *journal.Intent, c *call, work func(ctx context.Context) func() error) {
	ctx, cancel := context.WithCancel(l.driver.ctx)
	op := &operation{cancel: cancel, kind: kind, began: l.clk.boot()}
	if c != nil {
		op.calls = append(op.calls, c)
	}
	t.op = op
	if in != nil {
		in.Kind, in.AtMs = kind, l.clk.wall().UnixMilli()
		in.Began = cmp.Or(in.Began, op.began) // what is asked for again may have been done since it was first
		t.rec.Op = in
		t.rec.Note(journal.Event{AtMs: in.AtMs, State: kind.String(), Reason: in.Reason, Delay: in.Delay})
		l.touch(t)
	}
	l.background(func(context.Context) func() {
		defer cancel()
		crash.Here("solo.op.before")
		finish := work(ctx)
		crash.Here("solo.op.after")
		return func() { l.opEnded(t, op, finish) }
	})
}

// opEnded takes in the result of an operation. finish may begin another one.
func (l *life) opEnded(t *task, op *operation, finish func() error) {
	in := t.rec.Op
	t.op = nil
	err := finish()
	if in != nil {
		// A checkpoint that was not answered stays on record until it is looked for, which a daemon that comes meanwhile does.
		if kept := t.unanswered == in && t.exit == nil; t.rec.Op == in && !kept && (t.op == nil || t.op.kind != in.Kind) {
			t.rec.Op = nil
		}
		l.touch(t)
	}
	for _, c := range op.calls {
		l.answer(c, t, err)
	}
	if t.exit != nil && t.op == nil {
		exit := *t.exit
		t.exit = nil
		l.exited(t, exit, in)
	}
	l.idle(t)
	l.redecide = true
}

// enter makes the task be in a state from now on. The event's State is filled
// in.
func (l *life) enter(t *task, s headrace.TaskState, e journal.Event) {
	was := t.rec.State
	if s == headrace.Running {
		t.rec.Waited, t.rec.Limited = t.waited(l.clk.boot()), false
	}
	if s == headrace.Running || was == headrace.Running {
		l.sinceNow(t)
	}
	if t.known {
		t.rec.Last = t.stats.Usage
	}
	t.rec.State, t.rec.Reason = s, journal.Short(e.Reason)
	t.trouble, t.troubleUntil = "", 0
	if s == headrace.Running && t.rec.StartedMs == 0 {
		t.rec.StartedMs = e.AtMs
	}
	e.State = s.String()
	if e.AtMs == 0 {
		e.AtMs = l.clk.wall().UnixMilli()
	}
	t.rec.Note(e)
	l.touch(t)
	l.log.Info("task", "id", t.rec.ID, "from", was.String(), "to", s.String(), "reason", e.Reason,
		"took", e.Took, "bytes", e.Bytes)
}

// troubled shows what went wrong with a task until the boot time, or, for 0, until
// something else becomes of it.
func (l *life) troubled(t *task, what string, until time.Duration) {
	what = journal.Short(what)
	t.trouble, t.troubleUntil = what, until
	t.rec.Note(journal.Event{AtMs: l.clk.wall().UnixMilli(), State: journal.Trouble, Reason: what})
	l.touch(t)
}

// final ends the task for good. Its checkpoints are removed unless keepImages.
func (l *life) final(t *task, s headrace.TaskState, exit *proc.Exit, reason string, keepImages bool) {
	l.dismiss(t)
	e := journal.Event{Reason: reason}
	if exit != nil {
		t.rec.Exit = exit
		t.rec.Last = exit.Usage
		if !exit.At.IsZero() {
			e.AtMs = exit.At.UnixMilli()
		}
	}
	if e.AtMs == 0 {
		e.AtMs = l.clk.wall().UnixMilli()
	}
	t.rec.EndedMs = e.AtMs
	l.enter(t, s, e)
	t.rec.Condense()
	l.tasks.end(t)
	for _, c := range t.queue {
		l.answer(c, t, errEnded(t))
	}
	t.queue = nil
	l.inputs.unfollow(t)
	l.inputs.release(t, l.tasks.active)
	if keepImages {
		l.inputs.keepLease(t)
		return
	}
	l.inputs.endLease(t)
	if p, began := (migrate.Parcel{Task: t.rec.ID, Spec: t.spec}), t.rec.BeganIn; began != "" {
		l.background(func(context.Context) func() {
			l.showLogs(p, began)
			if err := p.Clear(began); err != nil {
				l.log.Warn("files of a container that came from another machine, and has ended, stay", "id", p.Task, "began as", began, "err", err)
			}
			return nil
		})
	}
	t.rec.Checkpoint, t.rec.RanOn = nil, false
	l.inputs.leave(t, l.tasks.all)
	t.spec.Env, t.spec.Argv = nil, shortened(t.spec.Argv)
	if in := t.rec.Input; in != nil {
		short := *in
		short.Paths = nil
		t.rec.Input = &short
	}
	l.writeSpec(t)
	l.dropPiped(t)
	l.images.drop(t)
	l.conclude(t.rec.ID)
}

// conclude has what is kept for tasks let go of that have ended for good, one after the other: their connections, which
// a supervisor that was killed, or has been dismissed, has left to nobody, and their commands. If that fails it is tried
// again when the daemon starts, and when the task is forgotten.
func (l *life) conclude(ids ...headrace.TaskID) {
	l.background(func(ctx context.Context) func() {
		for _, id := range ids {
			if ctx.Err() != nil {
				break
			}
			if err := l.rt.Conclude(id); err != nil {
				l.log.Warn("connections, or the command, of a task that has ended are still kept", "id", id, "err", err)
			}
		}
		return nil
	})
}

// maxShownArgv is how much is kept of the command of an ended task, and shown of others where many are, in
// bytes: it is for people.
const maxShownArgv = 8 << 10

// shortened returns a command with at most about maxShownArgv bytes.
func shortened(argv []string) []string {
	n := 0
	for i, arg := range argv {
		if n += len(arg) + 16; n > maxShownArgv {
			short := slices.Clone(argv[:i])
			if i == 0 {
				short = append(short, strings.Clone(strings.ToValidUTF8(arg[:min(len(arg), maxShownArgv)], "")))
			}
			return append(short, fmt.Sprintf("... (%d more)", len(argv)-len(short)))
		}
	}
	return argv
}

// startOver makes the task pending again.
func (l *life) startOver(t *task, reason string) {
	l.inputs.endLease(t)
	t.positions, t.had, t.cold = nil, 0, 0
	l.inputs.expect(t)
	t.rec.Checkpoint, t.rec.RanOn = nil, false
	t.rec.Base = t.rec.Base.Plus(t.rec.Last)
	t.rec.Last = proc.Usage{}
	t.rec.NoCheckpoint, t.rec.NoSuspend, t.rec.Ratio = "", "", 0
	t.known, t.promised, t.rec.Promised = false, 0, 0
	l.enter(t, headrace.Pending, journal.Event{Reason: reason})
}

// attach makes live the task's supervisor and waits for its end.
func (l *life) attach(t *task, live Task) {
	l.detach(t)
	t.live, t.detached = live, make(chan struct{})
	t.exit, t.known, t.back, t.unheard = nil, false, 0, false
	detached := t.detached
	l.background(func(ctx context.Context) func() {
		select {
		case <-live.Exited():
		case <-detached:
			return nil
		case <-ctx.Done():
			return nil
		}
		return func() {
			if t.detached == detached {
				l.exitArrived(t, live.Exit())
			}
		}
	})
}

// detach gives up the connection; the supervisor goes on.
func (l *life) detach(t *task) {
	if t.live == nil {
		return
	}
	close(t.detached)
	live := t.live
	t.live, t.detached, t.exit, t.known = nil, nil, nil, false
	l.later(live.Close)
}

// dismissTimeout is how long a supervisor without processes may take to end.
const dismissTimeout = 10 * time.Second

// dismiss gives up the connection to the supervisor of a task that is over, and ends
// it if it still waits to bring the task back. A lost task that a user wants back all
// the same gets a new one.
func (l *life) dismiss(t *task) {
	live := t.live
	if live == nil || t.op != nil {
		l.detach(t)
		return
	}
	if _, over := ended(live); over {
		l.detach(t)
		return
	}
	close(t.detached)
	t.live, t.detached, t.exit, t.known = nil, nil, nil, false
	l.begin(t, headrace.Dismissing, nil, nil, func(ctx context.Context) func() error {
		ctx, cancel := context.WithTimeout(ctx, dismissTimeout)
		defer cancel()
		err := live.Dismiss(ctx)
		live.Close()
		return func() error {
			if err != nil {
				l.log.Warn("the supervisor of a task that is over does not end", "id", t.rec.ID, "err", err)
			}
			return nil
		}
	})
}

// backOff keeps the policy's orders away from the task for a while that doubles
// with every failure in a row, up to a minute.
func (l *life) backOff(t *task) {
	now := l.clk.boot()
	t.retryAt = now + min(time.Second<<min(t.failures, 6), time.Minute)
	t.failures++
	t.setBack(l.clk)
}

func (l *life) succeeded(t *task) { t.failures, t.retryAt, t.ending = 0, 0, false }

// foundGone takes in that an operation was refused because the task has no processes any
// more. Mostly its end is told in a moment; but that may wait for a disk that is full, or
// for the server of its output.
func (l *life) foundGone(t *task) {
	t.ending = t.failures == 0
	l.backOff(t)
}

// left counts a task that had to leave, or holds one that a user made leave.
func (l *life) left(t *task, in *journal.Intent, m headrace.Mechanism) {
	t.rec.Keeps = in.User && m == headrace.Suspend && t.hosted()
	if in.User {
		t.rec.Held = true
		return
	}
	l.counts.preemption(m)
	if t.rec.State == headrace.Running {
		t.rec.Preemptions++
	}
}
