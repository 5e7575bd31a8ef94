package solo

import (
	"fmt"
	"strings"

	"headrace"
	"headrace/internal/linux/cgroup"
	"headrace/proc"
)

// openCgroups lets each task have a cgroup of its own, as far as the daemon may.
// What cannot be had is said once. Without
// any the Base is nil: tasks go on without limits, and by signals alone.
func openCgroups(l *loop, rt *proc.Runtime) (*cgroup.Base, error) {
	base, err := cgroup.Open(l.cfg.StateDir)
	if l.cfg.EnforceMemory {
		if base == nil {
			return nil, fmt.Errorf("enforce the memory budget: %w; run the daemon as root or without --enforce-memory", err)
		}
		if lerr := base.LimitMemory(l.cfg.Memory); lerr != nil {
			base.Close()
			return nil, fmt.Errorf("enforce the memory budget: %w; leave out --enforce-memory", lerr)
		}
	}
	if base != nil && !l.cfg.EnforceMemory {
		base.LimitMemory(0) // an earlier daemon may have set one; without a memory cgroup there is none
	}
	if err != nil {
		l.log.Warn("limits, accounting and the lock of suspended tasks are not complete; see headrace doctor", "err", err)
	}
	rt.Problem = l.cgroupMade
	if base == nil {
		return nil, nil
	}
	l.sweepRest = func() { l.sweepCgroups(base) }
	rt.Cgroups, rt.MemoryFirst = base, l.cfg.EnforceMemory
	return base, nil
}

// cgroupMade takes in what could not be had of a task's cgroup; nil: all was. It may
// be called from anywhere.
func (l *loop) cgroupMade(id headrace.TaskID, err error) {
	text := ""
	if err != nil {
		text = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	l.post(func() {
		t := l.tasks.all[id]
		if t == nil || t.rec.NoLimits == text {
			return
		}
		if err != nil {
			l.warn("limits", "limits of a task do not all hold", "id", id, "err", err)
		}
		t.rec.NoLimits = text
		l.touch(t)
	})
}

// sweepCgroups ends and removes what earlier daemons have left of tasks that are not
// in the queue and have no supervisor, and what others have left of themselves. It is called when the queue has
// been read.
func (l *loop) sweepCgroups(base *cgroup.Base) {
	base.Sweep()
	dirs, err := l.tasksWithDirs()
	if err == nil {
		err = base.Remains(func(name string) bool { return !l.sweepable(name, dirs, base.Find(name).Count()) })
	}
	if err != nil {
		l.log.Warn("what earlier tasks have left in cgroups stays", "err", err)
	}
}
