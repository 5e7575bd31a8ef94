package solo

import (
	"context"
	"time"

	"headrace"
	"headrace/proc"
	"headrace/proc/attach"
)

// task is what the loop knows of one task. Only the loop touches it.
type task struct {
	rec  record
	spec proc.Spec
	// waiting is what is known of the files that it will open itself.
	waiting waitingInput

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

	// room: others were made to leave for it since it last came to run.
	room bool
	// Until retryAt (boot time) orders of the policy are not carried out for the
	// task, after failures many failures in a row.
	retryAt  time.Duration
	failures int
	// noSuspendUntil and noCheckpointUntil are boot times, for failures that may
	// pass.
	noSuspendUntil, noCheckpointUntil time.Duration
}

// operation is something that runs for a task outside the loop.
type operation struct {
	cancel context.CancelFunc
	// kind is one of the intents' or opPageOut, opAttach, opForget, which leave no
	// trace in the record.
	kind  string
	began time.Duration
	// bytes are to be paged out, swapped was out before; for opPageOut.
	bytes, swapped int64
	// calls are answered when it has ended.
	calls []*call
}

const (
	opPageOut = "paging out"
	opAttach  = "attaching"
	opForget  = "forgetting"
)

// holdsSlot tells whether the task's processors are taken. Those of a hosted task
// are its scheduler's business.
func (t *task) holdsSlot() bool {
	if t.hosted() {
		return false
	}
	if t.rec.State == headrace.Running {
		return true
	}
	if t.rec.Op == nil {
		return false
	}
	switch t.rec.Op.Kind {
	case opStart, opResume, opRestore:
		return true
	}
	return false
}

func (t *task) snapshot() *snapshot {
	s := &snapshot{rec: t.rec, note: t.note, argv: t.spec.Argv, output: t.spec.Output, resident: t.waiting.resident}
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

// final ends the task for good. Its checkpoints are removed unless keepImages.
func (l *loop) final(t *task, s headrace.TaskState, exit *proc.Exit, reason string, keepImages bool) {
	l.detach(t)
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
	l.inactive(t)
	l.coolInput(t)
	if keepImages {
		return
	}
	l.giveUpLease(t)
	t.rec.Checkpoint, t.rec.RanOn = nil, false
	l.leaveStream(t)
	t.spec.Env = nil
	l.specs[t.rec.ID] = &t.spec
	l.dropImages(t)
}

// dropImages removes the checkpoints of an ended task in the background. The
// record names their directories until that is done; what does not succeed is
// tried again later.
func (l *loop) dropImages(t *task) {
	dirs := t.rec.ImageDirs
	delete(l.littered, t)
	if len(dirs) == 0 {
		return
	}
	id := t.rec.ID
	l.later(func() {
		l.background(func(context.Context) func() {
			left := removeImages(l.img, dirs, id, l.log)
			return func() {
				if l.tasks[id] == t && t.rec.State.Final() && t.rec.Checkpoint == nil {
					t.rec.ImageDirs = left
					l.touch(t)
					if len(left) > 0 {
						l.littered[t] = l.clk.boot() + dropRetry
					}
				}
			}
		})
	})
}

const dropRetry = 30 * time.Second

// sweep tries again to remove checkpoints of ended tasks.
func (l *loop) sweep() {
	now := l.clk.boot()
	for t, at := range l.littered {
		if now >= at {
			l.dropImages(t)
		}
	}
}

// startOver makes the task pending again.
func (l *loop) startOver(t *task, reason string) {
	l.giveUpLease(t)
	l.warmSoon(t)
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
		l.wg.Add(1)
		go func() {
			defer l.wg.Done()
			select {
			case <-live.Exited():
			case <-detached:
				return
			case <-l.opsCtx.Done():
				return
			}
			l.post(func() {
				if t.detached == detached {
					l.exitArrived(t, live.Exit())
				}
			})
		}()
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

// backOff keeps the policy's orders away from the task for a while that doubles
// with every failure in a row, up to a minute.
func (l *loop) backOff(t *task) {
	d := min(time.Second<<min(t.failures, 6), time.Minute)
	t.failures++
	t.retryAt = l.clk.boot() + d
}

func (l *loop) succeeded(t *task) { t.failures, t.retryAt = 0, 0 }
