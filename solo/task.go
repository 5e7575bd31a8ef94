package solo

import (
	"context"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc"
	"headrace/proc/attach"
	"headrace/solo/board"
	"headrace/solo/journal"
)

// task is what the loop knows of one task. Only the loop touches it.
type task struct {
	rec  journal.Record
	spec proc.Spec
	// stored: the environment is in the journal only. It may be large, and many tasks
	// may wait.
	stored bool
	// resident is how much of the files that it will open itself was in memory when
	// last measured, while it waited; followed: they are being looked at.
	resident int64
	followed bool
	// had is how much of these files it had read when last measured, cold how much of that
	// was not in memory.
	had, cold int64
	// positions are where it was in these files when it was made to leave; nil: not known.
	positions map[linux.FileID]int64

	// files are the descriptors that a hosted task came with, until it is started.
	files attach.Files

	supervision

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
	returning
	// promised is the earliest end that it has told by its share (headrace.Progress.Promised).
	promised time.Duration

	// note is why it waits, as the policy says.
	note string
	// limited is why it waits, when that is a limit of its owner. See admission.restrain.
	limited string

	// room: others were made to leave for it since it last came to run. See own.lapse.
	room bool
	setbacks
	// ending: an operation found that it has no processes any more. Its end is to be told.
	ending bool
	orphan
	// noSuspendUntil and noCheckpointUntil are boot times, for failures that may
	// pass.
	noSuspendUntil, noCheckpointUntil time.Duration
	// trouble is what went wrong while it stayed in its state, and is shown in the place
	// of why it is in that; until troubleUntil (boot time), if that is not 0.
	trouble      string
	troubleUntil time.Duration
}

// supervision is what is known of a task's supervisor.
type supervision struct {
	// live is the connection to it, nil without one. detached is closed when live is given up.
	live     Task
	detached chan struct{}
	// silence is why nobody is let wait for what is done to the task, and is shown: the supervisor does not answer. nil: it
	// does, as far as is known.
	silence error
	// unheard: it was not answered whether the process of a container has let go of its command.
	unheard bool
}

// orphan is what is known of a task whose supervisor has gone.
type orphan struct {
	// unanswered is a checkpoint whose supervisor, or its init, has gone before it has answered: it may
	// be durable. nil: there is none, or it was looked for.
	unanswered *journal.Intent
	// awaited is until when (boot time) the process of a container that is checkpointed and has no
	// supervisor may ask for another one; 0: there is no such process.
	awaited time.Duration
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
	// calls are answered when it has ended, or when the supervisor does not answer.
	calls []*call
}

// attaching tells whether who waits for it is the process of a container, which has a patience of its own.
func (o *operation) attaching(t *task) bool {
	return o.kind == headrace.Attaching || o.kind == headrace.Starting && t.hosted()
}

// awaits tells whether a request waits for the supervisor to be found, however long that takes. A scheduler that were told that a task
// can neither be suspended nor checkpointed would kill it.
func (o *operation) awaits(c *call) bool { return o.kind == headrace.Attaching && c.ordered }

// holdsSlot tells whether the task's processors are taken. Those of a hosted task
// are its scheduler's business.
func (t *task) holdsSlot() bool {
	if t.hosted() {
		return false
	}
	return t.rec.State == headrace.Running || t.rec.Op.Doing().BringsBack()
}

// waited returns for how long it has been in the queue by now, if it waits. The wait begins
// anew when a limit of its owner lets it run: nobody's tasks rise by being too many.
func (t *task) waited(now time.Duration) time.Duration {
	if t.rec.Limited {
		return 0
	}
	return t.rec.Waited + max(0, now-t.rec.Since)
}

// setAside tells whether a user has suspended it, or it is about to be: only a user has it
// go on, and until then it keeps its memory.
func (t *task) setAside() bool {
	if in := t.rec.Op; in != nil && in.Kind == headrace.Suspending && in.User {
		return true
	}
	return t.rec.Held && t.rec.State == headrace.Suspended
}

// memory returns how much it had in memory and swap when it was last measured.
func (t *task) memory() int64 { return t.stats.Resident + t.stats.Swapped }

// store lets go of what is in the journal by now.
func (t *task) store() {
	if !t.hosted() { // a hosted task runs at once, and may go elsewhere with it
		t.spec.Env, t.stored = nil, true
	}
}

func (t *task) snapshot() *board.Task {
	s := &board.Task{Record: t.rec, Note: t.note, Trouble: t.trouble, Argv: t.spec.Argv, Output: t.spec.Output, Resident: t.resident}
	if t.rec.Op != nil {
		s.DoingReason = t.rec.Op.Reason
	}
	if t.silence != nil {
		s.Silence = journal.Short(t.silence.Error())
	}
	if t.known {
		stats := t.stats
		s.Stats = &stats
	}
	return s
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
