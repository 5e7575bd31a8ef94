package inspect

import (
	"os"
	"strconv"
	"strings"

	"headrace/internal/linux"
)

// lostLock returns a process with a POSIX lock that could not be had to take it again. A restore loses such locks on files that
// the process has mapped (package supplement); it is not looked which those are.
//
// The list of locks is read only if there is such a process: for that the kernel waits until all processors have passed a
// quiet point (an RCU grace period), 10 to 20 ms in which the task stands still.
func lostLock(tree []linux.Stat) (*Loss, error) {
	deaf := map[int]error{} // those that cannot be had to; nil, or why it is not known
	for _, p := range tree {
		if linux.Dead(p.State) {
			continue
		}
		can, err := linux.CanCallAs(p.PID)
		if linux.Gone(err) {
			continue // it has just ended
		}
		if !can {
			deaf[p.PID] = err
		}
	}
	if len(deaf) == 0 {
		return nil, nil
	}
	text, err := os.ReadFile("/proc/locks")
	if linux.Gone(err) { // a kernel without locks
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	holders := lockHolders(string(text))
	for _, p := range tree {
		switch err, is := deaf[p.PID]; {
		case !is || !holders[p.PID]:
		case err != nil:
			return nil, err
		default:
			return &Loss{PID: p.PID, Comm: p.Comm, Passing: true, Has: "a POSIX lock (fcntl), which a restore could lose, since its program is one of 32 bits, " +
				"or has unmapped the kernel's vdso; try again when it has no lock"}, nil
		}
	}
	return nil, nil
}

// lockHolders reads /proc/locks: the processes that have POSIX locks.
func lockHolders(text string) map[int]bool {
	holders := map[int]bool{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line) // of one that waits the second is an arrow
		if len(f) > 4 && f[1] == "POSIX" {
			if pid, err := strconv.Atoi(f[4]); err == nil {
				holders[pid] = true
			}
		}
	}
	return holders
}
