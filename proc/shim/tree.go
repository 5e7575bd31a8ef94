package shim

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// procs reads the /proc that shows this process's own pid namespace.
var procs linux.ProcFS

// processes are all that is below the supervisor: the task's, which are init and what
// is below it, and those that work on the task. The former are in a cgroup.
type processes struct {
	isolated bool // the supervisor is pid 1 of a pid namespace of its own
	reaper   *reaper
	group    group
	// root is init's pid, 0 without; helpers the process group of a running helper.
	root, helpers atomic.Int64
}

// init returns the pid of the root of the task's processes; 0: there is none.
func (p *processes) init() int { return int(p.root.Load()) }

// tree lists the task's processes: the descendants of the supervisor that are
// not its helpers, zombies included.
func (p *processes) tree() ([]linux.Stat, error) {
	helpers := int(p.helpers.Load())
	return descendants(os.Getpid(), func(p linux.Stat) bool {
		return helpers != 0 && (p.PGID == helpers || p.PID == helpers)
	})
}

// everything lists all processes below the supervisor.
func (p *processes) everything() ([]linux.Stat, error) {
	return descendants(os.Getpid(), func(linux.Stat) bool { return false })
}

// workers lists the processes that work on the task: those below the supervisor that
// are not below its root. CRIU's children may be in any process group or session, and
// children of the supervisor when CRIU has died.
func (p *processes) workers() ([]linux.Stat, error) {
	root := p.init()
	return descendants(os.Getpid(), func(p linux.Stat) bool { return p.PID == root })
}

// descendants lists the processes below one, parents first, without those that
// skip names and what is below them.
func descendants(of int, skip func(linux.Stat) bool) ([]linux.Stat, error) {
	all, err := procs.All()
	if err != nil {
		return nil, err
	}
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
	return out, nil
}

// signal sends a signal to every process of the task. In a pid namespace of
// its own that is one atomic step, which no fork can slip through.
func (p *processes) signal(sig syscall.Signal) error {
	var all error
	if p.isolated { // before the cgroup: what CRIU holds must not run when that is gone
		all = unix.Kill(-1, sig)
	}
	if sig == unix.SIGKILL {
		p.group.unlock()
		if err := p.group.is().Kill(); err != nil {
			fmt.Fprintf(os.Stderr, "kill the task's cgroup: %v\n", err) // then one by one
		}
	}
	if p.isolated {
		if all != nil && all != unix.ESRCH {
			return fmt.Errorf("signal %s to all: %w", unix.SignalName(sig), all)
		}
		return nil
	}
	tree, err := p.tree()
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

// heldPatience is how long after SIGKILL is waited for what has ended and is not off the
// list of processes.
const heldPatience = time.Second

// end ends what is left of the task's processes, without mercy after the grace, and
// waits until everything is reaped, but for what a tracer outside of the task keeps from
// that although it has ended. That goes when the tracer lets it.
func (p *processes) end(grace time.Duration) {
	deadline := linux.Clock() + grace
	asked := false
	for pause := 200 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		tree, err := p.tree()
		if err == nil && (len(tree) == 0 || linux.Clock() >= deadline+heldPatience && allEnded(tree)) {
			p.reaper.settle() // what the last of them have used counts as well
			return
		}
		switch {
		case linux.Clock() >= deadline:
			p.signal(unix.SIGKILL)
		case !asked:
			p.signal(unix.SIGTERM)
			p.group.unlock()
			p.signal(unix.SIGCONT)
			asked = true
		}
		time.Sleep(pause)
	}
}

// allEnded reports whether no thread of them will ever run again.
func allEnded(tree []linux.Stat) bool {
	return !slices.ContainsFunc(tree, func(p linux.Stat) bool { return !p.Ended() })
}

// endWorkers returns when no process works on the task any more, so that none is taken
// for the task's. They get the patience to end by themselves, in a kill another one.
func (p *processes) endWorkers(patience, inKillPatience time.Duration, inKill func() bool) {
	begun := linux.Clock()
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 5*time.Millisecond) {
		left, err := p.workers()
		if err == nil && len(left) == 0 {
			return
		}
		if waited := linux.Clock() - begun; waited >= patience || inKill() && waited >= inKillPatience {
			for _, p := range left {
				linux.Signal(p.PID, unix.SIGKILL)
			}
		}
		time.Sleep(pause)
	}
}

// contWorkers continues those that are stopped.
func (p *processes) contWorkers() {
	list, err := p.workers()
	for _, p := range list {
		if err == nil && linux.Stopped(p.State) {
			linux.Signal(p.PID, unix.SIGCONT)
		}
	}
}

// memoryUse is one process and its memory.
type memoryUse struct {
	linux.Stat
	status linux.Status
}

// memory lists the live processes of the task with their memory, the largest
// first.
func (p *processes) memory() ([]memoryUse, error) {
	tree, err := p.tree()
	var out []memoryUse
	for _, p := range tree {
		if p.Ended() {
			continue
		}
		if st, err := procs.Status(procs.Living(p)); err == nil { // else it has just ended
			out = append(out, memoryUse{p, st})
		}
	}
	slices.SortStableFunc(out, func(a, b memoryUse) int { return cmp.Compare(b.status.RSSAnon, a.status.RSSAnon) })
	return out, err
}
