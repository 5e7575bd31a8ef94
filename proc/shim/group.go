package shim

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/proc"
)

// joinPatience bounds the wait for processes to be in the task's cgroup. Where
// nothing has changed lately the kernel waits for all processors before it moves a
// process: 5 to 40 ms were measured.
const joinPatience = 2 * time.Second

// forkPatience is how long a task that forks is moved while it runs.
const forkPatience = 500 * time.Millisecond

// group is the task's own cgroup: whether its processes are in it, and frozen there.
type group struct {
	own    atomic.Pointer[cgroup.Group]
	frozen atomic.Bool
	// joined is closed when they are in it; nil: nobody moves them. It is for whoever
	// holds op.
	joined <-chan struct{}
	// common is what processes have in common, where no cgroup counts it.
	common sharing
	// outside is of what of it the processes are not.
	outside outside
}

// outside are directories of a cgroup in which a task is not, each with why that is so. It is
// safe for concurrent use.
type outside struct {
	mu  sync.Mutex
	all []string
}

// reset begins anew: a task is started or restored.
func (o *outside) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = nil
}

func (o *outside) add(dir, why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, fmt.Sprintf("it is not in its cgroup %s: %s", dir, why))
	fmt.Fprintf(os.Stderr, "the task goes on without its cgroup %s: %s\n", dir, why)
}

func (o *outside) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.all, "; ")
}

// sharing is which part of the memory that processes have, each counted by itself, there
// is when what they share is counted once. It is safe for concurrent use.
type sharing struct {
	mu                sync.Mutex
	next              time.Time // when it is to be measured again
	resident, swapped float64
}

// sharingCost bounds the time that measuring takes, as a part of all time: the kernel
// looks at each page.
const sharingCost = 0.02

// apply returns the memory of processes with what they share counted once. With one
// process beside init there is nothing to measure.
func (s *sharing) apply(use []memoryUse) (resident, swapped int64) {
	for _, u := range use {
		resident += u.status.RSSAnon + u.status.RSSShmem
		swapped += u.status.Swap
	}
	if len(use) <= 2 {
		return resident, swapped
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if begin := time.Now(); begin.After(s.next) {
		s.measure(use, resident, swapped)
		now := time.Now()
		s.next = now.Add(time.Duration(float64(now.Sub(begin)) / sharingCost))
	}
	return int64(s.resident * float64(resident)), int64(s.swapped * float64(swapped))
}

// measure finds out both parts; resident and swapped are the sums of all processes.
func (s *sharing) measure(use []memoryUse, resident, swapped int64) {
	var in, out int64
	for _, u := range use {
		r, w, err := procs.ProportionalMemory(u.PID)
		if err != nil { // it has ended, or may not be looked at
			r, w = u.status.RSSAnon+u.status.RSSShmem, u.status.Swap
		}
		in += r
		out += w
	}
	part := func(once, sum int64) float64 { return min(1, float64(once)/float64(max(1, sum))) }
	s.resident, s.swapped = part(in, resident), part(out, swapped)
}

// is returns its directories.
func (g *group) is() (own cgroup.Group) {
	if p := g.own.Load(); p != nil {
		own = *p
	}
	return own
}

// awaitJoined returns when the task is in its cgroup.
func (g *group) awaitJoined() {
	if g.joined == nil {
		return
	}
	select {
	case <-g.joined:
	case <-time.After(joinPatience):
	}
}

// lock freezes a stopped task, where that is possible: then it does not run although somebody continues it.
func (g *group) lock() {
	g.awaitJoined()
	frozen, err := g.is().Freeze()
	if err != nil {
		fmt.Fprintf(os.Stderr, "freeze the stopped task: %v\n", err)
	}
	g.frozen.Store(frozen && err == nil)
}

// freezeLimit bounds the wait for everything in the cgroup to be frozen.
const freezeLimit = time.Second

// hold is lock for a task on which SIGSTOP has no effect, and reports whether nothing of
// it runs any more. What is in uninterruptible sleep cannot be frozen either.
func (g *group) hold() bool {
	g.lock()
	for begin := time.Now(); g.frozen.Load(); time.Sleep(time.Millisecond) {
		if frozen, err := g.is().Frozen(); err == nil && frozen {
			return true
		}
		if time.Since(begin) > freezeLimit {
			g.unlock()
		}
	}
	return false
}

// unlock is the end of lock, before signals are to have an effect.
func (g *group) unlock() {
	if !g.frozen.Swap(false) {
		return
	}
	if err := g.is().Thaw(); err != nil {
		fmt.Fprintf(os.Stderr, "thaw the task: %v\n", err)
	}
}

// resident returns the task's memory and what of it is swapped, by its memory cgroup, or
// without one by the share of each process in what they have in common.
func (g *group) resident(use []memoryUse) (resident, swapped int64) {
	counted, ok := g.is().Use()
	if !ok {
		return g.common.apply(use)
	}
	// The greatest process bounds it from below: what was allocated before it was in the
	// cgroup is not counted there.
	for _, u := range use {
		resident = max(resident, u.status.RSSAnon+u.status.RSSShmem)
		swapped += u.status.Swap
	}
	if counted.Swapped >= 0 {
		swapped = counted.Swapped
	}
	return max(resident, counted.Resident), swapped
}

// startIn starts init in the task's cgroup, as far as that takes no time: where it
// is of version 2. The rest is joined in the background, while the command starts.
// What it has allocated by then stays with the cgroup of the daemon.
func (p *processes) startIn(own cgroup.Group, self string, argv []string, attr *syscall.ProcAttr) error {
	pid, err := p.startUnified(own.Unified(), self, argv, attr)
	if err != nil {
		pid, err = p.reaper.startUnwatched(self, argv, attr)
	}
	if err == nil {
		p.root.Store(int64(pid))
		p.group.own.Store(&own)
	}
	return err
}

func (p *processes) startUnified(dir, self string, argv []string, attr *syscall.ProcAttr) (int, error) {
	d, err := os.Open(dir)
	if err != nil {
		return 0, err
	}
	defer d.Close()
	in, sys := *attr, *attr.Sys
	sys.UseCgroupFD, sys.CgroupFD = true, int(d.Fd())
	in.Sys = &sys
	return p.reaper.startUnwatched(self, argv, &in)
}

// joinInBackground moves the task's processes into its cgroup. started is closed when
// the start is over.
func (t *task) joinInBackground(started <-chan struct{}) {
	joined := make(chan struct{})
	t.processes.group.joined = joined
	t.processes.group.outside.reset()
	g := t.processes.group.is()
	join := func(dir string, butInit bool) {
		err := t.processes.join(dir, butInit, forkPatience)
		if errors.Is(err, errForks) && t.processes.isolated {
			err = t.joinStopped(dir, butInit)
		}
		if err != nil {
			t.processes.group.outside.add(dir, err.Error())
		}
	}
	go func() {
		defer close(joined)
		for _, dir := range g.Dirs() {
			if dir != g.PIDs || !g.SeparatePIDs() {
				join(dir, false)
			}
		}
		if g.SeparatePIDs() {
			select { // until then there is only init
			case <-started:
			case <-time.After(startPatience): // or what waits for the user's files
			}
			join(g.PIDs, true)
		}
	}()
}

// joinStopped is join for a task that forks faster than it can be moved: its limits would not
// hold for what is outside. It is stopped meanwhile, which no fork slips through.
func (t *task) joinStopped(dir string, butInit bool) error {
	t.op.Lock()
	defer t.op.Unlock()
	if t.life.now() == running {
		tree, err := t.processes.tree()
		if err != nil {
			return err
		}
		own := t.stops.ownStops(tree)
		if err := t.processes.signal(unix.SIGSTOP); err != nil {
			return err
		}
		defer t.stops.contAllBut(own)
	}
	return t.processes.join(dir, butInit, joinPatience)
}

// errForks: new processes are outside of the cgroup, however often those that there are are moved.
var errForks = errors.New("it forks faster than it can be moved")

// join moves everything of the task into one directory, maybe but init. A process
// that is moved has its later children there.
func (p *processes) join(dir string, butInit bool, patience time.Duration) error {
	// A first thread that has ended before others stays where it was, and its process is listed there.
	moved := make(map[int]bool)
	for begin := time.Now(); ; {
		tree, err := p.tree()
		if err != nil {
			return err
		}
		in, err := cgroup.Members(dir)
		if err != nil {
			return err
		}
		outside := 0
		for _, one := range tree {
			if slices.Contains(in, one.PID) || moved[one.PID] || one.Ended() || butInit && one.PID == p.init() {
				continue
			}
			outside++
			if err := cgroup.Add(dir, one.PID); err != nil {
				return err
			}
			moved[one.PID] = linux.Dead(one.State)
		}
		if outside == 0 {
			return nil
		}
		if time.Since(begin) > patience {
			return errForks
		}
	}
}

// leavePIDs moves init out of where processes are counted, after a restore.
func (p *processes) leavePIDs() {
	g := p.group.is()
	if !g.SeparatePIDs() {
		return
	}
	if err := cgroup.Add(filepath.Dir(g.PIDs), p.init()); err != nil {
		fmt.Fprintf(os.Stderr, "take init out of the limit of processes: %v\n", err)
	}
}

// withoutMissing returns the spec without directories of the task's own cgroup that are
// not there, or not seen here: the task is restored outside them.
func (g *group) withoutMissing(spec proc.Spec) proc.Spec {
	g.outside.reset()
	present := spec.Own.Present()
	for _, dir := range spec.Own.Dirs() {
		if slices.Contains(present.Dirs(), dir) {
			continue
		}
		g.outside.add(dir, "it was removed")
		spec.Cgroups = slices.DeleteFunc(slices.Clone(spec.Cgroups), func(d string) bool { return d == dir })
	}
	spec.Own = present
	return spec
}
