package workload

import (
	"fmt"
	"time"

	"headrace"
)

// Assumed is what a trace does not say of the memory of its tasks.
type Assumed struct {
	// Grow is how long a task runs until it holds all of its memory.
	Grow time.Duration
	// Dirty is the share of its memory that a task changes in a second, 0 to 1.
	// 0 stands for 0.01, negative values for none.
	Dirty float64
}

// Given is what is said of a trace by whoever reads it, where the trace is silent.
type Given struct {
	Assumed
	// Priorities are those of queues, partitions, QOS or priority classes, by name.
	Priorities map[string]headrace.Priority
	// CPUs and Memory are of the largest machine, where requests are shares of it. 0: what
	// the format takes it to have.
	CPUs   float64
	Memory int64
}

// Check returns what is wrong with it.
func (g *Given) Check() error {
	if !(g.CPUs >= 0 && g.CPUs <= 1e6) || g.Memory < 0 {
		return fmt.Errorf("trace: a largest machine of %v CPUs and %d bytes: want positive numbers", g.CPUs, g.Memory)
	}
	for name, p := range g.Priorities {
		if p > headrace.MaxPriority {
			return fmt.Errorf("trace: priority %d for %q: want 0 to %d", p, name, headrace.MaxPriority)
		}
	}
	return g.Assumed.Check()
}

// Priority returns that given to the first of some names that has one, or else another.
func (g *Given) Priority(otherwise headrace.Priority, names ...string) headrace.Priority {
	for _, name := range names {
		if p, ok := g.Priorities[name]; ok {
			return p
		}
	}
	return otherwise
}

// Task returns t with what is assumed of its memory.
func (a Assumed) Task(t Task) Task {
	t.Grow, t.Dirty = float32(a.Grow.Seconds()), float32(a.DirtyBytes(t.Memory))
	return t
}

// DefaultDirty is the share of its memory that a task changes in a second when
// nothing else is said.
const DefaultDirty = 0.01

// DirtyBytes returns how much of some memory changes in a second.
func (a Assumed) DirtyBytes(memory int64) float64 {
	switch {
	case a.Dirty < 0:
		return 0
	case a.Dirty == 0:
		return DefaultDirty * float64(memory)
	}
	return a.Dirty * float64(memory)
}

func (a Assumed) Check() error {
	if a.Grow < 0 || !(a.Dirty <= 1) {
		return fmt.Errorf("trace: memory that grows for %v and changes by %v in a second: want 0 or more, and at most 1", a.Grow, a.Dirty)
	}
	return nil
}
