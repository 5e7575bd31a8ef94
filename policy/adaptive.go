package policy

import (
	"cmp"
	"math"
	"slices"

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
func (d *decision) algorithm1(t *task, acts []act) act {
	s, least := d.adaptiveStore(t, acts)
	if s >= 0 && t.Progress.Wall.Seconds() > least {
		return act{t, headrace.Checkpoint, s}
	}
	return act{t, headrace.Kill, -1}
}

func (d *decision) adaptiveStore(t *task, acts []act) (best int, least float64) {
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

func (d *decision) whyAdaptive(a act) string {
	if a.mech == headrace.Checkpoint {
		return "; progress " + short(a.t.Progress.Wall.Seconds()) + " exceeds the overhead of a checkpoint"
	}
	if why := d.noCheckpoint(a.t); why != "" {
		return "; it cannot be checkpointed: " + why
	}
	return "; progress " + short(a.t.Progress.Wall.Seconds()) + " does not exceed the overhead of a checkpoint"
}

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
func (d *decision) algorithm2(u *task) (n *node, stay bool) {
	remote, far := d.bestRemote(u)
	local := u.n
	if local == nil {
		return nil, false // the checkpoint is out of reach
	}
	s := storeNamed(local, u.Checkpoint.Store)
	if s == nil || s.Read <= 0 {
		return d.unmeasured(u)
	}
	near := float64(u.Checkpoint.Bytes)/s.Read + s.queue
	if d.fits(u, local) {
		if remote == nil || near <= far {
			return local, false
		}
		return remote, false
	}
	if remote != nil && d.drains(u, local, far, near) {
		return nil, true
	}
	return remote, false
}

// drains reports whether u is expected to fit on n, because others have ended, early
// enough for what takes so much time after that to be over by the given time.
func (d *decision) drains(u *task, n *node, by, after float64) bool {
	b := d.balance(u, n)
	if b.fits(n.swap) {
		return after <= by
	}
	d.open(n)
	d.ends = d.ends[:0]
	for _, t := range n.running {
		if t.settled {
			continue
		}
		if end := remaining(t.TaskView).Seconds(); after+end <= by {
			d.ends = append(d.ends, option{act{t, headrace.Wait, -1}, price{delay: end}})
		}
	}
	slices.SortStableFunc(d.ends, func(a, b option) int { return cmp.Compare(a.delay, b.delay) })
	for _, o := range d.ends {
		if b = b.with(o.act); b.fits(n.swap) {
			return true
		}
	}
	return false
}

// unmeasured brings u back on its own node when the bandwidth of its store is
// not known, or waits for room there.
func (d *decision) unmeasured(u *task) (n *node, stay bool) {
	if d.fits(u, u.n) {
		return u.n, false
	}
	return nil, true
}

func (d *decision) bestRemote(u *task) (best *node, least float64) {
	least = math.Inf(1)
	if u.n == nil || u.n.Net <= 0 || d.fails(u, kindNow) {
		return nil, least
	}
	mem := d.leastDemand(u)
	for i := d.free.next(0, u.CPUs, mem); i >= 0; i = d.free.next(i+1, u.CPUs, mem) {
		n := &d.nodes[i]
		if n == u.n || !d.fits(u, n) {
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
	s := storeNamed(n, u.Checkpoint.Store)
	if s == nil {
		s = &n.stores[0]
	}
	size := u.Checkpoint.Bytes
	if s.Read <= 0 || s.free < size {
		return 0, false
	}
	return float64(size)/net + float64(size)/s.Read + s.queue, true
}

func storeNamed(n *node, name string) *store {
	for i := range n.stores {
		if n.stores[i].Name == name {
			return &n.stores[i]
		}
	}
	return nil
}
