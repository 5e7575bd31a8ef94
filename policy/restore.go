package policy

import (
	"cmp"
	"math"
	"slices"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// algorithm2 decides where to bring back u from its checkpoint now: the node, or
// nil. stay reports that waiting for room on its own node is expected to be
// sooner than moving it now to a node that has room.
//
//	overhead_local  = size/bw_read + queue_local
//	overhead_remote = size/bw_net + size/bw_read + queue_remote
//
// As the paper says in words, the local queue includes the wait for room when
// there is none: the expected time until enough of what runs there has ended.
// The remote store is the one of the same name, else the first.
func (f *fleet) algorithm2(u *task) (n *node, stay bool) {
	remote, far := f.bestRemote(u)
	local := u.n
	if local == nil {
		return nil, false // the checkpoint is out of reach
	}
	s := local.storeNamed(u.Checkpoint.Store)
	if s == nil || s.Read <= 0 {
		return f.unmeasured(u)
	}
	near := float64(u.Checkpoint.Bytes)/s.Read + s.queue
	if local.fits(u) {
		if remote == nil || near <= far {
			return local, false
		}
		return remote, false
	}
	if remote != nil && f.drains(u, local, far, near) {
		return nil, true
	}
	return remote, false
}

// end is that a task ends by itself, in so many seconds.
type end struct {
	act
	in float64
}

// drains reports whether u is expected to fit on n, because others have ended, early
// enough for what takes so much time after that to be over by the given time.
func (f *fleet) drains(u *task, n *node, by, after float64) bool {
	b := n.balance(u)
	if b.fits(n.swap) {
		return after <= by
	}
	n.open()
	f.ends = f.ends[:0]
	for _, t := range n.running {
		if t.settled {
			continue
		}
		if in := remaining(t.TaskView).Seconds(); after+in <= by {
			f.ends = append(f.ends, end{act{t, headrace.Wait, -1}, in})
		}
	}
	slices.SortStableFunc(f.ends, func(a, b end) int { return cmp.Compare(a.in, b.in) })
	for _, e := range f.ends {
		if b = b.with(e.act); b.fits(n.swap) {
			return true
		}
	}
	return false
}

// unmeasured brings u back on its own node when the bandwidth of its store is
// not known, or waits for room there.
func (f *fleet) unmeasured(u *task) (n *node, stay bool) {
	if u.n.fits(u) {
		return u.n, false
	}
	return nil, true
}

func (f *fleet) bestRemote(u *task) (best *node, least float64) {
	least = math.Inf(1)
	if u.n == nil || u.n.Net <= 0 || f.fails(u, kindNow) {
		return nil, least
	}
	mem := f.leastDemand(u)
	for i := f.free.next(0, u.CPUs, mem); i >= 0; i = f.free.next(i+1, u.CPUs, mem) {
		n := &f.nodes[i]
		if n == u.n || !n.fits(u) {
			continue
		}
		if far, ok := remoteOverhead(u, n); ok && far < least {
			best, least = n, far
		}
	}
	return best, least
}

// remoteOverhead is algorithm 2's overhead_remote for n, in seconds.
func remoteOverhead(u *task, n *node) (seconds float64, ok bool) {
	net := min(u.n.Net, n.Net)
	if net <= 0 || len(n.stores) == 0 {
		return 0, false
	}
	s := n.storeNamed(u.Checkpoint.Store)
	if s == nil {
		s = &n.stores[0]
	}
	size := u.Checkpoint.Bytes
	if s.Read <= 0 || s.free < size {
		return 0, false
	}
	return float64(size)/net + float64(size)/s.Read + s.queue, true
}

// may reports whether u can be brought to run on n at all.
func may(u *task, n *node) bool {
	switch {
	case u.State == headrace.Suspended:
		return u.n == n
	case restorable(u.TaskView) && u.n != n:
		if u.n == nil {
			return false
		}
		_, ok := remoteOverhead(u, n)
		return ok
	}
	return true
}

// comeBack is how long it takes to bring u back on n, and the reason in words.
func comeBack(u *task, n *node) (time.Duration, string) {
	if n == u.n {
		return words.Seconds(restore(u.TaskView, n)), "there is room again"
	}
	took, _ := remoteOverhead(u, n)
	return words.Seconds(took), "moving its checkpoint to " + string(n.ID) + " takes less time than waiting for " + string(u.n.ID)
}
