package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"headrace/internal/linux"
	"headrace/proc"
)

// errKilled is why an operation under way was given up.
var errKilled = fmt.Errorf("%w: it is being killed", proc.ErrGone)

// operation is locked by the one operation at a time that changes the task's processes.
// A kill calls it off.
type operation struct {
	sync.Mutex

	state  sync.Mutex // guards what follows
	killed bool       // somebody asked for the end
	// cancel interrupts the operation under way; nil when none can be.
	cancel context.CancelFunc
}

// lockWithin locks it as soon as it is free; false: it was not in time.
func (o *operation) lockWithin(patience time.Duration) bool {
	for deadline := linux.Clock() + patience; !o.TryLock(); time.Sleep(time.Millisecond) {
		if linux.Clock() >= deadline {
			return false
		}
	}
	return true
}

// kill notes that the task is to end, and interrupts what is under way.
func (o *operation) kill() {
	o.state.Lock()
	defer o.state.Unlock()
	o.killed = true
	if o.cancel != nil {
		o.cancel()
	}
}

func (o *operation) isKilled() bool {
	o.state.Lock()
	defer o.state.Unlock()
	return o.killed
}

// interruptible makes the operation under way one that can be called off, with the
// reason: by a kill, or because it makes no progress. The context ends then. The caller
// calls done when the operation is over.
func (o *operation) interruptible() (ctx context.Context, cancel context.CancelCauseFunc, done func()) {
	ctx, cancel = context.WithCancelCause(context.Background())
	o.state.Lock()
	defer o.state.Unlock()
	outer := o.cancel
	o.cancel = func() { cancel(errKilled) }
	if o.killed {
		cancel(errKilled)
	}
	return ctx, cancel, func() {
		o.state.Lock()
		o.cancel = outer
		o.state.Unlock()
		cancel(nil)
	}
}
