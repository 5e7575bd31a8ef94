package sim

import (
	"fmt"
	"slices"

	"headrace"
	"headrace/policy"
)

// lessUrgentFirst verifies that a task that leaves alone for a more urgent one does not do
// so in place of a less urgent one, on whichever node, that could have left in the same way
// at no more cost. It is called before the orders are carried out. What it takes for
// possible is less than what the policy may do: on the node of the other nobody else waits,
// and what that holds is enough, or what is free besides all that may be kept for others.
func (e *engine) lessUrgentFirst(orders []headrace.Order) error {
	switch e.c.Policy.Policy {
	case policy.Kill, policy.Suspend, policy.Checkpoint, policy.Cost:
	default:
		return nil // adaptive is as published
	}
	if e.c.Capacity != nil || e.files != nil {
		return nil // queues and inputs count there as well
	}
	victims, busy := map[headrace.TaskID]int{}, map[*node]bool{}
	for i := range orders {
		o := &orders[i]
		busy[e.byNode[o.Node]] = true
		if o.Verb == headrace.OrderPreempt {
			victims[o.For]++
		}
	}
	if len(victims) == 0 {
		return nil
	}
	// Memory is kept for one that waits, and on nodes with devices for all that wait for these.
	uses, missing, awaiting := make([]use, len(e.nodes)), int64(0), int64(0)
	for _, t := range e.roster.order {
		if t == nil {
			continue
		}
		if t.node != nil {
			uses[t.node.i].add(t, e.roster.needOf(t.v.Need))
			busy[t.node] = busy[t.node] || t.phase == idle || t.v.Leaving || t.v.Starting
		}
		if t.v.Room != "" {
			busy[e.byNode[t.v.Room]] = true
		}
		if t.phase == idle {
			missing = max(missing, t.v.MemoryRequest)
			if t.v.Need != 0 {
				awaiting += t.v.MemoryRequest
			}
		}
	}
	for i := range orders {
		o := &orders[i]
		u, v := e.roster.byID[o.For], e.roster.byID[o.Task]
		if o.Verb != headrace.OrderPreempt || victims[o.For] != 1 || u == nil || v == nil || u.node != nil || v.phase != running || v.gang != nil || u.gang != nil {
			continue
		}
		// Policies but cost go through the tasks of a node in one order: where one of the less
		// urgent is not enough, several may be what leaves there, or none.
		enough, instead := map[*node]bool{}, []*task(nil)
		for _, w := range e.roster.order {
			if w == nil || w.phase != running || w.v.Priority >= v.v.Priority || busy[w.node] {
				continue
			}
			free := w.node.v.Memory - uses[w.node.i].memory - missing
			if slices.ContainsFunc(w.node.v.Counted, func(has float64) bool { return has > 0 }) {
				free -= awaiting
			}
			does := w.gang == nil && w.freesCounted(u, o.Mechanism) && w.makesRoom(u, o.Mechanism, free)
			if others, met := enough[w.node]; !met || others {
				enough[w.node] = does
			}
			if e.c.Policy.Policy == policy.Cost {
				enough[w.node] = true
				does = does && w.leavesFor(o.Mechanism, v)
			}
			if does && e.mayLeave(w) {
				instead = append(instead, w)
			}
		}
		for _, w := range instead {
			if enough[w.node] {
				return fmt.Errorf("%s of priority %d leaves (%s) for %s, and not %s of priority %d on %s", v.v.ID, v.v.Priority, o.Mechanism, u.v.ID, w.v.ID, w.v.Priority, w.node.v.ID)
			}
		}
	}
	return nil
}

// freesCounted reports whether what u needs of counted resources is there once t leaves so.
func (t *task) freesCounted(u *task, by headrace.Mechanism) bool {
	if by == headrace.Checkpoint && t.v.NoCheckpoint != "" {
		return false
	}
	return u.v.Need == 0 || u.v.Need == t.v.Need && by != headrace.Suspend
}

// makesRoom reports whether it is enough for u that t leaves so; free is the memory that is
// free on its node in any case.
func (t *task) makesRoom(u *task, by headrace.Mechanism, free int64) bool {
	switch by {
	case headrace.Suspend:
		return t.v.CPUs >= u.v.CPUs && free >= u.v.MemoryRequest
	case headrace.Checkpoint:
		if st := &t.node.store; st.used+t.v.Resident+t.v.Swapped > st.size {
			return false
		}
	}
	return t.v.CPUs >= u.v.CPUs && max(t.v.MemoryRequest, t.v.Resident) >= u.v.MemoryRequest
}

// leavesFor reports whether it costs no more that t leaves so than that v does.
func (t *task) leavesFor(by headrace.Mechanism, v *task) bool {
	return by == headrace.Suspend || by == headrace.Kill && t.v.Progress.Wall+t.v.Progress.Lost <= v.v.Progress.Wall
}

// mayLeave reports whether nothing keeps t, which runs, where it is: neither what it was
// promised when it came to run, nor the last checkpoint, which would have to be read again.
func (e *engine) mayLeave(t *task) bool {
	v, c := t.v, &e.c.Policy
	minRun := c.MinRun
	if minRun == 0 {
		minRun = policy.MinRun
	}
	return v.Checkpoint == nil && v.Running >= max(minRun, v.Waited/10)+v.Progress.Lost
}
