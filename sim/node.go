package sim

import (
	"slices"
	"time"

	"headrace"
)

// node is one machine. Tasks' memory is not counted here: what is in use follows
// from the tasks, as in a view.
type node struct {
	i int32
	v *headrace.NodeView
	// held is how many CPUs tasks hold, tasks how many those are.
	held  float64
	tasks int

	// swapped and stored are what tasks have in swap, and in checkpoints here.
	swapped, stored int64
	// paging is what has to be paged out, the first of it being written since. Each
	// has a number, for its event.
	paging   []pageOut
	since    time.Duration
	pageOuts uint32
	// moves are the dumps and restores of the store, the first of them under way.
	moves []move
	began time.Duration
	// busy is how long the store has worked in all.
	busy time.Duration
}

// pageOut is memory of a suspended task on its way to swap.
type pageOut struct {
	t     *task
	bytes int64
}

// move is a dump or a restore.
type move struct {
	t       *task
	restore bool
	// took is how long it takes; of those that wait, how long it is expected to.
	took time.Duration
}

// transfer is how long so many bytes take.
func transfer(bytes int64, bandwidth float64) time.Duration {
	return time.Duration(float64(bytes) / bandwidth * float64(time.Second))
}

// pageOut orders some memory of a suspended task to swap.
func (e *engine) pageOut(t *task, bytes int64) {
	if bytes <= 0 {
		return
	}
	n := t.node
	n.paging = append(n.paging, pageOut{t, bytes})
	if len(n.paging) == 1 {
		e.pageNext(n)
	}
}

// pageNext begins with what is first in the queue.
func (e *engine) pageNext(n *node) {
	if len(n.paging) == 0 {
		return
	}
	n.since = e.now
	n.pageOuts++
	e.queue.add(event{at: e.now + transfer(n.paging[0].bytes, e.c.Node.SwapOut), who: n.i, gen: n.pageOuts, kind: evPaged})
}

// written enters what of the first page-out of n is in swap by now.
func (e *engine) written(n *node) {
	if len(n.paging) == 0 {
		return
	}
	p := &n.paging[0]
	bytes := min(p.bytes, int64((e.now-n.since).Seconds()*e.c.Node.SwapOut))
	n.since = e.now
	e.swap(p, bytes)
}

// swap moves bytes of p to swap.
func (e *engine) swap(p *pageOut, bytes int64) {
	p.bytes -= bytes
	v := p.t.v
	v.PagingOut -= bytes
	v.Resident -= bytes
	v.Swapped += bytes
	p.t.node.swapped += bytes
	e.r.IO.PagedOut += bytes
}

// paged: the first page-out of n is done.
func (e *engine) paged(n *node, gen uint32) {
	if n.pageOuts != gen || len(n.paging) == 0 {
		return // called off
	}
	e.swap(&n.paging[0], n.paging[0].bytes)
	n.paging = n.paging[1:]
	e.pageNext(n)
}

// callOff ends the page-outs of t where they are.
func (e *engine) callOff(t *task) {
	n := t.node
	if t.v.PagingOut == 0 {
		return
	}
	e.written(n)
	first := len(n.paging) > 0 && n.paging[0].t == t
	n.paging = slices.DeleteFunc(n.paging, func(p pageOut) bool { return p.t == t })
	t.v.PagingOut = 0
	if first {
		n.pageOuts++
		e.pageNext(n)
	}
}

// enqueue asks the store of n for a dump or restore of t.
func (e *engine) enqueue(n *node, m move) {
	n.moves = append(n.moves, m)
	if len(n.moves) == 1 {
		e.moveNext(n)
	}
}

// moveNext begins with what is first in the queue of the store.
func (e *engine) moveNext(n *node) {
	for len(n.moves) > 0 {
		n.began = e.now
		m := &n.moves[0]
		if m.restore || e.dump(m) {
			e.queue.add(event{at: e.now + m.took, who: n.i, kind: evStored})
			return
		}
		n.moves = n.moves[1:]
	}
}

// stored: the first dump or restore of n is done.
func (e *engine) stored(n *node) {
	m := n.moves[0]
	n.busy += m.took
	n.moves = n.moves[1:]
	if m.restore {
		e.restored(m.t)
	} else {
		e.dumped(m.t)
	}
	e.moveNext(n)
}

// withdraw takes t, which has ended, out of the queue of its store.
func (n *node) withdraw(t *task) {
	n.moves = slices.DeleteFunc(n.moves, func(m move) bool { return m.t == t })
}

// wait is how long a dump that is asked for now waits for others.
func (n *node) wait(now time.Duration) time.Duration {
	var sum time.Duration
	for i, m := range n.moves {
		if i == 0 {
			sum += max(0, n.began+m.took-now)
			continue
		}
		sum += m.took
	}
	return sum
}

// refresh brings what time changes up to date in the view.
func (e *engine) refreshNode(n *node) {
	e.written(n)
	n.v.SwapFree = e.c.Node.Swap - n.swapped
	s := &n.v.Stores[0]
	s.Free = e.c.Node.Store - n.stored
	s.Queue = n.wait(e.now)
}
