package price

import (
	"math"
	"math/bits"
	"time"

	"headrace"
	"headrace/policy/internal/books"
	"headrace/policy/internal/words"
)

// MaxStores is how many stores of a node the cost model weighs against each
// other; further ones are used by the other policies only.
const MaxStores = 8

// unknownRemaining is the least time that a task of unknown share is expected to
// go on: an age of nothing says nothing.
const unknownRemaining = time.Second

// stopTime and KillTime are how long a suspend and a kill take apart from the memory.
const (
	stopTime = 100 * time.Millisecond
	KillTime = 200 * time.Millisecond
)

// Model says what acts cost, as the comment of package policy states it.
type Model struct {
	overlap float64 // see ledger
	weights [headrace.MaxPriority + 1]float64
}

// New returns the model in which doubling steps of priority double the weight of a
// second; not above zero: all seconds weigh the same.
func New(overlap, doubling float64) *Model {
	m := &Model{overlap: overlap}
	for p := range m.weights {
		m.weights[p] = 1
		if doubling > 0 {
			m.weights[p] = math.Exp2(float64(p) / doubling)
		}
	}
	return m
}

// Price is what one act does on its own, in seconds: how long until the resources
// are free, without queues, and the work it throws away.
type Price struct{ Delay, Waste float64 }

// Cost is what a whole plan does, in seconds; total is weighted by priorities.
type Cost struct{ Delay, Waste, Total float64 }

// Option is an act with its price: its waste weighted, and what it writes to its store.
type Option struct {
	books.Act
	Price
	Weighted float64
	Bytes    int64
}

// Remaining returns the expected time until the running task t ends by itself: by its
// share where it is known, else as long as it has run so far. The latter is the
// median of a lifetime with a tail like 1/t (Harchol-Balter and Downey 1997). In the same
// way a task that has outlived the end it promised goes on for as long as it is late: else
// one that says that it is done, and is not, would be waited for forever.
func Remaining(t *headrace.TaskView) time.Duration {
	if books.ShareKnown(t) {
		left := t.Progress.TotalWall.Seconds() * (1 - t.Progress.Share) / t.Progress.Share
		return max(words.Seconds(left), late(t))
	}
	return max(t.Progress.TotalWall, t.Running, unknownRemaining)
}

// late returns for how long t has outlived the end it promised.
func late(t *headrace.TaskView) time.Duration {
	if t.Progress.Promised <= 0 {
		return 0
	}
	return t.Progress.TotalWall - t.Progress.Promised
}

// Promised returns the end that t tells by its share, or told before, if that is earlier, as
// a TotalWall; zero: it tells none.
func Promised(t *headrace.TaskView) time.Duration {
	p := t.Progress.Promised
	if !books.ShareKnown(t) {
		return p
	}
	end := words.Seconds(t.Progress.TotalWall.Seconds() / t.Progress.Share)
	if p > 0 {
		end = min(end, p)
	}
	return end
}

// BestStore returns the store on which t is dumped, for the owner of u, and restored soonest, or -1.
func BestStore(u *headrace.TaskView, t *books.Task, acts []books.Act) int {
	best, least := -1, math.Inf(1)
	for i := range t.Home.Stores {
		if !books.CanDump(t, i, acts) {
			continue
		}
		s := &t.Home.Stores[i]
		took := s.Wait(u) + books.Ahead(t.Home, i, acts) + books.Dump(t.TaskView, s.StoreView) + books.RestoreAfter(t.TaskView, s.StoreView)
		if took < least {
			best, least = i, took
		}
	}
	return best
}

// Redo says how long t takes to get again to where it is from its start or its last checkpoint,
// in seconds: as long as it took, with what it found in memory and would have to read from
// the disks of n now, and without what it had to read from there and would find in memory.
func Redo(t *headrace.TaskView, n *books.Node) float64 {
	return max(0, t.Progress.Wall.Seconds()+n.Reads(t.Input.Cold-t.Input.FromDisk))
}

// Slot says what it costs that u runs on n, which has so much of its input in memory, rather
// than on one that has all of it: the time that it reads the rest, weighted.
func (m *Model) Slot(u *books.Task, n *books.Node, resident int64) float64 {
	all := max(0, u.Input.Bytes)
	return n.Reads(all-max(0, min(resident, all))) * m.Urgency(u)
}

// Of returns the price of a on n, alone and without queues.
func (m *Model) Of(n *books.Node, a books.Act) Price {
	t := a.Task.TaskView
	switch a.By {
	case headrace.Kill:
		return Price{KillTime.Seconds(), Redo(t, n) + books.Restore(t, n)}
	case headrace.Suspend:
		return Price{stopTime.Seconds(), 0}
	case headrace.Checkpoint:
		s := n.Stores[a.Store].StoreView
		took := books.Dump(t, s)
		return Price{took, took + books.RestoreAfter(t, s)}
	}
	return Price{Remaining(t).Seconds(), 0}
}

// Option returns a on n with its price, which is that of Of.
func (m *Model) Option(n *books.Node, a books.Act, p Price) Option {
	o := Option{Act: a, Price: p, Weighted: p.Waste * m.Weight(a.Task.Priority)}
	if a.By == headrace.Checkpoint {
		o.Bytes = books.DumpBytes(a.Task.TaskView, n.Stores[a.Store].StoreView)
	}
	return o
}

// Paging returns the price of paging bytes out and later in again.
func (m *Model) Paging(n *books.Node, bytes int64) Price {
	if bytes <= 0 {
		return Price{}
	}
	b := float64(bytes)
	return Price{(1 - m.overlap/2) * b / n.SwapOut, b/n.SwapOut + b/n.SwapIn}
}

// Weight says what a second of a task of priority p counts.
func (m *Model) Weight(p headrace.Priority) float64 {
	return m.weights[min(p, headrace.MaxPriority)]
}

// Urgency says what a second counts by which u comes to run later: it delays all of its
// gang that wait.
func (m *Model) Urgency(u *books.Task) float64 {
	return m.Weight(u.Priority) * float64(u.Together())
}

// Tally adds up a set of options. Acts on different devices overlap; those on one
// store follow each other.
type Tally struct {
	kill, stop, wait float64
	Busy             [MaxStores]float64
	Bytes            [MaxStores]int64
	used             uint8 // a bit for each store
	waste, Weighted  float64
}

// Count adds an option.
func (y *Tally) Count(o *Option) {
	switch o.By {
	case headrace.Kill:
		y.kill = max(y.kill, o.Delay)
	case headrace.Suspend:
		y.stop = max(y.stop, o.Delay)
	case headrace.Wait:
		y.wait = max(y.wait, o.Delay)
	case headrace.Checkpoint:
		y.Busy[o.Store] += o.Delay
		y.Bytes[o.Store] += o.Bytes
		y.used |= 1 << o.Store
	}
	y.waste += o.Waste
	y.Weighted += o.Weighted
}

// Delay says how long the urgent task u waits for its room, but for page-outs.
func (y *Tally) Delay(u *books.Task, n *books.Node) float64 {
	least := max(y.kill, y.stop, y.wait)
	for s := y.used; s != 0; s &= s - 1 {
		i := bits.TrailingZeros8(s)
		least = max(least, n.Stores[i].Wait(u.TaskView)+y.Busy[i])
	}
	return least
}

// Roomy reports whether the dumps of y fit in their stores.
func (y *Tally) Roomy(n *books.Node) bool {
	for s := y.used; s != 0; s &= s - 1 {
		if i := bits.TrailingZeros8(s); y.Bytes[i] > n.Stores[i].Free {
			return false
		}
	}
	return true
}

// Sum returns the cost for u of the tally y of acts, when page bytes go to swap.
func (m *Model) Sum(u *books.Task, n *books.Node, y *Tally, acts []books.Act, page int64) Cost {
	c := Cost{Delay: y.Delay(u, n), Waste: y.waste}
	weighted := y.Weighted
	if page > 0 {
		c.Delay = max(c.Delay, y.stop+m.Paging(n, page).Delay)
		for _, o := range n.Allot(u, acts, page) {
			w := m.Paging(n, o.Bytes).Waste
			c.Waste += w
			weighted += w * m.Weight(o.Task.Priority)
		}
	}
	c.Total = c.Delay*m.Urgency(u) + weighted
	return c
}

// Plan returns the cost for u of a whole plan.
func (m *Model) Plan(u *books.Task, n *books.Node, acts []books.Act, page int64) Cost {
	var y Tally
	for _, a := range acts {
		if a.Store < MaxStores {
			o := m.Option(n, a, m.Of(n, a))
			y.Count(&o)
		}
	}
	return m.Sum(u, n, &y, acts, page)
}

// Floor says what any plan for u with a, of price p, costs at least.
func (m *Model) Floor(u *books.Task, n *books.Node, a books.Act, p Price) float64 {
	delay := p.Delay
	if a.By == headrace.Checkpoint {
		delay += n.Stores[a.Store].Wait(u.TaskView)
	}
	return p.Waste*m.Weight(a.Task.Priority) + delay*m.Urgency(u)
}
