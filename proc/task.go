package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"headrace"
	"headrace/internal/linux"
	"headrace/proc/control"
)

// Task is a live task: a connection to its shim.
type Task struct {
	ID  headrace.TaskID
	dir string
	// criu is the path of CRIU; empty: there is none.
	criu string
	// patience is Runtime.Patience; silent tells Runtime.Silent.
	patience time.Duration
	silent   func(error)
	c        *control.Client
	// leash is closed, if there is one, when the shim knows what to do. One that loses
	// its leash before that ends.
	leash *os.File

	exited chan struct{}
	mu     sync.Mutex
	exit   Exit
	closed bool
}

func (r *Runtime) newTask(id headrace.TaskID, c *control.Client) *Task {
	t := &Task{ID: id, dir: r.TaskDir(id), criu: r.CRIU, patience: cmp.Or(r.Patience, defaultPatience), c: c, exited: make(chan struct{})}
	t.silent = func(err error) {
		if r.Silent != nil {
			r.Silent(id, err)
		}
	}
	go t.awaitEnd()
	return t
}

// awaitEnd finds out how the task ended once its shim is gone.
func (t *Task) awaitEnd() {
	<-t.c.Done()
	if t.isClosed() {
		return // by us: the task goes on
	}
	// Who hears of the end may start the task again: nothing of it is to run by then. When
	// the end is on record nothing does, but its supervisor, which the kernel keeps for as
	// long as a tracer has what has ended.
	patience := killPatience
	if _, ok, err := readExit(t.dir); ok && err == nil {
		patience = recordedPatience
	}
	t.c.AwaitPeer(patience) // of one that cannot be seen or does not go, what can be done is done below
	exit, ok, err := readExit(t.dir)
	if err != nil || !ok {
		endOrphans(t.dir, t.whileOpen) // what cannot be found cannot be ended either; Reset tries again
		exit = Exit{Code: 137, Signal: 9, Lost: true, At: time.Now()}
	}
	t.whileOpen(func() {
		t.exit = exit
		close(t.exited)
	})
}

// whileOpen does something, unless the connection was given up: then, when Close has returned, somebody
// else may do with the task what he likes.
func (t *Task) whileOpen(do func()) (open bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		do()
	}
	return !t.closed
}

// Exited returns what is closed when the task has ended; Exit then tells how. It is not
// closed by a checkpoint.
func (t *Task) Exited() <-chan struct{} { return t.exited }

// Exit tells how the task ended; valid once Exited is closed.
func (t *Task) Exit() Exit {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit
}

func (t *Task) isClosed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.closed
}

// Close gives up the connection. The task goes on; Exited stays open.
func (t *Task) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.leash.Close()
	t.c.Close()
}

// call asks the shim. A shim that goes away instead of answering means that the
// task has ended.
func (t *Task) call(ctx context.Context, op string, args, result any) error {
	err := t.c.Call(ctx, op, args, result)
	t.leash.Close()
	var e *control.Error
	switch {
	case errors.Is(err, control.ErrClosed):
		return fmt.Errorf("%w (%v)", ErrGone, err)
	case errors.As(err, &e):
		return Remote(e.Kind, e.Text)
	}
	return err
}

// watched is call; see watch.
func (t *Task) watched(ctx context.Context, op string, limit time.Duration, args, result any) error {
	defer t.watch(op, limit)()
	return t.call(ctx, op, args, result)
}

func (t *Task) verb(ctx context.Context, op string, limit time.Duration, args, result any) error {
	return opError(op, t.ID, t.watched(ctx, op, limit, args, result))
}

// watch has Runtime.Silent told, until end is called, when the supervisor does not say within the patience that it is there, or the limit
// of what it is asked for, if there is one, is over, again and again; and when that has passed.
func (t *Task) watch(op string, limit time.Duration) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		silent := false
		tell := func(err error) { // it is told again and again: the end of what else is asked for says that there was an answer
			if err != nil || silent {
				silent = err != nil
				t.silent(err)
			}
		}
		defer tell(nil)
		for over := linux.Clock() + limit; sleep(ctx, t.patience/2); {
			err := t.ping(ctx, t.patience/2)
			if limit > 0 && linux.Clock() >= over {
				err = ErrNoAnswer
			}
			if errors.Is(err, ErrNoAnswer) && ctx.Err() == nil {
				tell(opError(op, t.ID, err))
			} else if err == nil {
				tell(nil)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// ping asks whether the supervisor is there. It leaves the leash alone: what the supervisor is to do it may not have heard.
func (t *Task) ping(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, ErrNoAnswer)
	defer cancel()
	return t.c.Call(ctx, "ping", nil, nil)
}

// sleep returns false when ctx ends before the time is over.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// present fails with ErrNoAnswer if the supervisor does not say in time that it is there.
func (t *Task) present(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, t.patience, ErrNoAnswer)
	defer cancel()
	return t.call(ctx, "ping", nil, nil)
}

type graceArgs struct {
	Grace time.Duration `json:"grace"`
	// ForUser is of a kill: the record of the end is to say so.
	ForUser bool `json:"for_user,omitempty"`
}

// Suspend stops every thread of the task and confirms it: SIGTSTP and a grace (0:
// 100 ms) for processes that handle it, SIGSTOP for the others and what is left
// (os-assisted-preemption, III.B). On an error the task runs on, but if ctx has ended: then it may be
// carried out still.
func (t *Task) Suspend(ctx context.Context, grace time.Duration) (SuspendResult, error) {
	var r SuspendResult
	err := t.verb(ctx, "suspend", grace+t.patience, graceArgs{Grace: grace}, &r)
	return r, err
}

// Resume continues a suspended task.
func (t *Task) Resume(ctx context.Context) error {
	return t.verb(ctx, "resume", t.patience, nil, nil)
}

// Start starts the command of a task that is held (Runtime.Hold).
func (t *Task) Start(ctx context.Context) error { return opError("start", t.ID, t.start(ctx)) }

func (t *Task) start(ctx context.Context) error {
	err := t.watched(ctx, "start", 0, nil, nil)
	if errors.Is(err, ErrGone) { // it has ended already
		return nil
	}
	return err
}

// RestoreMoved brings a held task to life from a checkpoint that was taken of
// another one (RestoreOptions.MovedFrom) and is in the store as its own. After an
// error nothing runs, and the task is held as before.
func (t *Task) RestoreMoved(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	r, err := t.restore(ctx, o)
	return r, opError("restore", t.ID, err)
}

// restore asks for a restore. A supervisor that goes away instead of answering has
// restored the task if there is a record of how that ended: to restore it again would
// do its work twice.
func (t *Task) restore(ctx context.Context, o RestoreOptions) (RestoreResult, error) {
	var r RestoreResult
	o.CRIU = cmp.Or(o.CRIU, t.criu)
	err := t.watched(ctx, "restore", 0, o, &r)
	if errors.Is(err, ErrGone) {
		if e, ok, _ := readExit(t.dir); ok && e.EndsRestore(o.SeenExit) {
			return r, nil
		}
	}
	return r, err
}

// PageOut writes about the given number of bytes of a suspended task's memory
// to swap and returns how much left memory.
func (t *Task) PageOut(ctx context.Context, bytes int64) (int64, error) {
	var moved int64
	err := t.verb(ctx, "pageout", 0, struct {
		Bytes int64 `json:"bytes"`
	}{bytes}, &moved)
	return moved, err
}

// PageIn starts to read the task's swapped memory back. It returns how much was
// swapped.
func (t *Task) PageIn(ctx context.Context) (int64, error) {
	var n int64
	err := t.verb(ctx, "pagein", 0, nil, &n)
	return n, err
}

// Checkpoint writes a running or suspended task to storage and ends its
// processes; when it returns without an error the checkpoint is durable. On an
// error the task is as it was before. A task that cannot be dumped gives
// ErrNotCheckpointable, with the reason in the text.
func (t *Task) Checkpoint(ctx context.Context, o CheckpointOptions) (CheckpointResult, error) {
	var r CheckpointResult
	o.CRIU = cmp.Or(o.CRIU, t.criu)
	err := t.verb(ctx, "checkpoint", 0, o, &r)
	return r, err
}

// recordedPatience is how long a supervisor may take to go when it has recorded the end.
const recordedPatience = 5 * time.Second

// killPatience is how long a supervisor may take to answer a kill, beyond the grace.
// By its own limits it takes less, whatever hangs below it.
const killPatience = time.Minute

// defaultPatience is more than twice what a supervisor may take to stop a task, beyond the grace.
const defaultPatience = 30 * time.Second

// DefaultKillGrace is that of a kill for which none is given.
const DefaultKillGrace = 5 * time.Second

// Kill sends TERM to the task's processes and after the grace (0: 5 s) KILL to
// all that is left. It returns when nothing is left. It gives up whatever is being
// done to the task; of several kills the one whose grace ends first counts. A
// supervisor that does not answer is killed, and its namespace with it. An error says
// what cannot be ended: a process in uninterruptible sleep.
func (t *Task) Kill(ctx context.Context, grace time.Duration) error {
	return t.KillWithin(ctx, grace, killPatience)
}

// KillForUser does as Kill, and has the record of the end say that a user asked for it: whoever knows nothing else of
// the kill does not take it for a failure.
func (t *Task) KillForUser(ctx context.Context, grace time.Duration) error {
	return t.kill(ctx, graceArgs{Grace: grace, ForUser: true}, killPatience)
}

// KillWithin does as Kill, with another patience with the supervisor, beyond the grace.
func (t *Task) KillWithin(ctx context.Context, grace, patience time.Duration) error {
	return t.kill(ctx, graceArgs{Grace: grace}, patience)
}

func (t *Task) kill(ctx context.Context, a graceArgs, patience time.Duration) error {
	limited, cancel := context.WithTimeoutCause(ctx, a.Grace+patience, ErrNoAnswer)
	defer cancel()
	go t.endTracers(limited, cmp.Or(a.Grace, DefaultKillGrace)+tracerPatience)
	err := opError("kill", t.ID, t.call(limited, "kill", a, nil))
	if err == nil { // the end is on record, and its supervisor goes
		select {
		case <-t.c.Done():
		case <-limited.Done():
			err = context.Cause(limited)
		}
	}
	switch {
	case errors.Is(err, ErrGone):
		return nil
	case errors.Is(err, ErrNoAnswer):
		if killErr := t.c.KillPeer(); killErr != nil {
			return errors.Join(err, killErr)
		}
		if left := t.c.AwaitPeer(startTimeout); left != nil { // it waits for a disk, or something of its namespace does
			return fmt.Errorf("%w: %w", err, left)
		}
		return nil
	}
	return err
}

// Dismiss ends the supervisor of a task that has no processes and will not be brought
// back by it. It fails with ErrState if there are processes. No end is recorded: the
// task may be restored later, by another supervisor.
func (t *Task) Dismiss(ctx context.Context) error {
	err := opError("dismiss", t.ID, t.call(ctx, "dismiss", nil, nil))
	if errors.Is(err, ErrGone) {
		return nil
	}
	return err
}

// Stats measures the task.
func (t *Task) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	err := t.verb(ctx, "stats", 0, nil, &s)
	return s, err
}

// State asks the shim whether the task is Running, Suspended, or Checkpointed,
// which stands for a shim without processes.
func (t *Task) State(ctx context.Context) (headrace.TaskState, error) {
	s, err := t.Stats(ctx)
	return s.State, err
}
