package sim

import (
	"cmp"
	"fmt"
	"math"

	"headrace"
)

// verify checks the invariants that hold at any time.
func (e *engine) verify() error {
	if err := e.invariants(); err != nil {
		return e.violated(err)
	}
	return nil
}

func (e *engine) violated(err error) error {
	return fmt.Errorf("sim: invariant violated at %v under %s: %w", e.now, e.c.Policy.Policy, err)
}

func (e *engine) invariants() error {
	uses := make([]use, len(e.nodes))
	alive, waiting := 0, 0
	for i, t := range e.roster.order {
		if t == nil {
			continue
		}
		alive++
		if t.phase == idle {
			waiting++
		}
		if v := t.v; v != &e.roster.view.Tasks[i] || t.at != i || e.roster.byID[v.ID] != t || e.roster.slots[t.slot] != t {
			return fmt.Errorf("%s is not where it should be", v.ID)
		}
		if err := cmp.Or(t.verify(e.clock), e.stages.verify(t, e.w)); err != nil {
			return err
		}
		if e.files != nil {
			if err := e.files.verifyTask(t); err != nil {
				return err
			}
		}
		if t.node != nil {
			uses[t.node.i].add(t, e.roster.needOf(t.v.Need))
		}
		if t.v.Leaving && t.node != nil {
			uses[t.node.i].leaving = true
		}
	}
	for _, t := range e.roster.order {
		if t != nil && t.v.Room != "" {
			u := &uses[e.byNode[t.v.Room].i]
			u.expected = u.expected || t.v.Leaving || u.leaving
		}
	}
	tasks, coming, ended := len(e.w.Tasks), len(e.w.Tasks)-e.next, e.tally.ended
	alive, waiting = alive+e.backlog.tasks, waiting+e.backlog.tasks
	if alive+ended+coming+e.stages.tasks+e.gangs.held != tasks || waiting != e.roster.waiting {
		return fmt.Errorf("of %d tasks %d are to come, %d are held back, %d are here and %d have ended; %d wait, counted as %d", tasks, coming, e.stages.tasks+e.gangs.held, alive, ended, waiting, e.roster.waiting)
	}
	for _, g := range e.gangs.of {
		if g != nil {
			if err := g.verify(); err != nil {
				return err
			}
		}
	}
	for i := range e.nodes {
		if err := uses[i].verify(&e.nodes[i]); err != nil {
			return err
		}
	}
	if e.files != nil {
		if err := e.files.verify(e.tally.left); err != nil {
			return err
		}
	}
	if e.c.Capacity != nil {
		return nil // queues may leave nodes idle
	}
	return e.idleness.verify(e, uses)
}

// verify checks that the state of t agrees with itself.
func (t *task) verify(at *clock) error {
	v, holds := t.v, t.phase != idle
	if v.State == headrace.Running != (holds && !v.Starting) || v.Starting && v.Leaving {
		return fmt.Errorf("%s is %s and holds CPUs: %v", v.ID, v.State, holds)
	}
	if v.Resident < 0 || v.Swapped < 0 || v.PagingOut < 0 || v.PagingOut > v.Resident || v.Dirty < 0 || v.Dirty > v.Resident+v.Swapped {
		return fmt.Errorf("%s has %d bytes resident, %d dirty, %d in swap and %d on the way there", v.ID, v.Resident, v.Dirty, v.Swapped, v.PagingOut)
	}
	if p := t.progress(at.now); p < t.saved || p > t.spec.Run {
		return fmt.Errorf("%s has run %v of %v, %v of it saved", v.ID, p, t.spec.Run, t.saved)
	}
	return nil
}

// use is what tasks use of a node, added up anew.
type use struct {
	tasks                   int
	cpus                    float64
	memory, swapped, stored int64
	counted                 []float64
	leaving                 bool  // some are on their way out
	going                   int64 // what of memory those hold who are suspended and on their way out
	expected                bool  // a task is on its way from another node, or to what those who leave have made room for
}

// leaves reports whether so much of the counted resources of n is left.
func (u *use) leaves(n *node, need []float64) bool {
	for r, want := range need {
		if r < len(u.counted) {
			want += u.counted[r]
		}
		if want > n.v.Counted[r]+1e-9 {
			return false
		}
	}
	return true
}

// take enters so much of the counted resources.
func (u *use) take(need []float64) {
	if need != nil && u.counted == nil {
		u.counted = make([]float64, len(need))
	}
	for r, n := range need {
		u.counted[r] += n
	}
}

// add enters t, which needs so much of the counted resources.
func (u *use) add(t *task, need []float64) {
	v := t.v
	if t.phase != idle || v.State == headrace.Suspended {
		u.take(need)
	}
	if t.phase != idle {
		u.tasks++
		u.cpus += float64(t.spec.CPUs)
		u.memory += max(v.MemoryRequest, v.Resident)
	} else {
		u.memory += v.Resident - v.PagingOut
		if v.Leaving {
			u.going += v.Resident - v.PagingOut
		}
	}
	u.swapped += v.Swapped
	u.stored += t.node.store.writes(t)
	if v.Checkpoint != nil {
		u.stored += v.Checkpoint.Bytes
	}
}

func (u *use) verify(n *node) error {
	if u.tasks != n.tasks || u.cpus > n.v.CPUs+1e-6 || n.held > n.v.CPUs+1e-6 || n.held < 0 {
		return fmt.Errorf("%s has %v CPUs, %d tasks hold %v, counted as %d with %v", n.v.ID, n.v.CPUs, u.tasks, u.cpus, n.tasks, n.held)
	}
	if !u.leaves(n, make([]float64, len(n.v.Counted))) {
		return fmt.Errorf("%s has %v of what is counted, %v are held", n.v.ID, n.v.Counted, u.counted)
	}
	if u.memory > n.v.Memory {
		return fmt.Errorf("%s has %d bytes of memory, %d are held", n.v.ID, n.v.Memory, u.memory)
	}
	if u.swapped != n.pager.swapped || u.swapped > n.swap || u.stored != n.store.used || u.stored > n.store.size {
		return fmt.Errorf("%s: %d bytes in swap, counted as %d, of %d; %d in checkpoints, counted as %d, of %d",
			n.v.ID, u.swapped, n.pager.swapped, n.swap, u.stored, n.store.used, n.store.size)
	}
	return nil
}

// conserved verifies that no time of CPUs is missing.
func (e *engine) conserved() error {
	w := e.r.Work
	if used := w.Used(); math.Abs(used-e.tally.spent) > 1e-6*(1+e.tally.spent) {
		return fmt.Errorf("sim: %v core-seconds were held, %v are useful or wasted: work is not conserved", e.tally.spent, used)
	}
	if e.tally.stores != 0 {
		return fmt.Errorf("sim: all tasks have ended, and %d bytes of checkpoints are left", e.tally.stores)
	}
	for i := range e.nodes {
		n := &e.nodes[i]
		if !n.empty() {
			return fmt.Errorf("sim: all tasks have ended, and %s still holds %d tasks, %d bytes of swap and %d of checkpoints", n.v.ID, n.tasks, n.pager.swapped, n.store.used)
		}
	}
	if e.files != nil {
		return e.files.conserved()
	}
	return nil
}
