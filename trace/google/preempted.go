package google

import (
	"time"

	"headrace"
)

// preemptionWindow is how soon after an eviction a task of higher priority has to
// come to run on the same machine for the eviction to have been a preemption
// (checkpoint-preemption, section 2, after Çavdar et al.).
const preemptionWindow = 5 * time.Second

// eviction is one that may turn out to have been a preemption.
type eviction struct {
	task     *foldTask
	at       time.Duration
	ran      time.Duration
	priority headrace.Priority
}

// evictions are the recent ones, by machine. It holds no more than happened within
// preemptionWindow, and, for each machine, the last time that a task came to run
// there.
type evictions struct {
	machines map[int64]*machineEvictions
	// preempted is told of each preemption.
	preempted func(e eviction)
}

type machineEvictions struct {
	recent []eviction
	// At lastAt the task of the highest priority that came to run had lastPriority:
	// events of one moment are in no particular order.
	lastAt       time.Duration
	lastPriority headrace.Priority
	scheduled    bool
}

func (v *evictions) machine(id int64) *machineEvictions {
	m := v.machines[id]
	if m == nil {
		m = &machineEvictions{}
		v.machines[id] = m
	}
	return m
}

// evicted remembers that a task had to leave a machine.
func (v *evictions) evicted(machine int64, e eviction) {
	m := v.machine(machine)
	if m.scheduled && m.lastAt == e.at && m.lastPriority > e.priority {
		v.preempted(e)
		return
	}
	m.drop(e.at)
	m.recent = append(m.recent, e)
}

// scheduled says that a task came to run on a machine.
func (v *evictions) scheduled(machine int64, at time.Duration, p headrace.Priority) {
	m := v.machine(machine)
	if !m.scheduled || m.lastAt != at {
		m.lastAt, m.lastPriority, m.scheduled = at, p, true
	}
	m.lastPriority = max(m.lastPriority, p)
	m.drop(at)
	rest := m.recent[:0]
	for _, e := range m.recent {
		if e.priority < p {
			v.preempted(e)
		} else {
			rest = append(rest, e)
		}
	}
	clear(m.recent[len(rest):])
	m.recent = rest
}

// drop forgets what is too long ago.
func (m *machineEvictions) drop(now time.Duration) {
	n := 0
	for n < len(m.recent) && now-m.recent[n].at > preemptionWindow {
		n++
	}
	if n > 0 {
		kept := copy(m.recent, m.recent[n:])
		clear(m.recent[kept:])
		m.recent = m.recent[:kept]
	}
}
