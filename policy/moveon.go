package policy

import (
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/words"
)

// Ways are what is expected until a container goes on that has no room now.
type Ways struct {
	// Here is on its own machine, Elsewhere on another one.
	Here, Elsewhere time.Duration
}

// MoveOn runs algorithm 2 of checkpoint-preemption (section 4.1) for a container whose
// room is given by another scheduler. As the paper says in words, the local queue is
// the wait for room when there is none.
//
//	here      = wait + size/bw_read
//	elsewhere = dump + 2 size/bw_net + size/bw_read
//
// The checkpoint crosses the network twice, to where all machines find it and from
// there; and one that is only suspended has to be dumped first. It reports false
// where the bandwidths are not known, or it cannot be checkpointed.
func MoveOn(t headrace.TaskView, n headrace.NodeView, wait time.Duration) (Ways, bool) {
	size := t.Resident + t.Swapped
	if t.Checkpoint != nil && t.State == headrace.Checkpointed {
		size = t.Checkpoint.Bytes
	}
	s := storeFor(t, n)
	if s == nil || !(s.Read > 0) || !(s.Write > 0) || !(n.Net > 0) {
		return Ways{}, false
	}
	read := s.RestoreOverhead + words.Seconds(float64(size)/s.Read)
	w := Ways{Here: wait, Elsewhere: words.Seconds(2*float64(size)/n.Net) + read}
	switch t.State {
	case headrace.Checkpointed:
		w.Here += read
	case headrace.Suspended:
		if t.NoCheckpoint != "" {
			return Ways{}, false
		}
		if n.SwapIn > 0 {
			w.Here += words.Seconds(float64(t.Swapped) / n.SwapIn)
		}
		w.Elsewhere += s.QueueOf(t.User) + s.DumpOverhead + words.Seconds(float64(books.DumpBytes(&t, s))/s.Write)
	default:
		return Ways{}, false
	}
	return w, true
}

// storeFor returns where the checkpoint is, or, without one, where it would be first.
func storeFor(t headrace.TaskView, n headrace.NodeView) (best *headrace.StoreView) {
	for i := range n.Stores {
		s := &n.Stores[i]
		if t.State == headrace.Checkpointed {
			if t.Checkpoint != nil && t.Checkpoint.Store == s.Name {
				return s
			}
			continue
		}
		if s.Free < books.DumpBytes(&t, s) {
			continue
		}
		if best == nil || s.QueueOf(t.User)+words.Seconds(books.Dump(&t, s)) < best.QueueOf(t.User)+words.Seconds(books.Dump(&t, best)) {
			best = s
		}
	}
	return best
}
