package sim

import (
	"fmt"

	"headrace"
)

// verify checks the invariants that hold at any time.
func (e *engine) verify() error {
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("sim: invariant violated at %v under %s: %s", e.now, e.c.Policy.Policy, fmt.Sprintf(format, args...))
	}
	type use struct {
		tasks                   int
		cpus                    float64
		memory, swapped, stored int64
	}
	uses := make([]use, len(e.nodes))
	alive, waiting := 0, 0
	for i, t := range e.order {
		if t == nil {
			continue
		}
		alive++
		v := t.v
		if v != &e.view.Tasks[i] || t.at != i || e.byTask[v.ID] != t || e.slots[t.slot] != t {
			return wrong("%s is not where it should be", v.ID)
		}
		holds := t.phase != idle
		if v.State == headrace.Running != (holds && !v.Starting) || v.Starting && v.Leaving {
			return wrong("%s is %s and holds CPUs: %v", v.ID, v.State, holds)
		}
		if !holds {
			waiting++
		}
		if v.Resident < 0 || v.Swapped < 0 || v.PagingOut < 0 || v.PagingOut > v.Resident || v.Dirty < 0 || v.Dirty > v.Resident+v.Swapped {
			return wrong("%s has %d bytes resident, %d dirty, %d in swap and %d on the way there", v.ID, v.Resident, v.Dirty, v.Swapped, v.PagingOut)
		}
		if e.files != nil {
			if err := e.files.verifyTask(t); err != nil {
				return wrong("%v", err)
			}
		}
		p := t.progress(e.now)
		if p < t.saved || p > t.spec.Run {
			return wrong("%s has run %v of %v, %v of it saved", v.ID, p, t.spec.Run, t.saved)
		}
		if t.node == nil {
			continue
		}
		u := &uses[t.node.i]
		if holds {
			u.tasks++
			u.cpus += float64(t.spec.CPUs)
			u.memory += max(v.MemoryRequest, v.Resident)
		} else {
			u.memory += v.Resident - v.PagingOut
		}
		u.swapped += v.Swapped
		if v.Checkpoint != nil {
			u.stored += v.Checkpoint.Bytes
		}
		if len(t.node.moves) > 0 && t.node.moves[0].t == t && !t.node.moves[0].restore {
			u.stored += t.writes
		}
	}
	if alive+e.ended+len(e.w.Tasks)-e.next != len(e.w.Tasks) || waiting != e.waiting {
		return wrong("of %d tasks %d are to come, %d are here and %d have ended; %d wait, counted as %d", len(e.w.Tasks), len(e.w.Tasks)-e.next, alive, e.ended, waiting, e.waiting)
	}
	for i := range e.nodes {
		n, u := &e.nodes[i], uses[i]
		if u.tasks != n.tasks || u.cpus > n.v.CPUs+1e-6 || n.held > n.v.CPUs+1e-6 || n.held < 0 {
			return wrong("%s has %v CPUs, %d tasks hold %v, counted as %d with %v", n.v.ID, n.v.CPUs, u.tasks, u.cpus, n.tasks, n.held)
		}
		if u.memory > n.v.Memory {
			return wrong("%s has %d bytes of memory, %d are held", n.v.ID, n.v.Memory, u.memory)
		}
		if u.swapped != n.swapped || u.swapped > e.c.Node.Swap || u.stored != n.stored || u.stored > e.c.Node.Store {
			return wrong("%s: %d bytes in swap, counted as %d, of %d; %d in checkpoints, counted as %d, of %d", n.v.ID, u.swapped, n.swapped, e.c.Node.Swap, u.stored, n.stored, e.c.Node.Store)
		}
	}
	if e.files != nil {
		if err := e.files.verify(); err != nil {
			return wrong("%v", err)
		}
	}
	return nil
}
