package inspect

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// What a process does to System V semaphores with SEM_UNDO the kernel undoes when it ends. A checkpoint ends it, and CRIU does
// not know of it. The kernel tells nobody what is to be undone. It tells, with kcmp(2), whether a thread has the list of that, which
// it has from its first such operation on, for good, and each thread of a program that has several from the start. And it tells whose
// a set of semaphores is, when it was last used, and who was the last to use each of them. So what may be undone is refused, though it may be nothing: a
// set of the task's user, or one that the task was the last to use. Other users' do not count otherwise, or anybody's would keep
// all programs with threads from being checkpointed.

// undoMargin is by how much the clock of the time of day may have been set since a task began. The kernel has the use of
// semaphores by no other clock.
const undoMargin = 24 * time.Hour

// A semaphores is a set of them.
type semaphores struct {
	id, count      int
	owner, creator uint32
	used           int64 // when it was last, in seconds of the time of day; 0: never
}

// usedSemaphores returns the sets of semaphores that the processes of a user may have used, as they were used since the first of them began.
func usedSemaphores(tree []linux.Stat, user uint32) (ids []int, err error) {
	text, err := os.ReadFile("/proc/sysvipc/sem")
	if linux.Gone(err) { // a kernel without them
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	sets, err := parseSemaphores(string(text))
	if err != nil {
		return nil, err
	}
	age, pids := undoMargin, map[int]bool{}
	for _, p := range tree {
		age = max(age, linux.Clock()-p.Start+undoMargin)
		pids[p.PID] = true
	}
	since := time.Now().Add(-age).Unix()
	for _, s := range sets {
		if s.used != 0 && s.used >= since && (s.owner == user || s.creator == user || s.lastUsedBy(pids)) {
			ids = append(ids, s.id)
		}
	}
	return ids, nil
}

// lastUsedBy reports whether one of the processes was the last to use one of the semaphores, as far as the caller may ask.
func (s semaphores) lastUsedBy(pids map[int]bool) bool {
	const getPID = 11
	for i := range s.count {
		if pid, _, e := unix.Syscall6(unix.SYS_SEMCTL, uintptr(s.id), uintptr(i), getPID, 0, 0, 0); e == 0 && pids[int(pid)] {
			return true
		}
	}
	return false
}

// parseSemaphores reads /proc/sysvipc/sem.
func parseSemaphores(text string) (sets []semaphores, err error) {
	_, lines, _ := strings.Cut(text, "\n") // the names of the columns
	for line := range strings.Lines(lines) {
		var s semaphores
		var key, mode int64
		var group, creators uint32
		if _, err := fmt.Sscan(line, &key, &s.id, &mode, &s.count, &s.owner, &group, &s.creator, &creators, &s.used); err != nil {
			return nil, fmt.Errorf("/proc/sysvipc/sem: %q: %w", line, err)
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// undoneAtEnd returns the first process that may have used the semaphores with SEM_UNDO. The root is Headrace's own, which uses none.
func undoneAtEnd(tree []linux.Stat, root int, semaphores []int) (*Loss, error) {
	if len(semaphores) == 0 {
		return nil, nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Unshare(unix.CLONE_SYSVSEM); err != nil { // Go's threads share a list; this one has none now
		return nil, fmt.Errorf("have a thread without semaphores to be undone: %w", err)
	}
	own := uintptr(unix.Gettid())
	for _, p := range tree {
		if p.PID == root {
			continue
		}
		has, failed := false, error(nil)
		err := procs.ThreadStates(p.PID, func(tid int, state byte) bool {
			if linux.Dead(state) { // it is undone
				return true
			}
			const sysvsem = 6 // KCMP_SYSVSEM
			order, _, e := unix.Syscall6(unix.SYS_KCMP, own, uintptr(tid), sysvsem, 0, 0, 0)
			if e != 0 && e != unix.ESRCH {
				failed = fmt.Errorf("ask whether process %d (%s) has semaphores to be undone: %w", p.PID, p.Comm, e)
			}
			has = e == 0 && order != 0
			return !has && failed == nil
		})
		if failed != nil {
			return nil, failed
		}
		if err != nil && !linux.Gone(err) {
			return nil, err
		}
		if has {
			slices.Sort(semaphores)
			return &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: fmt.Sprintf("System V semaphores to be undone at its end (SEM_UNDO), or may have; a checkpoint would undo them. "+
				"Used since it began: %v; remove those that nobody needs (ipcrm -s)", semaphores)}, nil
		}
	}
	return nil, nil
}
