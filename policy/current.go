package policy

import (
	"time"

	"headrace"
	"headrace/policy/internal/price"
)

// PageOut is an order to write memory of a task to swap, as long as it may not be
// there yet.
type PageOut struct {
	// Bytes are to be written; Swapped was in swap when that was ordered.
	Bytes, Swapped int64
}

// PromiseIsNearer reports whether the end that a task has told by now (Progress.Promised) is so much earlier
// than was, which is written down for it and 0 if none is, that it is to be written down anew. An end
// that comes a little nearer at each look is written down now and then.
func PromiseIsNearer(end, was time.Duration) bool { return end > 0 && (was == 0 || end < was-was/10) }

// left returns what is not in swap yet, now that swapped is there.
func (p PageOut) left(swapped int64) int64 { return max(0, p.Bytes-max(0, swapped-p.Swapped)) }

// Current returns a task as policies are to see it now: t is what is known of it,
// measured age ago, doing is what is being done to it, and outs are the orders to write
// its memory to swap. Whoever builds a View of tasks that are measured now and then
// ends with this, and begins the next one of the same task with its Progress.Promised.
func Current(t headrace.TaskView, age time.Duration, doing headrace.Operation, outs ...PageOut) headrace.TaskView {
	if t.State == headrace.Running {
		age = max(0, age)
		t.Progress.Wall += age
		t.Progress.TotalWall += age
	}
	t.Progress.Promised = price.Promised(&t)
	t.Starting, t.LeavingBy = doing.BringsBack(), doing.LeavesBy()
	t.Leaving = t.LeavingBy != headrace.Wait
	t.Dirty = min(t.Dirty, t.Resident+t.Swapped)
	t.PagingOut = 0
	for _, p := range outs {
		t.PagingOut += p.left(t.Swapped)
	}
	t.PagingOut = min(t.PagingOut, t.Resident)
	return t
}

// Dump is a checkpoint that is being written, or is to be, as long as it may not all be there yet.
type Dump struct {
	// Bytes are to be written, as far as is known; Written of them are no longer part of what is free.
	Bytes, Written int64
}

// StoreFree returns what of the free bytes of a store is left beside dumps that were decided before
// ([headrace.StoreView].Free): what was promised to one is not offered to the next.
func StoreFree(free int64, dumps ...Dump) int64 {
	for _, d := range dumps {
		free -= max(0, d.Bytes-max(0, d.Written))
	}
	return max(0, free)
}
