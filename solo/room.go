package solo

import (
	"headrace"
	"headrace/solo/store"
)

// dump returns what a checkpoint of the task would write: one that cannot build on the last one writes all.
func (t *task) dump() store.Dump {
	d := store.Dump{Task: t.rec.ID, For: t.rec.UID, Known: t.known, Whole: t.back}
	if t.hosted() { // what its scheduler orders
		d.For = 0
	}
	switch im := t.rec.Checkpoint; {
	case !t.known:
	case im != nil:
		d.Base, d.Changed, d.Whole = im.Store, t.dirty(), t.memory()
	default:
		d.Whole = t.dirty()
	}
	return d
}

// returning is the memory that a task was given room for when it was brought back. Until it is measured again, and all
// of it that was in swap has come, it does not show, and would be given to others as well.
type returning struct {
	// back is how much that is, in bytes; comes counts what reads it from swap.
	back  int64
	comes int
}

// measured takes in that a task was measured that has been brought back.
func (r *returning) measured() {
	if r.comes == 0 {
		r.back = 0
	}
}

// show shows the memory of a running task as it is once all has come.
func (r *returning) show(v *headrace.TaskView) {
	if more := r.back - v.Resident; more > 0 && v.State == headrace.Running {
		v.Resident, v.Swapped = r.back, max(0, v.Swapped-more)
	}
}

// checkpointBytes returns what a task's checkpoint holds, or will when the dump under way has ended, if that is more.
func (t *task) checkpointBytes() (bytes int64) {
	if im := t.rec.Checkpoint; im != nil {
		bytes = im.ToRead
	}
	if t.rec.Op.Doing() == headrace.Checkpointing {
		bytes = max(bytes, t.memory())
	}
	return bytes
}
