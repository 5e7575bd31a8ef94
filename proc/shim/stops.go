package shim

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// stopper stops the task's processes and continues them. Its methods are called with op
// held, but for keepStopped.
type stopper struct {
	op        *operation
	processes *processes
	life      *life
	resumed   func() // called when signals may be delivered again

	// own are processes that the task itself had stopped before we did, also as a tracer: they stay
	// stopped at a resume. A tracer would take a SIGCONT for one that it knows nothing of.
	own map[int]bool
	// reacting are processes that may stop themselves because of a stop that is over.
	reacting reactions
	resumes  int // counts them
	locks    int // counts them
	// continued counts how often a suspended task was found running.
	continued atomic.Int64
}

// stop stops every thread of the task (os-assisted-preemption, III.B). It
// returns when /proc confirms every thread. Where a tracer keeps SIGSTOP from a thread
// the task is frozen in its place, if it may be.
func (s *stopper) stop(grace time.Duration, mayFreeze bool) (proc.SuspendResult, error) {
	if grace <= 0 {
		grace = defaultSuspendGrace
	}
	begin := linux.Clock()
	var res proc.SuspendResult
	tree, err := s.processes.tree()
	if err != nil {
		return res, err
	}
	own := s.ownStops(tree)
	h := newHalt(s.processes, grace)
	err = h.run(tree, s.op.isKilled)
	for _, pid := range h.traced {
		if !h.stopped(pid) {
			own[pid] = true
		}
	}
	if err != nil && !(mayFreeze && errors.Is(err, proc.ErrNotStopped) && s.processes.group.hold()) {
		return res, errors.Join(err, s.contAllBut(own))
	}
	if err := s.life.stand(); err != nil {
		return res, err
	}
	s.own = own
	res.Forced, res.Processes, res.Took = h.forced, len(tree)-1, linux.Clock()-begin
	return res, nil
}

// ownStops returns the processes that the task has stopped itself, and that stay
// stopped at a resume.
func (s *stopper) ownStops(tree []linux.Stat) map[int]bool {
	own := map[int]bool{}
	for _, p := range tree {
		if p.State == 'T' && !s.reacting.has(p) {
			own[p.PID] = true
		}
	}
	return own
}

// cont continues what stop has stopped, and nothing that the task had stopped itself.
func (s *stopper) cont() error {
	tree, err := s.processes.tree()
	if err != nil {
		return err
	}
	own, reacting := s.own, mayReact(tree, s.own)
	s.own, s.reacting = nil, reacting
	s.resumes++
	s.life.goOn()
	s.resumed()
	s.processes.group.unlock()
	if err := contEach(tree, own); err != nil {
		return err
	}
	if reacting != nil {
		go s.lookAgain(reacting, s.resumes)
	}
	return nil
}

// contAtLast is cont for a task that nobody would continue later, as it is taken for running. That a look at /proc fails, for
// want of memory say, passes.
func (s *stopper) contAtLast() error {
	err := s.cont()
	for pause := time.Millisecond; err != nil && s.life.now() == stopped && !s.op.isKilled(); pause = min(2*pause, 100*time.Millisecond) {
		time.Sleep(pause)
		err = s.cont()
	}
	return err
}

// contAllBut continues every process but those that the task had stopped itself.
func (s *stopper) contAllBut(own map[int]bool) error {
	tree, err := s.processes.tree()
	if err != nil {
		return err
	}
	return contEach(tree, own)
}

// continuedLook is how often it is looked whether somebody has continued a suspended task.
const continuedLook = 400 * time.Millisecond

// lock keeps a stopped task from running although somebody, its user say, continues it, or has it stopped again
// within a second.
func (s *stopper) lock() {
	s.processes.group.lock()
	s.locks++
	if !s.processes.group.frozen.Load() {
		go s.keepStopped(s.locks)
	}
}

// keepStopped looks for as long as the nth lock holds whether somebody has continued the task.
func (s *stopper) keepStopped(nth int) {
	failed := false
	for holds := true; holds; {
		time.Sleep(continuedLook)
		if !s.op.TryLock() {
			continue // whatever is being done to the task, it is told in a moment
		}
		if holds = s.life.now() == stopped && s.locks == nth; holds {
			err := s.stopIfContinued()
			if err != nil && !failed { // whoever keeps the stops away, a tracer say, does not fill the log
				fmt.Fprintf(os.Stderr, "stop a suspended task again: %v\n", err)
			}
			failed = err != nil
		}
		s.op.Unlock()
	}
}

// stopIfContinued stops a suspended task again that somebody has continued, and counts how often that was so.
func (s *stopper) stopIfContinued() error {
	tree, err := s.processes.tree()
	if err != nil {
		return err
	}
	h := newHalt(s.processes, 0)
	if left, err := h.moving(tree); err == nil && len(left) == 0 {
		return nil
	}
	err = h.run(tree, s.op.isKilled)
	maps.DeleteFunc(s.own, func(pid int, _ bool) bool { // it was to run
		_, sent := h.sent[pid]
		return sent || h.all && slices.Contains(h.traced, pid)
	})
	if err != nil {
		return err
	}
	s.continued.Add(1)
	return nil
}

// unlock returns the end of lock for a task that is to stay stopped: what somebody has
// continued meanwhile is stopped before it runs.
func (s *stopper) unlock() error {
	tree, err := s.processes.tree()
	if err != nil {
		return err
	}
	left, err := newHalt(s.processes, 0).moving(tree)
	if err != nil {
		return err
	}
	for _, p := range left {
		delete(s.own, p.PID)           // it was to run
		unix.Kill(p.PID, unix.SIGSTOP) // it may have just ended
	}
	s.processes.group.unlock()
	return nil
}

// standStill waits until all threads of a restored tree, which have been told to stop, are stopped. What somebody has continued it stops
// again.
func (s *stopper) standStill() error {
	h := newHalt(s.processes, 0)
	for pause := 100 * time.Microsecond; ; pause *= 2 {
		tree, err := s.processes.tree()
		if err != nil {
			return err
		}
		left, err := h.moving(tree)
		if err != nil || len(left) == 0 {
			return err
		}
		if linux.Clock() >= h.begin+stopAgain {
			return h.run(tree, s.op.isKilled)
		}
		time.Sleep(pause)
	}
}

const stopSignals = 1<<(unix.SIGSTOP-1) | 1<<(unix.SIGTSTP-1) | 1<<(unix.SIGTTIN-1) | 1<<(unix.SIGTTOU-1)

// settle makes a stopped tree ready for a dump: everything is stopped, also what
// somebody has continued meanwhile, and no stop signal is pending. Pending ones are
// left from the race of SIGTSTP and SIGSTOP and would interrupt what CRIU does in
// the process.
func (s *stopper) settle() error {
	deadline := linux.Clock() + stopTimeout
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		tree, err := s.processes.tree()
		if err != nil {
			return err
		}
		if err := newHalt(s.processes, 0).run(tree, s.op.isKilled); err != nil {
			return err
		}
		unsettled := pendingStops(tree)
		if len(unsettled) == 0 {
			return nil
		}
		if linux.Clock() >= deadline {
			return fmt.Errorf("%w for a dump within %v: stop signals stay pending", proc.ErrNotStopped, stopTimeout)
		}
		if err := s.clearStops(unsettled); err != nil {
			return err
		}
		time.Sleep(pause)
	}
}

// pendingStops returns the processes for which stop signals are pending. One that had ended before it took
// them keeps them until its parent, which is stopped, has waited for it: no SIGCONT clears them any more.
func pendingStops(tree []linux.Stat) (pids []int) {
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		if st, err := procs.Status(p.PID); err == nil && st.Pending&stopSignals != 0 { // else it has just ended
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// clearStops clears pending stop signals of stopped processes: SIGCONT does, and the
// SIGSTOP right behind it is mostly taken before the process returns to its own code.
// Where there is a freezer it always is: a shell that comes to run in between, on a busy
// machine, sees that its children are stopped.
func (s *stopper) clearStops(pids []int) error {
	own := maps.Clone(s.own)
	defer func() { s.own = own }() // here it is we who have them continue
	s.processes.group.lock()
	for _, pid := range pids {
		for _, signal := range []unix.Signal{unix.SIGCONT, unix.SIGSTOP} {
			if err := linux.Signal(pid, signal); err != nil {
				return errors.Join(err, s.unlock())
			}
		}
	}
	return s.unlock()
}

// contEach continues a tree, from the leaves to the root. SIGCONT takes effect at
// once, before the process has run: a parent that looks finds none of its children
// stopped. Before them go the readers of SIGCHLD.
func contEach(tree []linux.Stat, own map[int]bool) error {
	if err := contReaders(tree, own); err != nil {
		return err
	}
	for _, p := range slices.Backward(tree) {
		if own[p.PID] {
			continue
		}
		if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
			return err
		}
	}
	return nil
}

// contReaders continues the processes that read a pending SIGCHLD from a descriptor,
// and waits until they have. Only one can be pending. A child that ends as soon as it
// goes on, because its sleep is over, would end unnoticed by one that looks only at
// what the signal says, as script does.
func contReaders(tree []linux.Stat, own map[int]bool) error {
	var readers []int
	for _, p := range tree {
		if !own[p.PID] && readsSIGCHLD(p) && pendsSIGCHLD(p.PID) {
			readers = append(readers, p.PID)
			if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	deadline := linux.Clock() + readerPatience
	for _, pid := range readers {
		for pause := 50 * time.Microsecond; pendsSIGCHLD(pid) && linux.Clock() < deadline; pause = min(2*pause, time.Millisecond) {
			time.Sleep(pause)
		}
	}
	return nil
}

// readsSIGCHLD reports whether a process has SIGCHLD blocked for good, as far as can
// be told: signalfd and sigwait want it so.
func readsSIGCHLD(p linux.Stat) bool {
	const chld = unix.SIGCHLD
	return !linux.Dead(p.State) && p.Blocks(chld) && !p.Catches(chld) && p.Ignored&(1<<(chld-1)) == 0
}

func pendsSIGCHLD(pid int) bool {
	st, err := procs.Status(pid)
	return err == nil && st.Pending&(1<<(unix.SIGCHLD-1)) != 0
}

const (
	// readerPatience is how long a resume waits for all readers of SIGCHLD together.
	readerPatience = 50 * time.Millisecond
	// reactionTime is how long after a resume processes may stop themselves because
	// of the stop before it. They do so as soon as they run.
	reactionTime = 2 * time.Second
	// maxReactions bounds how often one process is continued after one resume.
	maxReactions = 5
)

// reactions are processes that may stop themselves when they go on, because of the
// stop that is over: with the number of times that they were continued since, and
// when they were started, for their number may go to another process.
type reactions map[int]*reaction

type reaction struct {
	started   time.Duration
	continued int
}

func (r reactions) has(p linux.Stat) bool { return r[p.PID] != nil && r[p.PID].started == p.Start }

// mayReact finds, in a stopped tree, the processes that may: those with a handler
// for SIGTSTP that has come too late, those that will be told with SIGCHLD that a
// child had been stopped (script, sudo), and what is above any of them, which
// sees it stop. Nil: none.
func mayReact(tree []linux.Stat, own map[int]bool) reactions {
	var found reactions
	above := map[int]bool{}
	parents := map[int]bool{}
	for _, p := range slices.Backward(tree) { // children come before their parents
		if own[p.PID] || linux.Dead(p.State) {
			continue
		}
		if above[p.PID] || p.Catches(unix.SIGTSTP) || parents[p.PID] && (p.Catches(unix.SIGCHLD) || readsSIGCHLD(p)) && pendsSIGCHLD(p.PID) {
			if found == nil {
				found = reactions{}
			}
			found[p.PID] = &reaction{started: p.Start}
			above[p.PPID] = true
		}
		parents[p.PPID] = true
	}
	return found
}

// lookAgain continues processes that stop themselves soon after a resume. It ends
// when no more of them can, or the task has been stopped or continued again.
func (s *stopper) lookAgain(r reactions, nth int) {
	until := linux.Clock() + reactionTime
	for pause := time.Millisecond; ; pause = min(2*pause, 10*time.Millisecond) {
		time.Sleep(pause)
		if !s.op.TryLock() {
			continue // whatever is being done to the task, it is told in a moment
		}
		goesOn := s.contReacting(r, nth)
		if goesOn && linux.Clock() >= until {
			s.reacting, goesOn = nil, false
		}
		s.op.Unlock()
		if !goesOn {
			return
		}
	}
}

// contReacting continues those of r that are stopped, and reports whether it is
// still the nth resume that the task runs since.
func (s *stopper) contReacting(r reactions, nth int) bool {
	if s.life.now() != running || s.resumes != nth {
		return false
	}
	for pid, one := range r {
		p, err := procs.Stat(pid)
		if err != nil || !r.has(p) {
			delete(r, pid)
			continue
		}
		if p.State == 'T' && one.continued < maxReactions {
			one.continued++
			linux.Signal(pid, unix.SIGCONT) // it may have just ended
		}
	}
	return len(r) > 0
}
