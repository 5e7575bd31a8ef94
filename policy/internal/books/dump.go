package books

import (
	"math"

	"headrace"
)

// DumpBytes says what a checkpoint of t in s has to write. A checkpoint in another
// store than the last one cannot build on it.
func DumpBytes(t *headrace.TaskView, s *headrace.StoreView) int64 {
	if t.Checkpoint != nil && t.Checkpoint.Store != s.Name {
		return max(t.Dirty, t.Resident+t.Swapped)
	}
	return t.Dirty
}

// Dump says how long a checkpoint of t in s takes, in seconds, once it is its turn.
func Dump(t *headrace.TaskView, s *headrace.StoreView) float64 {
	return s.DumpOverhead.Seconds() + float64(DumpBytes(t, s))/s.Write
}

// ImageBytes says how much there is to read of a checkpoint of t that is yet to be written to
// s, with what it builds on.
func ImageBytes(t *headrace.TaskView, s *headrace.StoreView) int64 {
	size := DumpBytes(t, s)
	if t.Checkpoint != nil && t.Checkpoint.Store == s.Name {
		size += t.Checkpoint.Bytes
	}
	return size
}

// RestoreAfter says how long it takes to bring t back from a checkpoint that is yet
// to be written to s.
func RestoreAfter(t *headrace.TaskView, s *headrace.StoreView) float64 {
	return s.RestoreOverhead.Seconds() + float64(ImageBytes(t, s))/s.Read
}

// Restore says how long it takes to bring t back on n from the checkpoint it has;
// zero without one, and where nothing is known about its store.
func Restore(t *headrace.TaskView, n *Node) float64 {
	if t.Checkpoint == nil {
		return 0
	}
	s := n.StoreNamed(t.Checkpoint.Store)
	if s == nil || s.Read <= 0 {
		return 0
	}
	return s.RestoreOverhead.Seconds() + float64(t.Checkpoint.Bytes)/s.Read
}

// CanDump reports whether t can be checkpointed to store i of its node, after
// acts have used some of its room.
func CanDump(t *Task, i int, acts []Act) bool {
	s := &t.Home.Stores[i]
	if !Dumps(t, s.StoreView) {
		return false
	}
	free := s.Free
	for _, a := range acts {
		if a.By == headrace.Checkpoint && a.Store == i {
			free -= DumpBytes(a.Task.TaskView, s.StoreView)
		}
	}
	return DumpBytes(t.TaskView, s.StoreView) <= free
}

// Ahead says how long acts keep store i busy.
func Ahead(n *Node, i int, acts []Act) float64 {
	var sum float64
	for _, a := range acts {
		if a.By == headrace.Checkpoint && a.Store == i {
			sum += Dump(a.Task.TaskView, n.Stores[i].StoreView)
		}
	}
	return sum
}

// Dumps reports whether t can be checkpointed to s, if there is room.
func Dumps(t *Task, s *headrace.StoreView) bool {
	return t.NoCheckpoint == "" && t.Gang == 0 && s.Write > 0 && s.Read > 0
}

// Fetch enters that a checkpoint of t, of so many bytes in a store of that name of its own node,
// is brought back on n: it has a turn there, and room where it is sent to.
func (n *Node) Fetch(t *headrace.TaskView, store string, bytes int64) {
	s, sent := n.StoreNamed(store), n.ID != t.Node
	if sent {
		s = n.StoreFor(store)
	}
	if s == nil || s.Read <= 0 {
		return
	}
	n.save()
	s.add(s.RestoreOverhead.Seconds() + float64(bytes)/s.Read)
	if sent {
		s.Free -= bytes
	}
}

// line is the restores of one user that are ordered at a store of a node and not done.
type line struct {
	node  int
	store string
	user  uint32
}

// restores says how many they are, and how many seconds they take in all.
type restores struct {
	tasks   int
	seconds float64
}

// enough is how many seconds of restores are ordered ahead of the one that a store works at.
const enough = 10

// Restoring enters that t is being brought back on n, if it comes from a checkpoint.
func (l *Ledger) Restoring(n *Node, t *headrace.TaskView) {
	if !Restorable(t) {
		return
	}
	if s := n.StoreFor(t.Checkpoint.Store); s != nil && s.Read > 0 {
		is := line{n.Index, s.Name, t.User}
		r := l.restoring[is]
		l.restoring[is] = restores{r.tasks + 1, r.seconds + s.RestoreOverhead.Seconds() + float64(t.Checkpoint.Bytes)/s.Read}
	}
}

// BringsBackOthers reports whether the store of n from which t, whose own node that is, comes back has
// restores enough of its user: one that it works at and one behind, or several small ones. Between
// users the store deals out the turns.
func (l *Ledger) BringsBackOthers(n *Node, t *headrace.TaskView) bool {
	r := l.restoring[line{n.Index, t.Checkpoint.Store, t.User}]
	return r.tasks > 1 && r.seconds > enough
}

// StoreFor returns the store to which a checkpoint is sent from one of that name of another
// node: that of the same name, else the first, or nil.
func (n *Node) StoreFor(name string) *Store {
	if s := n.StoreNamed(name); s != nil || len(n.Stores) == 0 {
		return s
	}
	return &n.Stores[0]
}

// StoreNamed returns the store of that name, or nil.
func (n *Node) StoreNamed(name string) *Store {
	for i := range n.Stores {
		if n.Stores[i].Name == name {
			return &n.Stores[i]
		}
	}
	return nil
}

// dumps is what those will free who are being checkpointed on a node, and how many seconds that takes.
type dumps struct {
	frees   Room
	seconds float64
}

// add enters that t, which is leaving n, will free so much, if it is being checkpointed.
func (d *dumps) add(n *Node, t *headrace.TaskView, frees Room) {
	if t.LeavingBy != headrace.Checkpoint {
		return
	}
	least := math.Inf(1)
	for i := range n.Stores { // to which of them is not known
		if s := n.Stores[i].StoreView; s.Write > 0 {
			least = min(least, Dump(t, s))
		}
	}
	if !math.IsInf(least, 1) {
		d.frees.take(-frees.CPUs, -frees.Mem)
		d.seconds += least
	}
}

// Dumping says how many seconds it takes, at most, until all are gone that are being checkpointed.
func (n *Node) Dumping() float64 {
	var queue float64
	for i := range n.Stores {
		queue = max(queue, n.Stores[i].Busy().Seconds())
	}
	if queue > 0 {
		return min(queue, n.dumps.seconds)
	}
	return n.dumps.seconds
}

// WithoutDumps sees n as if those that are being checkpointed were to stay, until back is called.
func (n *Node) WithoutDumps() (back func()) {
	later := n.Later
	n.Later.take(n.dumps.frees.CPUs, n.dumps.frees.Mem)
	return func() { n.Later = later }
}

// AwaitsDumps reports whether u, which can be started on n once those that are leaving are gone,
// has to wait for dumps.
func (n *Node) AwaitsDumps(u *Task) bool {
	if n.Dumping() <= 0 {
		return false
	}
	defer n.WithoutDumps()()
	return !n.FitsLater(u)
}
