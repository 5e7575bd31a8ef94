package sim

import (
	"fmt"
	"slices"
	"time"

	"headrace"
	"headrace/policy"
)

// patience is for how long a node may be idle while a task that could run there waits.
// One that has to be moved there first may wait patient times as long as that takes
// besides: when its own node will have room is estimated.
const (
	patience = time.Minute
	patient  = 4
)

// idleness watches that work is conserved: no node is idle for longer than patience while
// a task that fits is neither started nor on its way.
type idleness struct {
	since []time.Duration // of each node; negative: it is not idle
	// until is for how long the memory of what is written out on an idle node may be awaited; 0: nobody does.
	until []time.Duration
	// step is that of ageing (policy.Config); negative: nobody rises.
	step time.Duration
}

func newIdleness(nodes int, step time.Duration) *idleness {
	s := &idleness{since: make([]time.Duration, nodes), until: make([]time.Duration, nodes), step: step}
	for i := range s.since {
		s.since[i] = -1
	}
	return s
}

// verify is called after each decision; uses is what tasks use of the nodes.
func (s *idleness) verify(e *engine, uses []use) error {
	for i := range e.nodes {
		switch {
		case uses[i].tasks > 0 || uses[i].expected:
			s.since[i] = -1
		case s.since[i] < 0:
			s.since[i] = e.now
		}
		if s.since[i] < 0 || uses[i].going == 0 {
			s.until[i] = 0
		}
	}
	if waiting := e.gangs.inQueue(); len(waiting) > 0 {
		return s.verifyGangs(e, uses, waiting)
	}
	for i := range e.nodes {
		if n := &e.nodes[i]; s.since[i] >= 0 && e.now-s.since[i] > patience {
			if id, found := e.backlog.fits(e.now, n, &uses[i]); found {
				return fmt.Errorf("%s has been idle for %v, and task %d, which fits there, is not even shown to the policy", n.v.ID, e.now-s.since[i], id+1)
			}
		}
	}
	for _, t := range e.roster.order {
		if t == nil || t.phase != idle || t.v.Leaving || t.v.Starting {
			continue
		}
		waits := e.now - max(0, t.left+t.v.Waited)
		if waits <= patience {
			continue
		}
		for i := range e.nodes {
			n := &e.nodes[i]
			if s.since[i] < 0 || !t.fits(n, uses[i].memory) || (t.v.State != headrace.Suspended || t.node != n) && !uses[i].leaves(n, e.roster.needOf(t.v.Need)) {
				continue
			}
			if took := min(waits, e.now-s.since[i]); took > patience+patient*t.takesTo(n, &e.c) && !s.awaited(e, n, &uses[i], t) {
				return fmt.Errorf("%s has been idle for %v, and %s, which is %s and fits there, has waited for %v", n.v.ID, e.now-s.since[i], t.v.ID, t.v.State, waits)
			}
		}
	}
	return nil
}

// awaited reports whether a task that stands before t in the queue waits for the memory of those that are being written
// out on n: it has its room there once they are gone, which is patient times as long as that was to take at first. That
// room is kept also from those that may pass it elsewhere.
func (s *idleness) awaited(e *engine, n *node, u *use, t *task) bool {
	if u.going == 0 {
		return false
	}
	found := slices.ContainsFunc(e.roster.order, func(w *task) bool {
		if w == nil || w.phase != idle || w.v.Leaving || w.v.Starting || w.v.State == headrace.Suspended && w.node != n {
			return false
		}
		return s.before(w, t, e.now) && !w.fits(n, u.memory) && w.fits(n, u.memory-u.going) && u.leaves(n, e.roster.needOf(w.v.Need))
	})
	if found && s.until[n.i] == 0 {
		s.until[n.i] = e.now + patience + patient*n.store.wait()
	}
	return found && e.now <= s.until[n.i]
}

// before reports whether w stands before t in the queue, as package policy has it.
func (s *idleness) before(w, t *task, now time.Duration) bool {
	if a, b := s.aged(w, now), s.aged(t, now); a != b {
		return a > b
	}
	if a, b := w.begun(), t.begun(); a != b {
		return a
	}
	return w.at < t.at
}

// aged returns the priority that t, which waits, has in the queue.
func (s *idleness) aged(t *task, now time.Duration) headrace.Priority {
	p := t.v.Priority
	if s.step < 0 {
		return p
	}
	return p + headrace.Priority(min((now-t.left)/s.step, time.Duration(p.Top()-p)))
}

// begun reports whether work of t would be lost if it did not come back.
func (t *task) begun() bool { return t.v.State == headrace.Suspended || t.v.Checkpoint != nil }

// verifyGangs does that while gangs wait, for whom nodes may be kept: not all of them could
// run on the nodes that are idle, or the first would.
func (s *idleness) verifyGangs(e *engine, uses []use, waiting []*gang) error {
	for _, g := range waiting {
		if waits := e.now - max(0, g.members[0].left+g.members[0].v.Waited); waits <= patience || !s.holds(e, uses, g) {
			return nil
		}
	}
	return fmt.Errorf("all of %d gangs that wait, the first %d, would fit on nodes that have been idle for long", len(waiting), waiting[0].number)
}

// holds reports whether g, one of its tasks after the other, fits on the nodes that have been
// idle for long.
func (s *idleness) holds(e *engine, uses []use, g *gang) bool {
	uses = slices.Clone(uses)
	for i := range uses {
		uses[i].counted, uses[i].cpus = slices.Clone(uses[i].counted), 0
	}
	for _, t := range g.members {
		found := false
		for i := range e.nodes {
			n := &e.nodes[i]
			if s.since[i] < 0 || e.now-s.since[i] <= patience || t.node != nil && t.node != n && t.v.State == headrace.Suspended {
				continue
			}
			if !t.fits(n, uses[i].memory) || uses[i].cpus+t.v.CPUs > n.v.CPUs || t.v.State != headrace.Suspended && !uses[i].leaves(n, e.roster.needOf(t.v.Need)) {
				continue
			}
			found = true
			uses[i].cpus += t.v.CPUs
			uses[i].memory += max(t.v.MemoryRequest, t.v.Resident+t.v.Swapped)
			uses[i].take(e.roster.needOf(t.v.Need))
			break
		}
		if !found {
			return false
		}
	}
	return true
}

// fits reports whether there is room for t on n, where tasks hold so much memory.
func (t *task) fits(n *node, held int64) bool {
	v, need := t.v, t.v.MemoryRequest
	if v.State == headrace.Suspended || v.Checkpoint != nil {
		need = max(need, min(v.Resident+v.Swapped, n.v.Memory))
		if v.Checkpoint != nil {
			need = max(need, min(v.Checkpoint.Bytes, n.v.Memory))
		}
	}
	if t.node == n && v.State == headrace.Suspended {
		need -= v.Resident - v.PagingOut
	}
	return v.CPUs <= n.v.CPUs+1e-9 && need <= n.v.Memory-held
}

// takesTo returns how long it takes to have t, which is not running, on n.
func (t *task) takesTo(n *node, c *Config) time.Duration {
	v, m := t.v, &c.Medium
	if t.node == nil || t.node == n || v.State == headrace.Pending && v.Checkpoint == nil {
		return 0
	}
	if n.v.Net <= 0 || m.Write <= 0 || m.Read <= 0 || v.State == headrace.Suspended && v.NoCheckpoint != "" {
		if c.Policy.Policy == policy.Cost && v.State == headrace.Suspended && v.Checkpoint == nil {
			return v.Progress.Wall // it begins again there
		}
		return 1 << 62 / patient // it cannot be moved
	}
	seconds := func(bytes int64, rate float64) time.Duration {
		return time.Duration(float64(bytes) / rate * float64(time.Second))
	}
	size := v.Resident + v.Swapped
	if v.Checkpoint != nil {
		size = max(size, v.Checkpoint.Bytes)
	}
	took := m.DumpOverhead + m.RestoreOverhead + seconds(size, m.Read) + seconds(size, n.v.Net)
	if v.State == headrace.Suspended {
		took += seconds(size, m.Write)
	}
	return took + t.node.store.wait() + n.store.wait()
}
