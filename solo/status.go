package solo

import (
	"maps"
	"os"
	"slices"

	"headrace/policy"
	"headrace/solo/board"
)

// nodeStatus is recomputed when somebody may look: once a turn that changed
// something.
func (l *loop) nodeStatus() board.Node {
	s := board.Node{
		Slots: l.cfg.Slots, Memory: l.cfg.Memory,
		SwapTotal: l.memory.SwapTotal, SwapFree: l.memory.SwapFree,
		SwapOut: l.memory.SwapOut, SwapIn: l.memory.SwapIn,
		Policy: l.cfg.policyName(), Started: l.started, Host: l.host,
		States: l.tasks.endedStates,
	}
	used := map[string]int64{}
	for _, t := range l.tasks.active {
		s.States[t.rec.State]++
		if t.holdsSlot() {
			s.SlotsUsed += t.rec.CPUs
		} else if !t.rec.Held && !t.hosted() {
			s.Waiting++
		}
		if t.rec.Held && !t.hosted() {
			s.Held++
		}
		if t.known {
			s.MemoryUsed += t.stats.Resident
		}
		if c := t.rec.Checkpoint; c != nil {
			used[c.Dir] += c.ToRead
		}
	}
	for t := range l.tasks.lostSaved() {
		used[t.rec.Checkpoint.Dir] += t.rec.Checkpoint.ToRead
	}
	for _, st := range l.stores.All {
		s.Stores = append(s.Stores, board.Store{StoreView: l.stores.View(st), Dir: st.Dir, Compress: st.Compress, Used: used[st.Dir], Size: st.Size, Away: l.stores.Away(st.Dir) != nil})
	}
	for _, id := range slices.Sorted(maps.Keys(l.alone)) {
		s.Alone = append(s.Alone, board.LeftAlone{ID: id, Why: l.alone[id]})
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
