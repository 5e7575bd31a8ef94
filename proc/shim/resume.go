package shim

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

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

// cont is resume for callers that hold op and have checked the phase.
func (s *supervisor) cont() error {
	tree, err := s.tree()
	if err != nil {
		return err
	}
	s.mu.Lock()
	own := s.selfStopped
	s.mu.Unlock()
	reacting := mayReact(tree, own)
	s.mu.Lock()
	s.phase, s.selfStopped, s.reacting = running, nil, reacting
	s.resumes++
	nth := s.resumes
	s.acct.resumed()
	s.mu.Unlock()
	s.lifeline.again()
	s.unlock()
	if err := contEach(tree, own); err != nil {
		return err
	}
	if reacting != nil {
		go s.lookAgain(reacting, nth)
	}
	return nil
}

// contAllBut continues every process but those that the task had stopped itself.
func (s *supervisor) contAllBut(own map[int]bool) error {
	tree, err := s.tree()
	if err != nil {
		return err
	}
	return contEach(tree, own)
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
func (s *supervisor) lookAgain(r reactions, nth int) {
	until := linux.Clock() + reactionTime
	for pause := time.Millisecond; linux.Clock() < until; pause = min(2*pause, 10*time.Millisecond) {
		time.Sleep(pause)
		if !s.op.TryLock() {
			continue // whatever is being done to the task, it is told in a moment
		}
		goesOn := s.contReacting(r, nth)
		s.op.Unlock()
		if !goesOn {
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase == running && s.resumes == nth {
		s.reacting = nil
	}
}

// contReacting continues those of r that are stopped, and reports whether it is
// still the nth resume that the task runs since. The caller holds op.
func (s *supervisor) contReacting(r reactions, nth int) bool {
	s.mu.Lock()
	goesOn := s.phase == running && s.resumes == nth
	s.mu.Unlock()
	if !goesOn {
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
