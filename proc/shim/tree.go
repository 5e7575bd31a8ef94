package shim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

const (
	defaultSuspendGrace = 100 * time.Millisecond
	defaultKillGrace    = 5 * time.Second
	// leftoverGrace is what processes get that the command left behind.
	leftoverGrace = 2 * time.Second
	// stopTimeout bounds the wait for threads in uninterruptible sleep.
	stopTimeout = 10 * time.Second
	// vforkRetry is how long a process in uninterruptible sleep may hold up a
	// stop before its children are continued for a moment: a parent inside vfork
	// waits in that state for its child, which we have stopped.
	vforkRetry = 200 * time.Millisecond
	// runnerGrace is what our own runner of a stream's command gets in addition
	// (package stream/consumer): stopped before it has let go of its connection to
	// the daemon, the task could not be dumped. It needs milliseconds, unless the
	// machine is very busy.
	runnerGrace = 2 * time.Second
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
	children := make(map[int][]linux.Stat)
	for _, p := range all {
		children[p.PPID] = append(children[p.PPID], p)
	}
	var out []linux.Stat
	for todo := []int{os.Getpid()}; len(todo) > 0; {
		pid := todo[0]
		todo = todo[1:]
		for _, c := range children[pid] {
			if helpers != 0 && c.PGID == helpers {
				continue
			}
			out = append(out, c)
			todo = append(todo, c.PID)
		}
	}
	return out, nil
}

// signalAll sends a signal to every process of the task. In a pid namespace of
// its own that is one atomic step, which no fork can slip through.
func (s *supervisor) signalAll(sig syscall.Signal) error {
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

// suspend stops every thread of the task (os-assisted-preemption, III.B):
// SIGTSTP first, so that handlers can put external state in order, then SIGSTOP
// for what still runs. It returns when /proc confirms every thread.
func (s *supervisor) suspend(grace time.Duration) (proc.SuspendResult, error) {
	s.op.Lock()
	defer s.op.Unlock()
	if err := s.want(running); err != nil {
		return proc.SuspendResult{}, err
	}
	return s.stop(grace)
}

func (s *supervisor) want(p phase) error {
	switch have := s.currentPhase(); {
	case have == p:
		return nil
	case have == ended:
		return proc.ErrGone
	default:
		return fmt.Errorf("%w: it is %s", proc.ErrState, have.state())
	}
}

// stop is suspend for callers that hold op and have checked the phase.
func (s *supervisor) stop(grace time.Duration) (proc.SuspendResult, error) {
	if grace <= 0 {
		grace = defaultSuspendGrace
	}
	begin := linux.Clock()
	var res proc.SuspendResult
	tree, err := s.tree()
	if err != nil {
		return res, err
	}
	self := make(map[int]bool)
	for _, p := range tree {
		if p.State == 'T' {
			self[p.PID] = true
		}
	}
	for _, p := range tree {
		if p.PID != s.initPID && !self[p.PID] {
			if err := linux.Signal(p.PID, unix.SIGTSTP); err != nil {
				return res, err
			}
		}
	}
	res.Forced, err = s.awaitHandlers(begin + grace)
	if err == nil {
		err = s.freeze()
	}
	if err != nil {
		return res, errors.Join(err, s.contAllBut(self))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == ended {
		return res, proc.ErrGone
	}
	s.phase, s.selfStopped = stopped, self
	s.acct.paused()
	res.Processes, res.Took = len(tree)-1, linux.Clock()-begin
	return res, nil
}

// awaitHandlers waits while a process that has a handler for SIGTSTP has not
// stopped, until the deadline. It returns how many processes still run. A handler
// that was taken away means that the process is ready to be stopped.
func (s *supervisor) awaitHandlers(deadline time.Duration) (int, error) {
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		tree, err := s.tree()
		if err != nil {
			return 0, err
		}
		runs, handlers, runners := 0, 0, 0
		for _, p := range tree {
			if p.PID == s.initPID || linux.Stopped(p.State) {
				continue
			}
			runs++
			if st, err := procs.Status(p.PID); err == nil && st.Catches(unix.SIGTSTP) {
				handlers++
				if strings.HasPrefix(p.Comm, "headrace-shim") {
					runners++
				}
			}
		}
		now := linux.Clock()
		if handlers == 0 || now >= deadline && (runners == 0 || now >= deadline+runnerGrace) {
			return runs, nil
		}
		time.Sleep(pause)
	}
}

// freeze stops every process and confirms it. A process that is stopped already
// gets no second signal: it would stay pending and disturb a dump.
func (s *supervisor) freeze() error {
	deadline := linux.Clock() + stopTimeout
	vfork := linux.Clock() + vforkRetry
	clean := 0
	for round := 0; ; round++ {
		running, busy, err := s.running()
		if err != nil {
			return err
		}
		if len(running) == 0 {
			// One look at /proc can miss a process that was forked meanwhile.
			if clean++; clean == 2 {
				return nil
			}
			continue
		}
		clean = 0
		switch now := linux.Clock(); {
		case now >= deadline:
			return fmt.Errorf("%w within %v: %s", proc.ErrNotStopped, stopTimeout, busy)
		case now >= vfork && strings.Contains(busy, "state D"):
			vfork = now + vforkRetry
			err = s.contChildren(running)
		case round < 5 || round%10 != 0:
			err = stopEach(running)
		default: // forks faster than we look
			err = s.signalAll(unix.SIGSTOP)
		}
		if err != nil {
			return err
		}
		time.Sleep(min(100*time.Microsecond<<min(round, 6), 5*time.Millisecond))
	}
}

// contChildren continues the children of processes.
func (s *supervisor) contChildren(parents []int) error {
	tree, err := s.tree()
	if err != nil {
		return err
	}
	for _, p := range tree {
		if slices.Contains(parents, p.PPID) {
			if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return nil
}

func stopEach(pids []int) error {
	for _, pid := range pids {
		if err := linux.Signal(pid, unix.SIGSTOP); err != nil {
			return err
		}
	}
	return nil
}

// awaitStopped polls until all threads are stopped (then it returns "") or the
// deadline has passed (then it names one that is not).
func (s *supervisor) awaitStopped(deadline time.Duration) (string, error) {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		_, busy, err := s.running()
		if err != nil || busy == "" || linux.Clock() >= deadline {
			return busy, err
		}
		time.Sleep(pause)
	}
}

// settle removes stop signals that are pending for stopped processes, left from
// the race of SIGTSTP and SIGSTOP: they would interrupt what CRIU does in the
// process. SIGCONT clears them, and the SIGSTOP right behind it is taken before
// the process returns to its own code.
func (s *supervisor) settle() error {
	deadline := linux.Clock() + stopTimeout
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		tree, err := s.tree()
		if err != nil {
			return err
		}
		unsettled := 0
		for _, p := range tree {
			st, err := procs.Status(p.PID)
			if err != nil || st.Pending&stopSignals == 0 {
				continue // or it has just ended
			}
			unsettled++
			if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
				return err
			}
			if err := linux.Signal(p.PID, unix.SIGSTOP); err != nil {
				return err
			}
		}
		if unsettled == 0 {
			return nil
		}
		busy, err := s.awaitStopped(deadline)
		if err != nil {
			return err
		}
		if linux.Clock() >= deadline {
			return fmt.Errorf("%w for a dump within %v: %s", proc.ErrNotStopped, stopTimeout, busy)
		}
		time.Sleep(pause)
	}
}

const stopSignals = 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// running lists the processes that are not stopped, and names a thread of the
// last of them.
func (s *supervisor) running() (pids []int, busy string, err error) {
	tree, err := s.tree()
	if err != nil {
		return nil, "", err
	}
	for _, p := range tree {
		runs := false
		err := procs.ThreadStates(p.PID, func(tid int, state byte) bool {
			if runs = !linux.Stopped(state); runs {
				busy = fmt.Sprintf("thread %d of process %d (%s) is in state %c", tid, p.PID, p.Comm, state)
			}
			return !runs
		})
		if err != nil && !linux.Gone(err) {
			return nil, "", err
		}
		if runs {
			pids = append(pids, p.PID)
		}
	}
	return pids, busy, nil
}

// resume continues what suspend has stopped, and nothing that the task had
// stopped itself.
func (s *supervisor) resume() error {
	s.op.Lock()
	defer s.op.Unlock()
	if err := s.want(stopped); err != nil {
		return err
	}
	return s.cont()
}

func (s *supervisor) cont() error {
	s.mu.Lock()
	self := s.selfStopped
	s.phase, s.selfStopped = running, nil
	s.acct.resumed()
	s.mu.Unlock()
	s.lifeline.again()
	return s.contAllBut(self)
}

// contAllBut continues every process but those that the task had stopped itself.
func (s *supervisor) contAllBut(self map[int]bool) error {
	if len(self) == 0 {
		return s.signalAll(unix.SIGCONT)
	}
	tree, err := s.tree()
	if err != nil {
		return err
	}
	for _, p := range tree {
		if !self[p.PID] {
			if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return nil
}

// kill ends the task: TERM to every process, after the grace KILL to the whole
// tree. It returns when the end is recorded. A dump under way is given up.
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
	s.op.Lock()
	defer s.op.Unlock()
	if s.currentPhase() == empty {
		s.endEmpty(unix.SIGKILL)
	}
	s.terminate(grace)
	<-s.endedCh
	return nil
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
			s.signalAll(unix.SIGCONT)
			asked = true
		}
		time.Sleep(pause)
	}
}
