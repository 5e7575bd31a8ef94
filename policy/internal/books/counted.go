package books

import (
	"slices"

	"headrace"
)

// counted is what is free on a node of each counted resource: now, and later; nil where it
// has none. A task holds what it needs until its processes are gone: one that is suspended
// has its devices still.
type counted struct{ now, later []float64 }

// reset makes it those of a node that is empty.
func (c *counted) reset(has []float64) {
	if len(has) == 0 {
		*c = counted{}
		return
	}
	c.now, c.later = append(c.now[:0], has...), append(c.later[:0], has...)
}

func (c *counted) clone() counted { return counted{slices.Clone(c.now), slices.Clone(c.later)} }

// subtract takes need from what is free; free is as long as need, or nil.
func subtract(free, need []float64) {
	for r := range free {
		if r < len(need) {
			free[r] -= need[r]
		}
	}
}

// holds reports whether so much is free.
func holds(free, need []float64) bool {
	for r, n := range need {
		if n > Slack && (r >= len(free) || n > free[r]+Slack) {
			return false
		}
	}
	return true
}

// accountCounted enters what t holds of them.
func (n *Node) accountCounted(t *headrace.TaskView) {
	need := n.of.needOf(t)
	switch {
	case t.Starting, t.State == headrace.Running, t.State == headrace.Suspended:
		subtract(n.counted.now, need)
		if !t.Leaving || t.LeavingBy == headrace.Suspend {
			subtract(n.counted.later, need)
		}
	}
}

// lacks returns what u needs of counted resources on n beyond what it holds there; nil for
// nothing.
func (n *Node) lacks(u *Task) []float64 {
	if u.Counted == nil || u.State == headrace.Suspended && u.Home == n {
		return nil
	}
	return u.Counted
}

// clampedNeed is what of a need can be met from what is free.
func clampedNeed(free, need []float64) []float64 {
	part := slices.Clone(need)
	for r := range part {
		if r < len(free) {
			part[r] = clamp(part[r], free[r])
		}
	}
	return part
}

// missingCounted returns what is missing of need beyond what is free later; nil where u
// needs nothing.
func (n *Node) missingCounted(u *Task) []float64 {
	need := n.lacks(u)
	if need == nil {
		return nil
	}
	missing := slices.Clone(need)
	subtract(missing, n.counted.later)
	return missing
}
