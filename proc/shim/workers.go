package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// errKilled is why an operation under way was given up.
var errKilled = fmt.Errorf("%w: it is being killed", proc.ErrGone)

// descendants lists the processes below one, parents first, without those that skip
// names and what is below them.
func descendants(all []linux.Stat, of int, skip func(linux.Stat) bool) []linux.Stat {
	children := make(map[int][]linux.Stat)
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var out []linux.Stat
	for todo := []int{of}; len(todo) > 0; {
		pid := todo[0]
		todo = todo[1:]
		for _, c := range children[pid] {
			if !skip(c) {
				out = append(out, c)
				todo = append(todo, c.PID)
			}
		}
	}
	return out
}

// everything lists all processes below the supervisor.
func (s *supervisor) everything() ([]linux.Stat, error) {
	all, err := procs.All()
	return descendants(all, os.Getpid(), func(linux.Stat) bool { return false }), err
}

// workers lists the processes that work on the task: those below the supervisor that
// are not below its root. CRIU's children may be in any process group or session, and
// children of the supervisor when CRIU has died.
func (s *supervisor) workers() ([]linux.Stat, error) {
	s.mu.Lock()
	root := s.initPID
	s.mu.Unlock()
	all, err := procs.All()
	return descendants(all, os.Getpid(), func(p linux.Stat) bool { return p.PID == root }), err
}

// endWorkers returns when no process works on the task any more, so that none is taken
// for the task's. They get the patience to end by themselves; in a kill none.
func (s *supervisor) endWorkers(patience time.Duration) {
	deadline := linux.Clock() + patience
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		left, err := s.workers()
		if err == nil && len(left) == 0 {
			return
		}
		if s.isKilled() || linux.Clock() >= deadline {
			for _, p := range left {
				linux.Signal(p.PID, unix.SIGKILL)
			}
		}
		time.Sleep(pause)
	}
}

// contWorkers continues those that are stopped.
func (s *supervisor) contWorkers() {
	list, err := s.workers()
	for _, p := range list {
		if err == nil && linux.Stopped(p.State) {
			linux.Signal(p.PID, unix.SIGCONT)
		}
	}
}

// interruptible makes the operation under way one that can be called off, with the
// reason: by a kill, or because it makes no progress. The context ends then. The caller
// calls done when the operation is over.
func (s *supervisor) interruptible() (ctx context.Context, cancel context.CancelCauseFunc, done func()) {
	ctx, cancel = context.WithCancelCause(context.Background())
	s.mu.Lock()
	outer := s.cancel
	s.cancel = func() { cancel(errKilled) }
	if s.killing {
		cancel(errKilled)
	}
	s.mu.Unlock()
	return ctx, cancel, func() {
		s.mu.Lock()
		s.cancel = outer
		s.mu.Unlock()
		cancel(nil)
	}
}

const (
	// opPatience is how long a kill waits for an operation that it has called off to
	// let go.
	opPatience = 2 * time.Second
	// killLimit is how long it may take until everything is gone that was sent SIGKILL.
	killLimit = 20 * time.Second
)

// dismiss ends a supervisor that has no processes and that nobody will ask for any
// more. The task has not ended by this, so no record of an end is written.
func (s *supervisor) dismiss() error {
	if !s.lockOp(opPatience) {
		return fmt.Errorf("%w: something is being done to it", proc.ErrState)
	}
	defer s.op.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.phase {
	case ended:
		return nil
	case empty:
		s.phase, s.exit.Lost = ended, true
		close(s.endedCh)
		return nil
	}
	return fmt.Errorf("%w: it has processes", proc.ErrState)
}

// errUnkillable: SIGKILL has no effect on a process in uninterruptible sleep.
var errUnkillable = errors.New("not all processes end")

// lockOp takes op, as soon as it is free; false: it was not in time.
func (s *supervisor) lockOp(patience time.Duration) bool {
	for deadline := linux.Clock() + patience; !s.op.TryLock(); time.Sleep(time.Millisecond) {
		if linux.Clock() >= deadline {
			return false
		}
	}
	return true
}

// endWithoutOp ends a task whose operation does not let go although everything was sent
// SIGKILL: the supervisor itself waits, for a file on a dead device say. If there are no
// processes left that is the end.
func (s *supervisor) endWithoutOp() error {
	all, err := s.everything()
	if err != nil || len(all) > 0 {
		return s.unkillable()
	}
	if s.currentPhase() == empty {
		s.endEmpty(unix.SIGKILL)
	}
	select {
	case <-s.endedCh:
		return nil
	case <-time.After(opPatience):
		return s.unkillable()
	}
}

// unkillable says what is left after a SIGKILL.
func (s *supervisor) unkillable() error {
	all, err := s.everything()
	if err != nil {
		return err
	}
	return fmt.Errorf("%w %v after SIGKILL: %s", errUnkillable, killLimit, whatOf(all))
}
