package ipc

import (
	"sync"
	"sync/atomic"
)

// mostResting goroutines wait for another call when they have served one. A new one would have its stack grow first, as far
// as a look at the names wants it, which costs as much as the look.
const mostResting = 64

// crew are the goroutines that serve calls.
type crew struct {
	jobs    chan func()
	resting atomic.Int64
	once    sync.Once
}

// run has a goroutine do something: one that rests, or else a new one.
func (c *crew) run(job func()) {
	select {
	case c.jobs <- job:
	default:
		go c.serve(job)
	}
}

func (c *crew) serve(job func()) {
	for job != nil {
		if job(); c.resting.Add(1) > mostResting {
			c.resting.Add(-1)
			return
		}
		job = <-c.jobs // nil at the end
		c.resting.Add(-1)
	}
}

// end sends home who rests. Nobody calls run any more.
func (c *crew) end() { c.once.Do(func() { close(c.jobs) }) }
