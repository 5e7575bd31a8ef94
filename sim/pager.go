package sim

import (
	"slices"
	"time"
)

// pager writes memory of suspended tasks of one node to swap, one after the other.
type pager struct {
	clock *clock
	node  int32
	rate  float64 // in bytes per second
	// swapped is what tasks have in swap now, wrote all that was written.
	swapped, wrote int64
	// queue is what has to be written, the first of it under way, and entered until
	// since. Each has a number, for its event.
	queue []pageOut
	since time.Duration
	gen   uint32
}

// pageOut is memory of a suspended task on its way to swap.
type pageOut struct {
	t     *task
	bytes int64
}

// transfer returns how long so many bytes take.
func transfer(bytes int64, bandwidth float64) time.Duration {
	return time.Duration(float64(bytes) / bandwidth * float64(time.Second))
}

// add orders some memory of a suspended task to swap.
func (p *pager) add(t *task, bytes int64) {
	if bytes <= 0 {
		return
	}
	p.queue = append(p.queue, pageOut{t, bytes})
	if len(p.queue) == 1 {
		p.next()
	}
}

// next begins with what is first in the queue.
func (p *pager) next() {
	if len(p.queue) == 0 {
		return
	}
	p.since = p.clock.now
	p.gen++
	p.clock.in(transfer(p.queue[0].bytes, p.rate), event{who: p.node, gen: p.gen, kind: evPaged})
}

// advance enters what of the first is in swap by now.
func (p *pager) advance() {
	if len(p.queue) == 0 {
		return
	}
	bytes := min(p.queue[0].bytes, int64((p.clock.now-p.since).Seconds()*p.rate))
	p.since = p.clock.now
	p.write(bytes)
}

// write moves bytes of the first to swap.
func (p *pager) write(bytes int64) {
	o := &p.queue[0]
	o.bytes -= bytes
	v := o.t.v
	v.PagingOut -= bytes
	v.Resident -= bytes
	v.Swapped += bytes
	p.swapped += bytes
	p.wrote += bytes
}

// done: the first is written, unless it was called off.
func (p *pager) done(gen uint32) {
	if p.gen != gen || len(p.queue) == 0 {
		return
	}
	p.write(p.queue[0].bytes)
	p.queue = p.queue[1:]
	p.next()
}

// callOff ends the page-outs of t where they are.
func (p *pager) callOff(t *task) {
	if t.v.PagingOut == 0 {
		return
	}
	p.advance()
	first := len(p.queue) > 0 && p.queue[0].t == t
	p.queue = slices.DeleteFunc(p.queue, func(o pageOut) bool { return o.t == t })
	t.v.PagingOut = 0
	if first {
		p.gen++
		p.next()
	}
}
