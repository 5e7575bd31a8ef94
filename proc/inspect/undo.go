package inspect

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// What a process does to System V semaphores with SEM_UNDO the kernel undoes when it ends. A checkpoint ends it, and CRIU does
// not know of it. The kernel tells nobody what is to be undone. It tells, with kcmp(2), whether a thread has the list of that, which
// it has from its first such operation on, for good, and each thread of a program that has several from the start. And it tells when
// each set of semaphores was last used. So what may be undone is refused, though it may be nothing.

// undoMargin is by how much the clock of the time of day may have been set since a task began. The kernel has the use of
// semaphores by no other clock.
const undoMargin = 24 * time.Hour

// usedSemaphores returns the sets of semaphores that the processes may have used, as they were used since the first of them began.
func usedSemaphores(tree []linux.Stat) ([]string, error) {
	text, err := os.ReadFile("/proc/sysvipc/sem")
	if linux.Gone(err) { // a kernel without them
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	age := undoMargin
	for _, p := range tree {
		age = max(age, linux.Clock()-p.Start+undoMargin)
	}
	return semaphoresSince(string(text), time.Now().Add(-age).Unix())
}

// semaphoresSince reads /proc/sysvipc/sem. since is in seconds of the time of day.
func semaphoresSince(text string, since int64) (ids []string, err error) {
	_, sets, _ := strings.Cut(text, "\n") // the names of the columns
	for sc := bufio.NewScanner(strings.NewReader(sets)); sc.Scan(); {
		f := strings.Fields(sc.Text())
		if len(f) < 10 {
			return nil, fmt.Errorf("/proc/sysvipc/sem: %q has not 10 fields", sc.Text())
		}
		used, err := strconv.ParseInt(f[8], 10, 64) // 0: never
		if err != nil {
			return nil, fmt.Errorf("/proc/sysvipc/sem: %w", err)
		}
		if used != 0 && used >= since {
			ids = append(ids, f[1])
		}
	}
	return ids, nil
}

// undoneAtEnd returns the first process that may have used the semaphores with SEM_UNDO. The root is Headrace's own, which uses none.
func undoneAtEnd(tree []linux.Stat, root int, semaphores []string) (*Loss, error) {
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
				"Used since it began: %s; remove those that nobody needs (ipcrm -s)", strings.Join(semaphores, ", "))}, nil
		}
	}
	return nil, nil
}
