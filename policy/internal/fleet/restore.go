package fleet

import (
	"math"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/price"
	"headrace/policy/internal/victims"
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
func (f *Fleet) algorithm2(u *books.Task) (n *books.Node, stay bool) {
	remote, far := f.bestRemote(u)
	local := u.Home
	if local == nil {
		return nil, false // the checkpoint is out of reach
	}
	s := local.StoreNamed(u.Checkpoint.Store)
	if s == nil || s.Read <= 0 {
		return unmeasured(u)
	}
	near := float64(u.Checkpoint.Bytes)/s.Read + s.Wait(u.TaskView)
	if local.Fits(u) {
		if remote == nil || near <= far {
			return local, false
		}
		return remote, false
	}
	if remote != nil && f.odds.drains(u, local, far, near) {
		return nil, true
	}
	return remote, false
}

// odds says what those that run on a node are expected to free. Parts is of ending.
type odds struct{ parts []freed }

// drains reports whether u is expected to fit on n, because others have ended, early
// enough for what takes so much time after that to be over by the given time: whether by
// then half of all courses would have freed enough. A task that does not say how much
// of it is done ends within its age with a chance of one half, and within t with one of
// t/(t+age) (price.Remaining); of many the first ends soon.
func (o *odds) drains(u *books.Task, n *books.Node, by, after float64) bool {
	b := n.Balance(u)
	if b.Fits(n.Swap) {
		return after <= by
	}
	t := by - after
	if t <= 0 || b.Rest.Lacking() > 0 {
		return false
	}
	for _, part := range o.ending(n, b, t) {
		if !part.enough() {
			return false
		}
	}
	return true
}

// Opens reports whether so many rooms for u are expected on its spots within t seconds, because
// others have ended: in the mean, but for half a one, as with drains.
func (f *Fleet) Opens(u *books.Task, s Spots, rooms int, t float64) bool {
	missing := float64(rooms) - 0.5
	for _, n := range f.List(u, s) {
		b := n.Balance(u)
		if missing <= 0 {
			break
		}
		if !n.Possible(u) || b.Fits(n.Swap) {
			continue
		}
		least := math.Inf(1)
		for _, part := range f.odds.ending(n, b, t) {
			least = min(least, part.rooms())
		}
		missing -= least
	}
	return missing <= 0
}

// ending says what those that run on n free within t seconds of what is missing by b: CPUs,
// memory, and what is counted. It is valid until the next call.
func (o *odds) ending(n *books.Node, b books.Balance, t float64) []freed {
	o.parts = append(o.parts[:0], freed{missing: max(0, b.CPUs)}, freed{missing: float64(b.Short(n.Swap))})
	if b.Rest != nil {
		for _, m := range b.Rest.Counted {
			o.parts = append(o.parts, freed{missing: max(0, m)})
		}
	}
	n.Open()
	for _, v := range n.Running {
		if v.Settled {
			continue
		}
		left := price.Remaining(v.TaskView).Seconds()
		ended := t / (t + left)
		if v.KnowsShare {
			ended = 0
			if left <= t {
				ended = 1
			}
		}
		o.parts[0].add(v.CPUs, ended)
		o.parts[1].add(float64(books.Held(v.TaskView)), ended)
		for r := range o.parts[2:] {
			if r < len(v.Counted) {
				o.parts[2+r].add(v.Counted[r], ended)
			}
		}
	}
	return o.parts
}

// freed adds up what tasks free that may end.
type freed struct{ missing, mean, squares float64 }

// add adds a task that frees so much with that chance. More than what is missing is no use.
func (f *freed) add(some, chance float64) {
	some = min(some, f.missing)
	f.mean, f.squares = f.mean+chance*some, f.squares+chance*some*some
}

// enough reports whether in half of all courses nothing is missing: the median of how many have
// ended is half a task above where the mean crosses it, and a task is as large as those that
// end are in the mean.
func (f *freed) enough() bool {
	if f.missing <= books.Slack || f.mean <= 0 {
		return f.missing <= books.Slack
	}
	return f.mean+f.squares/f.mean/2 >= f.missing
}

// rooms says how often what is missing is free in the mean: where several have to end for one
// room, by the chance that all do, of as many as it takes.
func (f *freed) rooms() float64 {
	switch {
	case f.missing <= books.Slack:
		return math.Inf(1)
	case f.mean <= 0:
		return 0
	}
	if share := f.mean / f.missing; share < 1 {
		return math.Pow(share, f.missing*f.mean/f.squares)
	}
	return f.mean / f.missing
}

// unmeasured brings u back on its own node when the bandwidth of its store is
// not known, or waits for room there.
func unmeasured(u *books.Task) (n *books.Node, stay bool) {
	if u.Home.Fits(u) {
		return u.Home, false
	}
	return nil, true
}

func (f *Fleet) bestRemote(u *books.Task) (best *books.Node, least float64) {
	if u.Home == nil || u.Home.Net <= 0 || f.fails(u, Now) {
		return nil, math.Inf(1)
	}
	return f.soonest(u, f.leastDemand(u), u.Checkpoint.Store, u.Checkpoint.Bytes)
}

// soonest returns the node on which u fits, which needs so much memory at least, and where a
// checkpoint of so many bytes in a store of its own node is brought back first, and how long
// that takes.
func (f *Fleet) soonest(u *books.Task, mem int64, store string, size int64) (best *books.Node, least float64) {
	least = math.Inf(1)
	atLeast := float64(size)/min(u.Home.Net, f.MostNet) + float64(size)/f.MostRead
	for i := f.free.next(0, u.CPUs, mem); i >= 0 && least > atLeast; i = f.free.next(i+1, u.CPUs, mem) {
		n := &f.Nodes[i]
		if n == u.Home || !n.Fits(u) {
			continue
		}
		if took, ok := remoteFrom(u, n, store, size); ok && took < least {
			best, least = n, took
		}
	}
	return best, least
}

// remoteOverhead returns algorithm 2's overhead_remote for n, in seconds.
func remoteOverhead(u *books.Task, n *books.Node) (seconds float64, ok bool) {
	return remoteFrom(u, n, u.Checkpoint.Store, u.Checkpoint.Bytes)
}

// remoteFrom returns how long it takes to bring u back on n from a checkpoint of so many bytes
// in a store of its own node.
func remoteFrom(u *books.Task, n *books.Node, store string, size int64) (seconds float64, ok bool) {
	net, s := min(u.Home.Net, n.Net), n.StoreFor(store)
	if net <= 0 || s == nil || s.Read <= 0 || s.Free < size {
		return 0, false
	}
	return float64(size)/net + float64(size)/s.Read + s.Wait(u.TaskView), true
}

// A Move is how a suspended task goes on where there is room, so long after: it is dumped
// to a store of its node and comes back, or is killed and begins again (Again), where it
// loses less.
type Move struct {
	To    *books.Node
	Store int
	Bytes int64 // of the checkpoint
	Again bool
	Takes time.Duration
}

// CanMove reports whether the suspended u can go on elsewhere from a checkpoint, and the
// store of its node that serves best.
func CanMove(u *books.Task) (store int, ok bool) {
	if !victims.Movable(nil, u) || u.Home.Net <= 0 {
		return -1, false
	}
	store = price.BestStore(u.TaskView, u, nil)
	return store, store >= 0
}

// Elsewhere finds the node with room on which u, which is suspended and finds none at
// home, would go on soonest. It reports false when that would not be before there is room
// at home, as algorithm 2 of checkpoint-preemption weighs it (section 4.1):
//
//	overhead_remote = queue + dump + size/bw_net + size/bw_read + queue_remote
//
// With mayKill the move is by a kill when u has run for less since its start than it would
// hold its new place only to be read there; and when it cannot be checkpointed, see anew.
func (f *Fleet) Elsewhere(u *books.Task, mayKill bool) (m Move, ok bool) {
	mem := min(max(u.MemoryRequest, books.Measured(u.TaskView)), f.LeastMemory)
	if !f.free.anywhere(u.CPUs, mem) {
		return m, false
	}
	if m.Store, ok = CanMove(u); !ok {
		return f.anew(u, mayKill)
	}
	from := &u.Home.Stores[m.Store]
	m.Bytes = books.ImageBytes(u.TaskView, from.StoreView)
	var read float64
	if m.To, read = f.soonest(u, mem, from.Name, m.Bytes); m.To == nil {
		return m, false
	}
	takes := read + from.Wait(u.TaskView) + books.Dump(u.TaskView, from.StoreView)
	if in := u.Home.SwapIn; f.odds.drains(u, u.Home, takes, float64(u.Swapped)/max(in, 1)) {
		return m, false
	}
	m.Takes = words.Seconds(takes)
	if mayKill && u.Checkpoint == nil && price.Redo(u.TaskView, u.Home) < read {
		m.Again, m.Takes = true, price.KillTime
	}
	return m, true
}

// anew finds the node with room on which u, which is suspended and cannot be checkpointed, begins
// again: once it has been suspended for as long as it will then do again, so that both together are
// at most twice what the better of the two would have been, whenever there is room at home (ski
// rental). It reports false before that, and while there is room at home sooner.
func (f *Fleet) anew(u *books.Task, mayKill bool) (Move, bool) {
	redo := price.Redo(u.TaskView, u.Home)
	if !mayKill || u.Checkpoint != nil || !victims.Movable(nil, u) || books.Since(u.TaskView).Seconds() < redo {
		return Move{}, false
	}
	to := f.firstFit(u)
	if to == nil || f.odds.drains(u, u.Home, redo, float64(u.Swapped)/max(u.Home.SwapIn, 1)) {
		return Move{}, false
	}
	return Move{To: to, Again: true, Takes: price.KillTime}, true
}

// May reports whether u can be brought to run on n at all.
func May(u *books.Task, n *books.Node) bool {
	switch {
	case u.State == headrace.Suspended:
		return u.Home == n
	case books.Restorable(u.TaskView) && u.Home != n:
		if u.Home == nil {
			return false
		}
		_, ok := remoteOverhead(u, n)
		return ok
	}
	return true
}

// ComeBack says how long it takes to bring u back on n, and the reason in words.
func ComeBack(u *books.Task, n *books.Node) (time.Duration, string) {
	if n == u.Home {
		took := books.Restore(u.TaskView, n)
		if s := n.StoreNamed(u.Checkpoint.Store); s != nil && took > 0 {
			took += s.Wait(u.TaskView)
		}
		return words.Seconds(took), "there is room again"
	}
	took, _ := remoteOverhead(u, n)
	return words.Seconds(took), "moving its checkpoint to " + string(n.ID) + " takes less time than waiting for " + string(u.Home.ID)
}
