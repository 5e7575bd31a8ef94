package google

import "time"

// preemptionWindow is how soon after an eviction a task of higher priority has to
// come to run on the same machine for the eviction to have been a preemption
// (checkpoint-preemption, section 2, after Çavdar et al.).
const preemptionWindow = 5 * time.Second

// eviction is one that may turn out to have been a preemption.
type eviction struct {
	task *foldTask
	at   time.Duration
	ran  time.Duration
	rank int64 // Event.rank
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
	// At lastAt the task of the highest rank that came to run had lastRank:
	// events of one moment are in no particular order.
	lastAt    time.Duration
	lastRank  int64
	scheduled bool
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
	if m.scheduled && m.lastAt == e.at && m.lastRank > e.rank {
		v.preempted(e)
		return
	}
	m.drop(e.at)
	m.recent = append(m.recent, e)
}

// scheduled says that a task came to run on a machine.
func (v *evictions) scheduled(machine int64, at time.Duration, rank int64) {
	m := v.machine(machine)
	if !m.scheduled || m.lastAt != at {
		m.lastAt, m.lastRank, m.scheduled = at, rank, true
	}
	m.lastRank = max(m.lastRank, rank)
	m.drop(at)
	rest := m.recent[:0]
	for _, e := range m.recent {
		if e.rank < rank {
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
