package policy

import (
	"math"

	"headrace"
)

// overhead is the first line of checkpoint-preemption's algorithm 1, in seconds:
// size/bw_write + size/bw_read + queue. The size is that of the checkpoint to be
// written, which for an incremental one is what was modified; ahead is the time
// of dumps that the same plan sends to the store before this one.
func overhead(t *headrace.TaskView, s *store, ahead float64) float64 {
	size := float64(dumpBytes(t, s.StoreView))
	return size/s.Write + size/s.Read + s.queue + ahead
}

// algorithm1 decides about one candidate: checkpoint when its progress exceeds
// the overhead, else kill. The progress is the running time that a kill would
// lose. The paper has no task that cannot be checkpointed and no second store:
// one that cannot is killed, and of several stores the one with the least
// overhead counts.
func algorithm1(t *task, acts []act) act {
	s, least := adaptiveStore(t, acts)
	if s >= 0 && t.Progress.Wall.Seconds() > least {
		return act{t, headrace.Checkpoint, s}
	}
	return act{t, headrace.Kill, -1}
}

func adaptiveStore(t *task, acts []act) (best int, least float64) {
	best, least = -1, math.Inf(1)
	for i := range t.n.stores {
		if !canDump(t, i, acts) {
			continue
		}
		if o := overhead(t.TaskView, &t.n.stores[i], ahead(t.n, i, acts)); o < least {
			best, least = i, o
		}
	}
	return best, least
}
