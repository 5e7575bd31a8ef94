package shim

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

const (
	defaultKillGrace = 5 * time.Second
	// leftoverGrace is what processes get that the command left behind.
	leftoverGrace = 2 * time.Second
)

// procs reads the /proc that shows this process's own pid namespace.
var procs linux.ProcFS

// tree lists the task's processes: the descendants of the supervisor that are
// not its helpers, zombies included.
func (s *supervisor) tree() ([]linux.Stat, error) {
	all, err := procs.All()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	helpers := s.helperGroup
	s.mu.Unlock()
	return descendants(all, os.Getpid(), func(p linux.Stat) bool {
		return helpers != 0 && (p.PGID == helpers || p.PID == helpers)
	}), nil
}

// signalAll sends a signal to every process of the task. In a pid namespace of
// its own that is one atomic step, which no fork can slip through.
func (s *supervisor) signalAll(sig syscall.Signal) error {
	if sig == unix.SIGKILL {
		s.unlock()
		if err := s.group().Kill(); err != nil {
			fmt.Fprintf(os.Stderr, "kill the task's cgroup: %v\n", err) // then one by one
		}
	}
	if s.isolated {
		if err := unix.Kill(-1, sig); err != nil && err != unix.ESRCH {
			return fmt.Errorf("signal %s to all: %w", unix.SignalName(sig), err)
		}
		return nil
	}
	tree, err := s.tree()
	if err != nil {
		return err
	}
	for _, p := range tree {
		if err := linux.Signal(p.PID, sig); err != nil {
			return err
		}
	}
	return nil
}

// kill ends the task: TERM to every process, after the grace KILL to the whole
// tree. It returns when the end is recorded. An operation under way is given up; if it
// does not let go, everything is ended at once. An error says what cannot be ended.
func (s *supervisor) kill(ctx context.Context, grace time.Duration) error {
	if grace <= 0 {
		grace = defaultKillGrace
	}
	s.mu.Lock()
	s.killing = true
	if s.cancel != nil {
		s.cancel()
	}
	s.mu.Unlock()
	if !s.lockOp(opPatience) {
		s.signalAll(unix.SIGKILL)
		if !s.lockOp(killLimit) {
			return s.endWithoutOp()
		}
	}
	defer s.op.Unlock()
	if s.currentPhase() == empty {
		s.endEmpty(unix.SIGKILL)
	}
	s.terminate(grace)
	select {
	case <-s.endedCh:
		return nil
	case <-time.After(killLimit):
		return s.unkillable()
	}
}

// terminate asks init's subtree to end and forces it after the grace.
func (s *supervisor) terminate(grace time.Duration) {
	tree, err := s.tree()
	if err == nil {
		for _, p := range tree {
			if p.PID != s.initPID {
				linux.Signal(p.PID, unix.SIGTERM)
			}
		}
		s.unlock()
		s.signalAll(unix.SIGCONT)
	}
	select {
	case <-s.endedCh:
	case <-time.After(grace):
		s.signalAll(unix.SIGKILL)
	}
}

// endTree ends what is left of the tree, without mercy after the grace, and
// waits until everything is reaped.
func (s *supervisor) endTree(grace time.Duration) {
	deadline := linux.Clock() + grace
	asked := false
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		tree, err := s.tree()
		if err == nil && len(tree) == 0 {
			s.reaper.settle() // what the last of them have used counts as well
			return
		}
		switch {
		case linux.Clock() >= deadline:
			s.signalAll(unix.SIGKILL)
		case !asked:
			s.signalAll(unix.SIGTERM)
			s.unlock()
			s.signalAll(unix.SIGCONT)
			asked = true
		}
		time.Sleep(pause)
	}
}
