package victims

import (
	"math"

	"headrace"
	"headrace/policy/internal/books"
)

// overhead returns the first line of checkpoint-preemption's algorithm 1, in seconds:
// size/bw_write + size/bw_read + queue. The size is that of the checkpoint to be
// written, which for an incremental one is what was modified, the queue that of the owner of u; ahead is the time
// of dumps that the same plan sends to the store before this one.
func overhead(u, t *headrace.TaskView, s *books.Store, ahead float64) float64 {
	size := float64(books.DumpBytes(t, s.StoreView))
	return size/s.Write + size/s.Read + s.Wait(u) + ahead
}

// algorithm1 decides about one candidate: checkpoint when its progress exceeds
// the overhead, else kill. The progress is the running time that a kill would
// lose. The paper has no task that cannot be checkpointed and no second store:
// one that cannot is killed, and of several stores the one with the least
// overhead counts. Nor has it tasks that are not killed for u: they are checkpointed
// whatever it costs, or stay.
func algorithm1(u, t *books.Task, acts []books.Act) (a books.Act, ok bool) {
	s, least := adaptiveStore(u, t, acts)
	switch {
	case s >= 0 && (t.Progress.Wall.Seconds() > least || !t.KilledFor(u)):
		return books.DumpTo(t, s), true
	case t.KilledFor(u):
		return books.By(t, headrace.Kill), true
	}
	return a, false
}

func adaptiveStore(u, t *books.Task, acts []books.Act) (best int, least float64) {
	best, least = -1, math.Inf(1)
	for i := range t.Home.Stores {
		if !books.CanDump(t, i, acts) {
			continue
		}
		if o := overhead(u.TaskView, t.TaskView, &t.Home.Stores[i], books.Ahead(t.Home, i, acts)); o < least {
			best, least = i, o
		}
	}
	return best, least
}
