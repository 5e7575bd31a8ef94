package solo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"headrace"
	"headrace/proc"
	"headrace/proc/attach"
)

// task is what the loop knows of one task. Only the loop touches it.
type task struct {
	rec  record
	spec proc.Spec
	// stored: the environment is in the journal only. It may be large, and many tasks
	// may wait.
	stored bool
	// resident is how much of the files that it will open itself was in memory when
	// last measured, while it waited; followed: they have been looked at.
	resident int64
	followed bool

	// files are the descriptors that a hosted task came with, until it is started.
	files attach.Files

	// live is the connection to its supervisor, nil without one. detached is
	// closed when live is given up.
	live     Task
	detached chan struct{}

	// op is the operation that runs now; nil: idle.
	op *operation
	// queue are requests of users that wait for op to end.
	queue []*call
	// exit has arrived but could not be handled yet because of op.
	exit *proc.Exit

	// stats were taken at statsAt (boot time); known tells whether there are any
	// of the present processes.
	stats   proc.Stats
	statsAt time.Duration
	known   bool
	polling bool

	// note is why it waits, as the policy says.
	note string
	// limited is why it waits, when that is a limit of its owner; beyond: it is more
	// than its owner's equal share, and others wait with less. See loop.restrain.
	limited string
	beyond  bool

	// room: others were made to leave for it since it last came to run.
	room bool
	// Until retryAt (boot time) orders of the policy are not carried out for the
	// task, after failures many failures in a row.
	retryAt  time.Duration
	failures int
	// noSuspendUntil and noCheckpointUntil are boot times, for failures that may
	// pass.
	noSuspendUntil, noCheckpointUntil time.Duration
	// trouble is what went wrong while it stayed in its state, and is shown in the place
	// of why it is in that; until troubleUntil (boot time), if that is not 0.
	trouble      string
	troubleUntil time.Duration
}

// operation is something that runs for a task outside the loop.
type operation struct {
	cancel context.CancelFunc
	// kind is that of the intent; without one the operation leaves no trace in the
	// record.
	kind  headrace.Operation
	began time.Duration
	// bytes are to be paged out, swapped was out before; for a paging out.
	bytes, swapped int64
	// calls are answered when it has ended.
	calls []*call
}

// holdsSlot tells whether the task's processors are taken. Those of a hosted task
// are its scheduler's business.
func (t *task) holdsSlot() bool {
	if t.hosted() {
		return false
	}
	return t.rec.State == headrace.Running || t.rec.Op.doing().BringsBack()
}

// store lets go of what is in the journal by now.
func (t *task) store() {
	if !t.hosted() { // a hosted task runs at once, and may go elsewhere with it
		t.spec.Env, t.stored = nil, true
	}
}

func (t *task) snapshot() *snapshot {
	s := &snapshot{rec: t.rec, note: t.note, trouble: t.trouble, argv: t.spec.Argv, output: t.spec.Output, resident: t.resident}
	if t.rec.Op != nil {
		s.doingReason = t.rec.Op.Reason
	}
	if t.known {
		stats := t.stats
		s.stats = &stats
	}
	return s
}

// enter makes the task be in a state from now on. The event's State is filled
// in.
func (l *loop) enter(t *task, s headrace.TaskState, e event) {
	was := t.rec.State
	now := l.clk.boot()
	if s == headrace.Running {
		t.rec.WaitedLast = t.rec.Waited + max(0, now-t.rec.Since)
	}
	if s == headrace.Running || was == headrace.Running {
		t.rec.Since, t.rec.Waited, t.rec.Boot = now, 0, l.boot
	}
	if t.known {
		t.rec.Last = t.stats.Usage
	}
	t.rec.State, t.rec.Reason = s, e.Reason
	t.trouble, t.troubleUntil = "", 0
	if s == headrace.Running && t.rec.StartedMs == 0 {
		t.rec.StartedMs = e.AtMs
	}
	e.State = s.String()
	if e.AtMs == 0 {
		e.AtMs = l.clk.wall().UnixMilli()
	}
	t.rec.note(e)
	l.touch(t)
	l.log.Info("task", "id", t.rec.ID, "from", was.String(), "to", s.String(), "reason", e.Reason,
		"took", e.Took, "bytes", e.Bytes)
}

// troubled shows what went wrong with a task until the boot time, or, for 0, until
// something else becomes of it.
func (l *loop) troubled(t *task, what string, until time.Duration) {
	t.trouble, t.troubleUntil = what, until
	t.rec.note(event{AtMs: l.clk.wall().UnixMilli(), State: "trouble", Reason: what})
	l.touch(t)
}

// letPass forgets what held for a while and does not any more.
func (t *task) letPass(now time.Duration) {
	for _, p := range []struct {
		what  *string
		until *time.Duration
	}{{&t.trouble, &t.troubleUntil}, {&t.rec.NoCheckpoint, &t.noCheckpointUntil}, {&t.rec.NoSuspend, &t.noSuspendUntil}} {
		if *p.until != 0 && now >= *p.until {
			*p.what, *p.until = "", 0
		}
	}
}

// final ends the task for good. Its checkpoints are removed unless keepImages.
func (l *loop) final(t *task, s headrace.TaskState, exit *proc.Exit, reason string, keepImages bool) {
	l.dismiss(t)
	e := event{Reason: reason}
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
	l.tasks.end(t)
	for _, c := range t.queue {
		l.answer(c, t, errEnded(t))
	}
	t.queue = nil
	l.inputs.unfollow(t)
	l.inputs.release(t, l.tasks.active)
	if keepImages {
		return
	}
	l.inputs.giveUpLease(t)
	t.rec.Checkpoint, t.rec.RanOn = nil, false
	l.inputs.leave(t, l.tasks.all)
	t.spec.Env, t.spec.Argv = nil, shortened(t.spec.Argv)
	l.written[t.rec.ID] = &t.spec
	l.images.drop(t)
}

// maxEndedArgv is how much is kept of the command of an ended task, in bytes: it is
// for people, and many tasks are kept.
const maxEndedArgv = 8 << 10

// shortened is a command with at most about maxEndedArgv bytes.
func shortened(argv []string) []string {
	n := 0
	for i, arg := range argv {
		if n += len(arg) + 16; n > maxEndedArgv {
			short := slices.Clone(argv[:i])
			if i == 0 {
				short = append(short, strings.ToValidUTF8(arg[:min(len(arg), maxEndedArgv)], ""))
			}
			return append(short, fmt.Sprintf("... (%d more)", len(argv)-len(short)))
		}
	}
	return argv
}

// startOver makes the task pending again.
func (l *loop) startOver(t *task, reason string) {
	l.inputs.giveUpLease(t)
	l.inputs.expect(t)
	t.rec.Checkpoint, t.rec.RanOn = nil, false
	t.rec.Base = addUsage(t.rec.Base, t.rec.Last)
	t.rec.Last = proc.Usage{}
	t.rec.NoCheckpoint, t.rec.NoSuspend, t.rec.Ratio = "", "", 0
	t.known = false
	l.enter(t, headrace.Pending, event{Reason: reason})
}

// attach makes live the task's supervisor and waits for its end.
func (l *loop) attach(t *task, live Task) {
	l.detach(t)
	t.live, t.detached = live, make(chan struct{})
	t.exit, t.known = nil, false
	detached := t.detached
	l.later(func() {
		l.wg.Go(func() {
			select {
			case <-live.Exited():
			case <-detached:
				return
			case <-l.driver.ctx.Done():
				return
			}
			l.post(func() {
				if t.detached == detached {
					l.exitArrived(t, live.Exit())
				}
			})
		})
	})
}

// detach gives up the connection; the supervisor goes on.
func (l *loop) detach(t *task) {
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
func (l *loop) dismiss(t *task) {
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
func (l *loop) backOff(t *task) {
	d := min(time.Second<<min(t.failures, 6), time.Minute)
	t.failures++
	t.retryAt = l.clk.boot() + d
}

func (l *loop) succeeded(t *task) { t.failures, t.retryAt = 0, 0 }
