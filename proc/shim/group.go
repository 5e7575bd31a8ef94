package shim

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux/cgroup"
	"headrace/proc"
)

// joinPatience bounds the wait for processes to be in the task's cgroup. Where
// nothing has changed lately the kernel waits for all processors before it moves a
// process: 5 to 40 ms were measured.
const joinPatience = 2 * time.Second

// startIn starts init in the task's cgroup, as far as that takes no time: where it
// is of version 2. The rest is joined in the background, while the command starts.
// What it has allocated by then stays with the cgroup of the daemon.
func (s *supervisor) startIn(g cgroup.Group, self string, argv []string, attr *syscall.ProcAttr) (int, error) {
	if dir := g.Unified(); dir != "" {
		if d, err := os.Open(dir); err == nil {
			defer d.Close()
			in := *attr
			sys := *attr.Sys
			sys.UseCgroupFD, sys.CgroupFD = true, int(d.Fd())
			in.Sys = &sys
			if pid, err := s.reaper.startUnwatched(self, argv, &in); err == nil {
				return pid, nil
			}
		}
	}
	return s.reaper.startUnwatched(self, argv, attr)
}

// joinInBackground moves the task's processes into its cgroup. The caller holds mu.
func (s *supervisor) joinInBackground(g cgroup.Group) {
	joined := make(chan struct{})
	s.joined = joined
	started := s.startRead
	join := func(dir string, butInit bool) {
		if err := s.join(dir, butInit); err != nil {
			fmt.Fprintf(os.Stderr, "put the task in its cgroup: %v\n", err)
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
			<-started // until then there is only init
			join(g.PIDs, true)
		}
	}()
}

// join moves everything of the task into one directory, maybe but init. A process
// that is moved has its later children there.
func (s *supervisor) join(dir string, butInit bool) error {
	s.mu.Lock()
	init := s.initPID
	s.mu.Unlock()
	for begin := time.Now(); time.Since(begin) < joinPatience; {
		tree, err := s.tree()
		if err != nil {
			return err
		}
		in, err := cgroup.Members(dir)
		if err != nil {
			return err
		}
		outside := 0
		for _, p := range tree {
			if slices.Contains(in, p.PID) || p.State == 'Z' || butInit && p.PID == init {
				continue
			}
			outside++
			if err := cgroup.Add(dir, p.PID); err != nil {
				return err
			}
		}
		if outside == 0 {
			return nil
		}
	}
	return fmt.Errorf("%s: it forks faster than it can be moved", dir)
}

// withoutMissing is the spec without directories of the task's own cgroup that are
// not there, or not seen here: the task goes on outside them.
func withoutMissing(spec proc.Spec) proc.Spec {
	present := spec.Own.Present()
	for _, dir := range spec.Own.Dirs() {
		if slices.Contains(present.Dirs(), dir) {
			continue
		}
		fmt.Fprintf(os.Stderr, "the task goes on without its cgroup %s: it was removed\n", dir)
		spec.Cgroups = slices.DeleteFunc(slices.Clone(spec.Cgroups), func(d string) bool { return d == dir })
	}
	spec.Own = present
	return spec
}

// leavePIDs moves init out of where processes are counted, after a restore.
func (s *supervisor) leavePIDs() {
	s.mu.Lock()
	g, init := s.spec.Own, s.initPID
	s.mu.Unlock()
	if !g.SeparatePIDs() {
		return
	}
	if err := cgroup.Add(filepath.Dir(g.PIDs), init); err != nil {
		fmt.Fprintf(os.Stderr, "take init out of the limit of processes: %v\n", err)
	}
}

// awaitJoined returns when the task is in its cgroup.
func (s *supervisor) awaitJoined() {
	s.mu.Lock()
	joined := s.joined
	s.mu.Unlock()
	if joined == nil {
		return
	}
	select {
	case <-joined:
	case <-time.After(joinPatience):
	}
}

// group is the task's own cgroup.
func (s *supervisor) group() cgroup.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spec.Own
}

// lock keeps a stopped task from running although somebody, its user say, continues
// it. Without a freezer the next stats stop it again (stopAgainIfContinued).
func (s *supervisor) lock() {
	s.awaitJoined()
	locked, err := s.group().Freeze()
	if err != nil {
		fmt.Fprintf(os.Stderr, "freeze the stopped task: %v\n", err)
	}
	s.mu.Lock()
	s.locked = locked && err == nil
	s.mu.Unlock()
}

// unlock is the end of lock, before signals are to have an effect.
func (s *supervisor) unlock() {
	s.mu.Lock()
	g, locked := s.spec.Own, s.locked
	s.locked = false
	s.mu.Unlock()
	if !locked {
		return
	}
	if err := g.Thaw(); err != nil {
		fmt.Fprintf(os.Stderr, "thaw the task: %v\n", err)
	}
}

// unlockStopped is unlock for a task that is to stay stopped: what somebody has
// continued meanwhile is stopped before it runs.
func (s *supervisor) unlockStopped() error {
	tree, err := s.tree()
	if err != nil {
		return err
	}
	left, err := newHalt(s, 0).moving(tree)
	if err != nil {
		return err
	}
	for _, p := range left {
		unix.Kill(p.PID, unix.SIGSTOP) // it may have just ended
	}
	s.unlock()
	return nil
}

// stopAgainIfContinued stops a suspended task again that somebody has continued,
// and counts how often that was so. It does nothing while an operation is under way.
func (s *supervisor) stopAgainIfContinued() {
	if !s.op.TryLock() {
		return
	}
	defer s.op.Unlock()
	s.mu.Lock()
	due := s.phase == stopped && !s.locked
	s.mu.Unlock()
	if !due {
		return
	}
	tree, err := s.tree()
	if err != nil {
		return
	}
	h := newHalt(s, 0)
	if left, err := h.moving(tree); err == nil && len(left) == 0 {
		return
	}
	if err := h.run(tree); err != nil {
		fmt.Fprintf(os.Stderr, "stop a suspended task again: %v\n", err)
		return
	}
	s.mu.Lock()
	s.continued++
	s.mu.Unlock()
}

// resident is the task's memory and what of it is swapped, by its cgroup, or without
// one by the share of each process in what they have in common. least is the
// greatest process: what was allocated before it was in the cgroup is not counted
// there.
func (s *supervisor) resident(use []memoryUse) (resident, swapped int64) {
	var least int64
	for _, u := range use {
		least = max(least, u.status.RSSAnon+u.status.RSSShmem)
		swapped += u.status.Swap
	}
	if g, ok := s.group().Use(); ok {
		if g.Swapped >= 0 {
			swapped = g.Swapped
		}
		return max(g.Resident, least), swapped
	}
	for _, u := range use {
		pss, err := procs.ProportionalRSS(u.pid)
		if err != nil { // it may not be looked at
			pss = u.status.Resident()
		}
		resident += pss
	}
	return resident, swapped
}

// outOfMemory reports whether the kernel has ended a process of the task for lack
// of memory.
func outOfMemory(spec proc.Spec) bool { return spec.Own.OOMKills() > 0 }
