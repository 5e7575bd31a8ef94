package solo

import (
	"maps"
	"os"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
)

// nodeStatus is the machine as shown to people. It is immutable.
type nodeStatus struct {
	slots, slotsUsed    float64
	memory, memoryUsed  int64
	swapTotal, swapFree int64
	swapOut, swapIn     float64
	stores              []storeStatus
	states              [headrace.Lost + 1]int
	// waiting is how many tasks wait to run, held ones not counted.
	waiting int
	// held is how many tasks that have not ended are held.
	held    int
	policy  string
	started time.Time
	host    string
	// alone are the tasks that were left alone when the daemon started, by their names.
	alone []leftAlone
}

// leftAlone is a task that the records did not know and that could not be taken in, and why.
type leftAlone struct {
	id  headrace.TaskID
	why string
}

type storeStatus struct {
	headrace.StoreView
	dir      string
	compress bool
	used     int64
	// size is that of its file system, and away whether it cannot be used now.
	size int64
	away bool
}

// nodeStatus is recomputed when somebody may look: once a turn that changed
// something.
func (l *loop) nodeStatus() nodeStatus {
	s := nodeStatus{
		slots: l.cfg.Slots, memory: l.cfg.Memory,
		swapTotal: l.memory.SwapTotal, swapFree: l.memory.SwapFree,
		swapOut: l.memory.SwapOut, swapIn: l.memory.SwapIn,
		policy: l.cfg.policyName(), started: l.started, host: l.host,
		states: l.tasks.endedStates,
	}
	used := map[string]int64{}
	for _, t := range l.tasks.active {
		s.states[t.rec.State]++
		if t.holdsSlot() {
			s.slotsUsed += t.rec.CPUs
		} else if !t.rec.Held && !t.hosted() {
			s.waiting++
		}
		if t.rec.Held && !t.hosted() {
			s.held++
		}
		if t.known {
			s.memoryUsed += t.stats.Resident
		}
		if c := t.rec.Checkpoint; c != nil {
			used[c.Dir] += c.ToRead
		}
	}
	for t := range l.tasks.lostSaved() {
		used[t.rec.Checkpoint.Dir] += t.rec.Checkpoint.ToRead
	}
	for _, st := range l.stores.All {
		s.stores = append(s.stores, storeStatus{StoreView: l.stores.View(st), dir: st.Dir, compress: st.Compress, used: used[st.Dir], size: st.Size, away: l.stores.Away(st.Dir) != nil})
	}
	for _, id := range slices.Sorted(maps.Keys(l.alone)) {
		s.alone = append(s.alone, leftAlone{id, l.alone[id]})
	}
	return s
}

func (c *Config) policyName() string {
	if c.Policy.Policy == "" {
		return string(policy.Cost)
	}
	return string(c.Policy.Policy)
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
