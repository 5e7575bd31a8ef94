package pagecache

import (
	"context"
	"time"
)

// check compares counters with the kernel, a few files with each Refresh, so
// that what was counted wrongly does not stay. There are two ways to count
// wrongly: a page whose coming or going is under way while its block is measured
// for the first time; and file systems whose pages come and go without events.
type check struct {
	files []*file // those of the Refresh at work
	next  int     // the file to go on with
	block int     // and its block
	last  time.Time
}

const (
	// checkShare of the time goes to the check.
	checkShare = 1000
	// maxCheck bounds one turn of it.
	maxCheck = 2 * time.Millisecond
)

// run checks for a thousandth of the time that has gone since the last run, at
// least one block, at most everything once.
func (c *check) run(ctx context.Context, now time.Time) {
	until := now.Add(min(now.Sub(c.last)/checkShare, maxCheck))
	c.last = now
	for range c.files {
		if c.next >= len(c.files) {
			c.next, c.block = 0, 0
		}
		if !c.one(c.files[c.next], until) {
			return // out of time within a file
		}
		c.next, c.block = c.next+1, 0
		if ctx.Err() != nil || !time.Now().Before(until) {
			return
		}
	}
}

// one checks a file from the present block on, and reports whether it came to
// the end.
func (c *check) one(f *file, until time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 || f.counted == nil {
		return true
	}
	if f.resident == 0 && c.block == 0 && f.stillEmpty() {
		return true
	}
	for ; c.block < len(f.blocks); c.block++ {
		fine, err := f.verify(c.block)
		if err != nil {
			return true // the next Refresh meets it too, and tells
		}
		if !fine {
			f.giveUp()
			return true
		}
		if !time.Now().Before(until) {
			c.block++
			return c.block >= len(f.blocks)
		}
	}
	return true
}

// stillEmpty reports whether nothing of a file is in memory, as its counters say.
func (f *file) stillEmpty() bool {
	pages, err := f.cached(f.fd, 0, Unlimited)
	return err == nil && pages == 0
}
