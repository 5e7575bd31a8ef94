package shim

import (
	"fmt"
	"os"
	"strings"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
)

// No operation lasts for ever: what CRIU, or a helper of ours, does for one must make
// progress. How long it takes in all is nobody's business; it depends on the task's
// size.

const (
	// defaultStallLimit is how long processes may do nothing that shows.
	defaultStallLimit = time.Minute
	// slowFactor is how many times as long they may compute, or wait for a device,
	// without reading or writing a byte: fsync takes its time on a slow disk.
	slowFactor = 10
)

// progress is what can be seen of the work of some processes from outside.
type progress struct {
	bytes int64         // read and written, by system calls
	who   int           // changes when one begins or ends
	cpu   time.Duration // used
	waits bool          // one is in uninterruptible sleep, for a device as a rule
}

// progressOf looks at processes. One that ends meanwhile is left out.
func progressOf(list []linux.Stat) progress {
	var p progress
	for _, st := range list {
		if linux.Dead(st.State) {
			continue
		}
		p.who += st.PID * st.PID
		p.cpu += st.User + st.System
		p.waits = p.waits || st.State == 'D'
		if n, err := procs.Transferred(st.PID); err == nil {
			p.bytes += n
		}
	}
	return p
}

// stall adds up for how long there was no progress.
type stall struct {
	limit       time.Duration
	last        progress
	still, slow time.Duration
}

// add takes in what is seen after another while and reports whether the processes
// hang. A while in which nobody looked, the machine slept say, counts no more than
// most.
func (s *stall) add(now progress, passed, most time.Duration) bool {
	passed = min(passed, most)
	moved := now.bytes != s.last.bytes || now.who != s.last.who
	if s.slow += passed; moved {
		s.slow = 0
	}
	if s.still += passed; moved || now.cpu != s.last.cpu || now.waits {
		s.still = 0
	}
	s.last = now
	return s.still >= s.limit || s.slow >= slowFactor*s.limit
}

// watch looks at an operation until stop is called. If it makes no progress, watch calls
// end once, with how long that has been so.
func watch(limit time.Duration, look func() (progress, error), end func(time.Duration)) (stop func()) {
	stopped := make(chan struct{})
	go func() {
		pause := max(limit/60, time.Millisecond)
		st := stall{limit: limit}
		for last := linux.Clock(); ; {
			select {
			case <-time.After(pause):
			case <-stopped:
				return
			}
			seen, err := look()
			if err != nil {
				continue
			}
			now := linux.Clock()
			hangs := st.add(seen, now-last, 2*pause)
			if last = now; hangs {
				end(max(st.still, st.slow).Round(100 * time.Millisecond))
				return
			}
		}
	}()
	return func() { close(stopped) }
}

// endStalled is watch for processes. It calls end with a proc.ErrStalled that names
// them.
func endStalled(limit time.Duration, list func() ([]linux.Stat, error), end func(error)) (stop func()) {
	var all []linux.Stat
	return watch(limit, func() (p progress, err error) {
		if all, err = list(); err == nil {
			p = progressOf(all)
		}
		return p, err
	}, func(d time.Duration) {
		end(fmt.Errorf("%w for %v: %s", proc.ErrStalled, d, whatOf(all)))
	})
}

// whatOf says what processes do, for people.
func whatOf(list []linux.Stat) string {
	var all []string
	for _, st := range list {
		if linux.Dead(st.State) {
			continue
		}
		text := fmt.Sprintf("process %d (%s) is in state %c", st.PID, st.Comm, st.State)
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/wchan", st.PID)); err == nil && len(b) > 1 {
			text += ", " + string(b)
		}
		if all = append(all, text); len(all) == 5 {
			break
		}
	}
	if len(all) == 0 {
		return "nothing runs"
	}
	return strings.Join(all, "; ")
}
