package workload

import (
	"fmt"
	"time"
)

// Assumed is what a trace does not say of the memory of its tasks.
type Assumed struct {
	// Grow is how long a task runs until it holds all of its memory.
	Grow time.Duration
	// Dirty is the share of its memory that a task changes in a second, 0 to 1.
	// 0 stands for 0.01, negative values for none.
	Dirty float64
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
