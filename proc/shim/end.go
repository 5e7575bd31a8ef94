package shim

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

const (
	// leftoverGrace is what processes get that the command left behind.
	leftoverGrace = 2 * time.Second
	// opPatience is how long a kill waits for an operation that it has called off to
	// let go.
	opPatience = 2 * time.Second
	// killLimit is how long it may take until everything is gone that was sent SIGKILL.
	killLimit = 20 * time.Second
)

// died gets the death of every child that is not a helper: of init, and of
// processes that were re-parented to us.
func (t *task) died(d death) {
	t.life.reaped(d.rusage) // when a start is under way, after it
	if d.pid == t.processes.init() && t.life.rootDied() {
		go t.finish()
	}
}

// finish ends what the command has left behind and records how the task ended.
func (t *task) finish() {
	t.life.hear()
	t.processes.end(leftoverGrace)
	t.syncLogs()
	t.life.end(t.op.isKilled())
}

// syncLogs makes durable what the task has written: the record of its end must not
// outlive it. An output file may be on a server that does not answer any more. Whoever
// kills the task then is not to wait for that.
func (t *task) syncLogs() {
	synced := make(chan struct{})
	go func() {
		defer close(synced)
		syncLogs(t.life.spec())
	}()
	const look = 100 * time.Millisecond
	for left := cleanPatience; left > 0; {
		select {
		case <-synced:
			return
		case <-time.After(look):
			if t.op.isKilled() {
				left -= look
			}
		}
	}
	fmt.Fprintf(os.Stderr, "what the task has written is not on disk yet, after %v of a kill\n", cleanPatience)
}

// mercy is how long a task that is being killed has to end by itself. It is safe for
// concurrent use.
type mercy struct {
	mu     sync.Mutex
	until  time.Duration // by linux.Clock; 0: no kill is under way
	sooner chan struct{} // closed when it ends sooner than it did
}

// begin begins it, or has the one that there is end at that time, if that is sooner;
// under says whether there is one.
func (m *mercy) begin(until time.Duration) (under bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	under = m.until != 0
	if !under || until < m.until {
		if under {
			close(m.sooner)
		}
		m.until, m.sooner = until, make(chan struct{})
	}
	return under
}

// end is the end of the kill.
func (m *mercy) end() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.until = 0
}

// left returns how much of it is left, and what is closed when that is no longer true.
func (m *mercy) left() (time.Duration, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until - linux.Clock(), m.sooner
}

// kill ends the task: TERM to every process, after the grace KILL to the whole
// tree. It returns when the end is recorded. An operation under way is given up; if it
// does not let go, everything is ended at once. Of several kills the one whose grace
// ends first counts. An error says what cannot be ended.
func (t *task) kill(grace time.Duration) error {
	if grace <= 0 {
		grace = proc.DefaultKillGrace
	}
	if t.mercy.begin(linux.Clock() + grace) {
		return t.awaitEnd(grace + killLimit)
	}
	defer t.mercy.end()
	t.op.kill()
	if !t.op.lockWithin(opPatience) {
		t.processes.signal(unix.SIGKILL)
		if !t.op.lockWithin(killLimit) {
			return t.endWithoutOp()
		}
	}
	defer t.op.Unlock()
	if t.life.now() == empty {
		t.endEmpty(unix.SIGKILL)
	}
	t.terminate()
	return t.awaitEnd(killLimit)
}

// terminate asks init's subtree to end and forces it when there is no mercy left.
func (t *task) terminate() {
	tree, err := t.processes.tree()
	if err == nil {
		for _, p := range tree {
			if p.PID != t.processes.init() {
				linux.Signal(p.PID, unix.SIGTERM)
			}
		}
		t.processes.group.unlock()
		t.processes.signal(unix.SIGCONT)
	}
	for {
		left, sooner := t.mercy.left()
		select {
		case <-t.life.over:
			return
		case <-sooner:
		case <-time.After(left):
			t.processes.signal(unix.SIGKILL)
			return
		}
	}
}

// endWithoutOp ends a task whose operation does not let go although everything was sent
// SIGKILL: the supervisor itself waits, for a file on a dead device say. If there are no
// processes left that is the end.
func (t *task) endWithoutOp() error {
	all, err := t.processes.everything()
	if err != nil || len(all) > 0 {
		return t.awaitEnd(0)
	}
	if t.life.now() == empty {
		t.endEmpty(unix.SIGKILL)
	}
	return t.awaitEnd(opPatience)
}

// errUnkillable: SIGKILL has no effect on a process in uninterruptible sleep.
var errUnkillable = errors.New("not all processes end")

// awaitEnd returns when the end is recorded, or says what is left after a SIGKILL.
func (t *task) awaitEnd(patience time.Duration) error {
	select {
	case <-t.life.over:
		return nil
	case <-time.After(patience):
	}
	all, err := t.processes.everything()
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: it has no processes any more, and its end is not on record yet; is the disk with the state full?", proc.ErrNotNow)
	}
	return fmt.Errorf("%w %v after SIGKILL: %s", errUnkillable, killLimit, whatOf(all))
}

// endEmpty records the end of a task that has no processes, by a signal.
func (t *task) endEmpty(sig syscall.Signal) {
	t.op.kill()
	unlock(t.home.dir)
	t.life.endEmpty(sig, t.processes.init() == 0)
}

// dismiss ends a supervisor that has no processes and that nobody will ask for any
// more.
func (t *task) dismiss() error {
	if !t.op.lockWithin(opPatience) {
		return fmt.Errorf("%w: something is being done to it", proc.ErrState)
	}
	defer t.op.Unlock()
	return t.life.dismiss()
}

// Signals that end what has no processes: nobody could handle them.
const endingSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGINT-1) | 1<<(unix.SIGTERM-1)

// deliver passes pending signals on: to the command's process group while it runs.
// A task without processes is ended by those that would end it. Everything else
// stays pending until the task goes on.
func (t *task) deliver() {
	t.op.Lock()
	defer t.op.Unlock()
	p, group := t.life.command()
	switch {
	case group == 0: // it did not start
	case p == running:
		for _, sig := range t.lifeline.take(^uint64(0)) {
			if err := linux.Signal(-group, sig); err != nil {
				fmt.Fprintf(os.Stderr, "pass signal %d on: %v\n", sig, err)
			}
		}
	case p == empty:
		if signals := t.lifeline.take(endingSignals); len(signals) > 0 {
			t.endEmpty(signals[len(signals)-1])
		}
	}
}

// abandon ends an attached task at once, whatever is being done to it.
func (t *task) abandon() {
	if !t.life.abandon(t.op.kill) {
		return
	}
	if t.processes.init() != 0 {
		t.processes.signal(unix.SIGKILL)
	}
	t.op.Lock()
	defer t.op.Unlock()
	if t.life.now() == empty {
		t.endEmpty(unix.SIGKILL)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		t.processes.signal(unix.SIGKILL) // also what was started meanwhile
		select {
		case <-t.life.over:
			return
		case <-time.After(pause):
		}
	}
}
