package policy

import "headrace"

// dumpBytes is what a checkpoint of t in s has to write. A checkpoint in another
// store than the last one cannot build on it.
func dumpBytes(t *headrace.TaskView, s *headrace.StoreView) int64 {
	if t.Checkpoint != nil && t.Checkpoint.Store != s.Name {
		return max(t.Dirty, t.Resident+t.Swapped)
	}
	return t.Dirty
}

// dump is how long that takes, in seconds, once it is its turn.
func dump(t *headrace.TaskView, s *headrace.StoreView) float64 {
	return s.DumpOverhead.Seconds() + float64(dumpBytes(t, s))/s.Write
}

// restoreAfter is how long it takes to bring t back from a checkpoint that is yet
// to be written to s.
func restoreAfter(t *headrace.TaskView, s *headrace.StoreView) float64 {
	size := dumpBytes(t, s)
	if t.Checkpoint != nil && t.Checkpoint.Store == s.Name {
		size += t.Checkpoint.Bytes
	}
	return s.RestoreOverhead.Seconds() + float64(size)/s.Read
}

// restore is how long it takes to bring t back on n from the checkpoint it has;
// zero without one, and where nothing is known about its store.
func restore(t *headrace.TaskView, n *node) float64 {
	if t.Checkpoint == nil {
		return 0
	}
	s := n.storeNamed(t.Checkpoint.Store)
	if s == nil || s.Read <= 0 {
		return 0
	}
	return s.RestoreOverhead.Seconds() + float64(t.Checkpoint.Bytes)/s.Read
}

// canDump reports whether t can be checkpointed to store i of its node, after
// acts have used some of its room.
func canDump(t *task, i int, acts []act) bool {
	s := &t.n.stores[i]
	if !dumps(t, s.StoreView) {
		return false
	}
	free := s.free
	for _, a := range acts {
		if a.mech == headrace.Checkpoint && a.store == i {
			free -= dumpBytes(a.t.TaskView, s.StoreView)
		}
	}
	return dumpBytes(t.TaskView, s.StoreView) <= free
}

// ahead is how long acts keep store i busy.
func ahead(n *node, i int, acts []act) float64 {
	var sum float64
	for _, a := range acts {
		if a.mech == headrace.Checkpoint && a.store == i {
			sum += dump(a.t.TaskView, n.stores[i].StoreView)
		}
	}
	return sum
}

// dumps reports whether t can be checkpointed to s, if there is room.
func dumps(t *task, s *headrace.StoreView) bool {
	return t.NoCheckpoint == "" && s.Write > 0 && s.Read > 0
}

// storeNamed is the store of that name, or nil.
func (n *node) storeNamed(name string) *store {
	for i := range n.stores {
		if n.stores[i].Name == name {
			return &n.stores[i]
		}
	}
	return nil
}
