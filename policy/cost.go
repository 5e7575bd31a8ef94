package policy

import (
	"math"
	"math/bits"
	"time"

	"headrace"
)

// maxStores is how many stores of a node the cost model weighs against each
// other; further ones are used by the other policies only.
const maxStores = 8

// unknownRemaining is the least time that a task of unknown share is expected to
// go on: an age of nothing says nothing.
const unknownRemaining = time.Second

// price is what one act does on its own, in seconds: how long until the resources
// are free, without queues, and the work it throws away.
type price struct{ delay, waste float64 }

// cost is what a whole plan does, in seconds; total is weighted by priorities.
type cost struct{ delay, waste, total float64 }

// option is an act of the cost model with its price.
type option struct {
	act
	price
}

// shareKnown reports whether t says how much of it is done.
func shareKnown(t *headrace.TaskView) bool {
	return t.Progress.Share > 0 && t.Progress.Share <= 1 && t.Progress.TotalWall > 0
}

// remaining is the expected time until the running task t ends by itself: by its
// share where it is known, else as long as it has run so far. The latter is the
// median of a lifetime with a tail like 1/t (Harchol-Balter and Downey 1997).
func remaining(t *headrace.TaskView) time.Duration {
	if shareKnown(t) {
		left := t.Progress.TotalWall.Seconds() * (1 - t.Progress.Share) / t.Progress.Share
		return duration(left)
	}
	return max(t.Progress.TotalWall, t.Running, unknownRemaining)
}

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
	s := storeNamed(n, t.Checkpoint.Store)
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

// bestStore is the store on which t is dumped and restored soonest, or -1.
func bestStore(t *task, acts []act) int {
	best, least := -1, math.Inf(1)
	for i := range t.n.stores {
		if !canDump(t, i, acts) {
			continue
		}
		s := &t.n.stores[i]
		took := s.queue + ahead(t.n, i, acts) + dump(t.TaskView, s.StoreView) + restoreAfter(t.TaskView, s.StoreView)
		if took < least {
			best, least = i, took
		}
	}
	return best
}

// price is the model of one act; the package comment states it.
func (d *decision) price(n *node, a act) price {
	t := a.t.TaskView
	switch a.mech {
	case headrace.Kill:
		return price{killTime.Seconds(), t.Progress.Wall.Seconds() + restore(t, n)}
	case headrace.Suspend:
		return price{stopTime.Seconds(), 0}
	case headrace.Checkpoint:
		s := n.stores[a.store].StoreView
		took := dump(t, s)
		return price{took, took + restoreAfter(t, s)}
	}
	return price{remaining(t).Seconds(), 0}
}

// paging is the price of paging bytes out and later in again.
func (d *decision) paging(n *node, bytes int64) price {
	if bytes <= 0 {
		return price{}
	}
	b := float64(bytes)
	return price{(1 - d.c.overlap/2) * b / n.SwapOut, b/n.SwapOut + b/n.SwapIn}
}

// weight is what a second of a task of priority p counts.
func (d *decision) weight(p headrace.Priority) float64 {
	return d.weights[min(p, headrace.MaxPriority)]
}

func weights(c Config) (w [headrace.MaxPriority + 1]float64) {
	for p := range w {
		w[p] = 1
		if c.doubling > 0 {
			w[p] = math.Exp2(float64(p) / c.doubling)
		}
	}
	return w
}

// tally adds up a set of options. Acts on different devices overlap; those on one
// store follow each other.
type tally struct {
	kill, stop, wait float64
	busy             [maxStores]float64
	bytes            [maxStores]int64
	used             uint8 // a bit for each store
	waste, weighted  float64
}

// count adds an option, its waste weighted and, if it is a checkpoint, so many bytes.
func (y *tally) count(o *option, weighted float64, bytes int64) {
	switch o.mech {
	case headrace.Kill:
		y.kill = max(y.kill, o.delay)
	case headrace.Suspend:
		y.stop = max(y.stop, o.delay)
	case headrace.Wait:
		y.wait = max(y.wait, o.delay)
	case headrace.Checkpoint:
		y.busy[o.store] += o.delay
		y.bytes[o.store] += bytes
		y.used |= 1 << o.store
	}
	y.waste += o.waste
	y.weighted += weighted
}

// countAlone is count for an option of which nothing has been worked out yet.
func (d *decision) countAlone(y *tally, o *option) {
	var bytes int64
	if o.mech == headrace.Checkpoint {
		bytes = dumpBytes(o.t.TaskView, o.t.n.stores[o.store].StoreView)
	}
	y.count(o, o.waste*d.weight(o.t.Priority), bytes)
}

// delay is how long the urgent task waits for its room, but for page-outs.
func (y *tally) delay(n *node) float64 {
	least := max(y.kill, y.stop, y.wait)
	for m := y.used; m != 0; m &= m - 1 {
		i := bits.TrailingZeros8(m)
		least = max(least, n.stores[i].queue+y.busy[i])
	}
	return least
}

// roomy reports whether the dumps of y fit in their stores.
func (y *tally) roomy(n *node) bool {
	for m := y.used; m != 0; m &= m - 1 {
		if i := bits.TrailingZeros8(m); y.bytes[i] > n.stores[i].free {
			return false
		}
	}
	return true
}

// sum is the cost for u of the tally y of acts, when page bytes go to swap.
func (d *decision) sum(u *task, n *node, y *tally, acts []act, page int64) cost {
	c := cost{delay: y.delay(n), waste: y.waste}
	weighted := y.weighted
	if page > 0 {
		c.delay = max(c.delay, y.stop+d.paging(n, page).delay)
		for _, o := range d.allot(u, n, acts, page) {
			w := d.paging(n, o.bytes).waste
			c.waste += w
			weighted += w * d.weight(o.t.Priority)
		}
	}
	c.total = c.delay*d.weight(u.Priority) + weighted
	return c
}

// costOf is the cost for u of a whole plan.
func (d *decision) costOf(u *task, n *node, acts []act, page int64) cost {
	var y tally
	for _, a := range acts {
		if a.store < maxStores {
			d.countAlone(&y, &option{a, d.price(n, a)})
		}
	}
	return d.sum(u, n, &y, acts, page)
}

// duration turns seconds into a duration, cut to what one can hold.
func duration(seconds float64) time.Duration {
	const most = float64(math.MaxInt64 / int64(time.Second))
	if !(seconds > 0) {
		return 0
	}
	return time.Duration(min(seconds, most) * float64(time.Second))
}

// short is seconds as a person reads them.
func short(seconds float64) string {
	d := duration(seconds)
	switch {
	case d >= 10*time.Second:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}
