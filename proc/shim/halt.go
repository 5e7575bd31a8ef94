package shim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

const (
	defaultSuspendGrace = 100 * time.Millisecond
	// stopTimeout bounds the wait for threads in uninterruptible sleep.
	stopTimeout = 10 * time.Second
	// vforkRetry is how long a process in uninterruptible sleep keeps its children
	// running. Most such sleeps are over by then. A parent inside vfork waits in that
	// state for its child; if the child is stopped, it is continued for a moment.
	vforkRetry = 200 * time.Millisecond
	// vforkTurn is that moment. It doubles with each: on a busy machine the child may
	// not come to run in the first.
	vforkTurn = 10 * time.Millisecond
	// restlessLooks is after how many looks that found new processes everything is
	// stopped at once: the tree forks faster than it is looked at, level by level.
	restlessLooks = 10
	// maxUseless is how many SIGSTOPs may have no effect on one process. To go on would
	// be to hope for a look in the moments between.
	maxUseless = 20
	// runnerGrace is what our own runner of a stream's command gets in addition
	// (package stream/consumer): stopped before it has let go of its connection to
	// the daemon, the task could not be dumped. It needs milliseconds, unless the
	// machine is very busy. While it waits for a disk its grace does not begin: it
	// lets go after that, and could not be stopped before anyhow.
	runnerGrace = 2 * time.Second
	// forkToExec is the age from which on the handlers of a process are taken for its
	// own. Those of a child that a handler has just forked are its parent's: by the
	// time that a SIGTSTP arrives it may run a program that is stopped by it, and the
	// handler, which waits for it, would never end.
	forkToExec = 500 * time.Millisecond
	// levelPatience is how long one look at the tree waits for parents to stop
	// before it leaves their children to the next look.
	levelPatience = 2 * time.Millisecond
	// stopAgain is how long a SIGSTOP is given to work before it is sent again, to
	// a process that somebody has continued meanwhile.
	stopAgain = 5 * time.Millisecond
)

// halt is one stop of the tree.
//
// It goes from the root to the leaves: a process is stopped only when its parent
// stands still. A parent that waits with WUNTRACED, as su and shells with job
// control do, would otherwise be told that its child is stopped, would stop itself,
// and would count on a shell to continue both. One that is stopped itself notices
// nothing: when it goes on its wait starts again, and by then its children run
// (contEach).
//
// Processes that handle SIGTSTP get that and a grace, so that they can put external
// state in order. Everything else gets SIGSTOP at once.
type halt struct {
	processes    *processes
	init         int
	begin, grace time.Duration
	// asked and sent are when processes got SIGTSTP and SIGSTOP.
	asked, sent map[int]time.Duration
	// reading is when a runner that had been asked was last seen waiting for a disk.
	reading map[int]time.Duration
	// useless counts SIGSTOPs that processes have taken, and after which they ran again.
	useless map[int]int
	// before were stopped already when it began.
	before map[int]bool
	// traced are those that the last look found where their tracer has stopped them.
	traced []int
	// all is set when everything has got SIGSTOP.
	all bool
	// told are the processes that got a SIGCHLD ahead of those about their children.
	told map[int]bool
	// seen are the processes of all looks, and newcomers those that the last one added.
	seen      map[int]bool
	newcomers int
	// turn is the next vforkTurn, and turns are until when children have theirs.
	turn  time.Duration
	turns map[int]time.Duration
	// forced counts the processes whose grace was over before they had stopped.
	forced int
	// waiting: in the last look at the tree a process had its grace, or is to get it.
	waiting bool
	// asleep are the processes of the last look that were in uninterruptible sleep
	// and had been told to stop.
	asleep []int
	// busy names what the last look did not find stopped.
	busy string
}

// newHalt begins a stop; without a grace no SIGTSTP is sent.
func newHalt(p *processes, grace time.Duration) *halt {
	return &halt{
		processes: p, init: p.init(), begin: linux.Clock(), grace: grace,
		asked: map[int]time.Duration{}, reading: map[int]time.Duration{}, sent: map[int]time.Duration{}, useless: map[int]int{}, before: map[int]bool{}, told: map[int]bool{},
		seen: map[int]bool{}, turn: vforkTurn, turns: map[int]time.Duration{},
	}
}

// run stops everything and confirms it, unless the task is killed meanwhile. It begins
// with the given look at the tree.
func (h *halt) run(tree []linux.Stat, killed func() bool) error {
	for _, p := range tree {
		h.before[p.PID] = linux.Stopped(p.State)
	}
	deadline := h.begin + h.grace + stopTimeout
	vfork := h.begin + vforkRetry
	clean, restless := 0, 0
	for round := 0; ; round++ {
		if killed() {
			return errKilled
		}
		still, err := h.look(tree)
		if err != nil {
			return err
		}
		if still {
			// One look at /proc can miss a process that was forked meanwhile.
			if clean++; clean == 2 {
				return nil
			}
		} else {
			clean = 0
			switch {
			case h.waiting:
				restless = 0
			case round > 0 && h.newcomers > 0:
				restless++
			}
			now := linux.Clock()
			switch {
			case now >= deadline && !h.waiting:
				return fmt.Errorf("%w within %v: %s", proc.ErrNotStopped, stopTimeout, h.busy)
			case now >= vfork && len(h.asleep) > 0:
				vfork = now + h.turn + vforkRetry
				err = h.contChildren(tree)
			case restless >= restlessLooks:
				restless = 0
				err = h.stopAll(tree)
			}
			if err != nil {
				return err
			}
			time.Sleep(min(100*time.Microsecond<<min(round, 6), 5*time.Millisecond))
		}
		if tree, err = h.processes.tree(); err != nil {
			return err
		}
	}
}

// look goes through the tree once, level by level, sends what signals it can, and
// reports whether everything stood still before it sent any.
func (h *halt) look(tree []linux.Stat) (still bool, err error) {
	h.waiting, h.asleep, h.busy, h.newcomers, h.traced = false, nil, "", 0, nil
	still = true
	quiet := map[int]bool{}
	parents := map[int]bool{}
	for _, p := range tree {
		parents[p.PPID] = true
		if !h.seen[p.PID] {
			h.seen[p.PID] = true
			h.newcomers++
		}
	}
	for depth, level := range levels(tree) {
		var sent []linux.Stat
		for _, p := range level {
			stands, err := h.stands(p)
			if err != nil {
				return false, err
			}
			if stands {
				quiet[p.PID] = true
				if p.State == 't' {
					h.traced = append(h.traced, p.PID)
				}
				if err := h.tellFirst(p, parents); err != nil {
					return false, err
				}
				continue
			}
			still = false
			signalled, err := h.signal(p, depth == 0 || quiet[p.PPID])
			if err != nil {
				return false, err
			}
			if signalled {
				sent = append(sent, p)
			}
		}
		if err := h.await(sent, parents, quiet); err != nil {
			return false, err
		}
	}
	return still, nil
}

// signal sends a process what it is to get now, and reports whether that was
// SIGSTOP.
func (h *halt) signal(p linux.Stat, parentStands bool) (bool, error) {
	now := linux.Clock()
	if h.grace > 0 && p.PID != h.init && p.Catches(unix.SIGTSTP) {
		at, asked := h.asked[p.PID]
		_, parentAsked := h.asked[p.PPID]
		grace := h.grace
		if strings.HasPrefix(p.Comm, "headrace-shim") {
			grace += runnerGrace
			if asked && now < h.begin+stopTimeout {
				if err := h.noteReading(p, now); err != nil {
					return false, err
				}
				at = max(at, h.reading[p.PID])
			}
		}
		switch {
		case !asked && (parentStands || parentAsked && p.Start+forkToExec < h.begin):
			h.asked[p.PID] = now
			h.waiting = true
			return false, linux.Signal(p.PID, unix.SIGTSTP)
		case asked && now < at+grace:
			h.waiting = true
			return false, nil
		case !asked && now < h.begin+grace: // when its parent stands
			h.waiting = true
		}
	}
	if at, sent := h.sent[p.PID]; !parentStands || sent && now < at+stopAgain || now < h.turns[p.PID] {
		return sent, nil
	}
	if err := h.noteStop(p); err != nil {
		return false, err
	}
	return true, linux.Signal(p.PID, unix.SIGSTOP)
}

// stopped reports whether a process has got a signal that stops.
func (h *halt) stopped(pid int) bool {
	_, asked := h.asked[pid]
	_, sent := h.sent[pid]
	return asked || sent || h.all
}

// noteReading notes whether a process waits for a disk.
func (h *halt) noteReading(p linux.Stat, now time.Duration) error {
	err := procs.ThreadStates(p.PID, func(_ int, state byte) bool {
		if state == 'D' {
			h.reading[p.PID] = now
		}
		return state != 'D'
	})
	if linux.Gone(err) {
		return nil
	}
	return err
}

// noteStop notes that a process gets SIGSTOP now. It fails with ErrNotStopped when that
// has been of no use often enough.
func (h *halt) noteStop(p linux.Stat) error {
	_, sent := h.sent[p.PID]
	h.sent[p.PID] = linux.Clock()
	if !sent {
		if h.grace > 0 && p.PID != h.init && p.Catches(unix.SIGTSTP) {
			h.forced++
		}
		return nil
	}
	st, err := procs.Status(p.PID)
	if err != nil || st.Pending&(1<<(unix.SIGSTOP-1)) != 0 { // it has ended, or has not come to run since
		return nil
	}
	if h.useless[p.PID]++; h.useless[p.PID] <= maxUseless {
		return nil
	}
	return fmt.Errorf("%w: SIGSTOP has no effect on process %d (%s): a tracer (gdb, strace) keeps it away, or somebody continues the process",
		proc.ErrNotStopped, p.PID, p.Comm)
}

// stopAll sends SIGSTOP to everything at once, whatever the parents do.
func (h *halt) stopAll(tree []linux.Stat) error {
	for _, p := range tree {
		if stands, err := h.stands(p); err != nil {
			return err
		} else if !stands {
			if err := h.noteStop(p); err != nil {
				return err
			}
		}
	}
	h.all = true
	return h.processes.signal(unix.SIGSTOP)
}

// await waits a little for processes that have just got SIGSTOP, and notes those
// whose children may be stopped.
func (h *halt) await(sent []linux.Stat, parents, quiet map[int]bool) error {
	deadline := linux.Clock() + levelPatience
	for _, p := range sent {
		if p.PID == h.init { // waits for ends only
			quiet[p.PID] = true
			continue
		}
		for pause := 20 * time.Microsecond; ; pause *= 2 {
			now, err := procs.Stat(p.PID)
			if linux.Gone(err) {
				break
			}
			if err != nil {
				return err
			}
			stands, err := h.stands(now)
			if err != nil {
				return err
			}
			if quiet[p.PID] = stands; stands {
				if err := h.tellFirst(now, parents); err != nil {
					return err
				}
				break
			}
			if linux.Clock() >= deadline {
				break
			}
			time.Sleep(pause)
		}
		// What sleeps that deep for so long sees nothing either: with the signal
		// pending it stops before it runs again.
		if !quiet[p.PID] && slices.Contains(h.asleep, p.PID) && linux.Clock() >= h.begin+vforkRetry {
			quiet[p.PID] = parents[p.PID]
		}
	}
	return nil
}

// tellFirst sends SIGCHLD to a stopped process that will read it from a descriptor,
// as script and su --pty do, before its children are stopped: the one that says that
// a child has been stopped is then lost in it, and it will find that none is. Whoever
// has a handler gets none, because that may be ready for ends of children only.
func (h *halt) tellFirst(p linux.Stat, parents map[int]bool) error {
	if h.told[p.PID] || !parents[p.PID] || p.PID == h.init || !readsSIGCHLD(p) {
		return nil
	}
	h.told[p.PID] = true
	return linux.Signal(p.PID, unix.SIGCHLD)
}

// stands reports whether all threads of a process are stopped.
func (h *halt) stands(p linux.Stat) (bool, error) {
	if linux.Stopped(p.State) && p.Threads <= 1 {
		return true, nil
	}
	runs := false
	err := procs.ThreadStates(p.PID, func(tid int, state byte) bool {
		if linux.Stopped(state) {
			return true
		}
		runs = true
		h.busy = fmt.Sprintf("thread %d of process %d (%s) is in state %c", tid, p.PID, p.Comm, state)
		_, sent := h.sent[p.PID]
		if state == 'D' && sent && !slices.Contains(h.asleep, p.PID) {
			h.asleep = append(h.asleep, p.PID)
		}
		return state != 'D'
	})
	if err != nil && !linux.Gone(err) {
		return false, err
	}
	return !runs, nil
}

// moving lists the processes of a tree that do not stand still.
func (h *halt) moving(tree []linux.Stat) ([]linux.Stat, error) {
	var left []linux.Stat
	for _, p := range tree {
		stands, err := h.stands(p)
		if err != nil {
			return nil, err
		}
		if !stands {
			left = append(left, p)
		}
	}
	return left, nil
}

// levels orders processes by how far they are from the root. Each comes behind its
// parent in the tree.
func levels(tree []linux.Stat) [][]linux.Stat {
	depth := map[int]int{}
	var out [][]linux.Stat
	for _, p := range tree {
		d, ok := depth[p.PPID]
		if ok {
			d++
		}
		depth[p.PID] = d
		if d == len(out) {
			out = append(out, nil)
		}
		out[d] = append(out[d], p)
	}
	return out
}

// contChildren continues the children of the processes that are asleep, as far as they
// were stopped here, or by their parents' handlers, as sudo does with the whole group of its
// command. From others SIGCONT would take a SIGTSTP, if they have not run since.
func (h *halt) contChildren(tree []linux.Stat) error {
	until := linux.Clock() + h.turn
	h.turn *= 2
	for _, p := range tree {
		_, sent := h.sent[p.PID]
		if (sent || linux.Stopped(p.State) && !h.before[p.PID]) && slices.Contains(h.asleep, p.PPID) {
			h.turns[p.PID] = until
			if err := linux.Signal(p.PID, unix.SIGCONT); err != nil {
				return err
			}
		}
	}
	return nil
}
