package policy

import (
	"math"
	"math/bits"
	"time"

	"headrace"
	"headrace/policy/internal/words"
)

// maxStores is how many stores of a node the cost model weighs against each
// other; further ones are used by the other policies only.
const maxStores = 8

// unknownRemaining is the least time that a task of unknown share is expected to
// go on: an age of nothing says nothing.
const unknownRemaining = time.Second

// stopTime and killTime are how long a suspend and a kill take apart from the memory.
const (
	stopTime = 100 * time.Millisecond
	killTime = 200 * time.Millisecond
)

// model says what acts cost, as the comment of package policy states it.
type model struct {
	overlap float64 // see ledger
	weights [headrace.MaxPriority + 1]float64
}

// newModel is the model in which doubling steps of priority double the weight of a
// second; not above zero: all seconds weigh the same.
func newModel(overlap, doubling float64) *model {
	m := &model{overlap: overlap}
	for p := range m.weights {
		m.weights[p] = 1
		if doubling > 0 {
			m.weights[p] = math.Exp2(float64(p) / doubling)
		}
	}
	return m
}

// price is what one act does on its own, in seconds: how long until the resources
// are free, without queues, and the work it throws away.
type price struct{ delay, waste float64 }

// cost is what a whole plan does, in seconds; total is weighted by priorities.
type cost struct{ delay, waste, total float64 }

// option is an act with its price: its waste weighted, and what it writes to its store.
type option struct {
	act
	price
	weighted float64
	bytes    int64
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
		return words.Seconds(left)
	}
	return max(t.Progress.TotalWall, t.Running, unknownRemaining)
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

// price is the price of a on n, alone and without queues.
func (m *model) price(n *node, a act) price {
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

// option is a on n with its price.
func (m *model) option(n *node, a act) option {
	o := option{act: a, price: m.price(n, a)}
	o.weighted = o.waste * m.weight(a.t.Priority)
	if a.mech == headrace.Checkpoint {
		o.bytes = dumpBytes(a.t.TaskView, n.stores[a.store].StoreView)
	}
	return o
}

// paging is the price of paging bytes out and later in again.
func (m *model) paging(n *node, bytes int64) price {
	if bytes <= 0 {
		return price{}
	}
	b := float64(bytes)
	return price{(1 - m.overlap/2) * b / n.SwapOut, b/n.SwapOut + b/n.SwapIn}
}

// weight is what a second of a task of priority p counts.
func (m *model) weight(p headrace.Priority) float64 {
	return m.weights[min(p, headrace.MaxPriority)]
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

// count adds an option.
func (y *tally) count(o *option) {
	switch o.mech {
	case headrace.Kill:
		y.kill = max(y.kill, o.delay)
	case headrace.Suspend:
		y.stop = max(y.stop, o.delay)
	case headrace.Wait:
		y.wait = max(y.wait, o.delay)
	case headrace.Checkpoint:
		y.busy[o.store] += o.delay
		y.bytes[o.store] += o.bytes
		y.used |= 1 << o.store
	}
	y.waste += o.waste
	y.weighted += o.weighted
}

// delay is how long the urgent task waits for its room, but for page-outs.
func (y *tally) delay(n *node) float64 {
	least := max(y.kill, y.stop, y.wait)
	for s := y.used; s != 0; s &= s - 1 {
		i := bits.TrailingZeros8(s)
		least = max(least, n.stores[i].queue+y.busy[i])
	}
	return least
}

// roomy reports whether the dumps of y fit in their stores.
func (y *tally) roomy(n *node) bool {
	for s := y.used; s != 0; s &= s - 1 {
		if i := bits.TrailingZeros8(s); y.bytes[i] > n.stores[i].free {
			return false
		}
	}
	return true
}

// sum is the cost for u of the tally y of acts, when page bytes go to swap.
func (m *model) sum(u *task, n *node, y *tally, acts []act, page int64) cost {
	c := cost{delay: y.delay(n), waste: y.waste}
	weighted := y.weighted
	if page > 0 {
		c.delay = max(c.delay, y.stop+m.paging(n, page).delay)
		for _, o := range n.allot(u, acts, page) {
			w := m.paging(n, o.bytes).waste
			c.waste += w
			weighted += w * m.weight(o.t.Priority)
		}
	}
	c.total = c.delay*m.weight(u.Priority) + weighted
	return c
}

// costOf is the cost for u of a whole plan.
func (m *model) costOf(u *task, n *node, acts []act, page int64) cost {
	var y tally
	for _, a := range acts {
		if a.store < maxStores {
			o := m.option(n, a)
			y.count(&o)
		}
	}
	return m.sum(u, n, &y, acts, page)
}

// floor is what any plan for u with o costs at least.
func (m *model) floor(u *task, n *node, o *option) float64 {
	delay := o.delay
	if o.mech == headrace.Checkpoint {
		delay += n.stores[o.store].queue
	}
	return o.weighted + delay*m.weight(u.Priority)
}
