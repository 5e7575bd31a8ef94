package shim

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// maxUseless is how many SIGSTOPs may have no effect on one process.
const maxUseless = 20

// useless counts SIGSTOPs of a halt that a process has taken and after which it ran
// again: a tracer keeps them away, or somebody continues it. To go on would be to hope
// for a look in the moments between.
type useless struct {
	*halt
	counted map[int]time.Duration // when those that have been counted were sent
	times   map[int]int
	pid     int // of the process that has had enough of them
}

func newUseless(h *halt) *useless {
	return &useless{halt: h, counted: map[int]time.Duration{}, times: map[int]int{}}
}

// enough reports whether it is of no use to go on.
func (u *useless) enough() bool {
	for pid, at := range u.sent {
		switch last, known := u.counted[pid]; {
		case last == at:
			continue
		case !known: // the first, which mostly has its effect
			u.counted[pid] = at
			continue
		}
		st, err := procs.Status(pid)
		if err != nil || st.Pending&(1<<(unix.SIGSTOP-1)) != 0 { // it has ended, or has not come to run since
			continue
		}
		u.counted[pid] = at
		if u.times[pid]++; u.times[pid] > maxUseless {
			u.pid = pid
			return true
		}
	}
	return false
}

// err says so.
func (u *useless) err() error {
	name := ""
	if p, err := procs.Stat(u.pid); err == nil {
		name = " (" + p.Comm + ")"
	}
	return fmt.Errorf("%w: SIGSTOP has no effect on process %d%s: a tracer (gdb, strace) keeps it away, or somebody continues the process", proc.ErrNotStopped, u.pid, name)
}
