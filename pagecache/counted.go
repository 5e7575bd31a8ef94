package pagecache

import (
	"fmt"
	"slices"
	"time"
)

// counted is a file whose pages are counted. The mutex of the file guards it.
type counted struct {
	span span
	// marks has a known state of each counter but the last, which takes what is
	// behind the others.
	marks []mark
	// The last block of the file may have a folio that reaches beyond the end.
	// beyond are its pages there, as of when the counter was at beyondAt.
	beyond   int64
	beyondAt cell
	// strikes are how often in a row the counters turned out wrong.
	strikes int
}

// A mark says that when the counter was at, that many pages were in memory.
type mark struct {
	at    cell
	pages int32
	// sure: the counter did not move while the pages were counted.
	sure bool
}

const (
	// tries is how often a block is counted anew when pages come and go meanwhile.
	tries = 5
	// maxStrikes is how often the counters of a file may be wrong before it is
	// polled instead. One that is right in between takes it all back.
	maxStrikes = 3
)

// beginCounting makes the kernel count the file from now on. Where there are no counters
// left it is polled.
func (f *file) beginCounting() error {
	k := f.c.counters
	s, ok := k.take(len(f.blocks)+1, time.Now())
	if !ok {
		f.c.cfg.Log.Warn("page cache: no counters are left; the file is polled", "file", f.name, "size", f.size)
		return nil
	}
	if err := k.follow(f.fd, s); err != nil {
		k.retire(s, time.Now())
		f.c.cfg.Log.Warn("page cache: the file cannot be counted; it is polled", "file", f.name, "err", err)
		return nil
	}
	f.counted = &counted{span: s, marks: make([]mark, s.Count-1)}
	if err := f.markAll(); err != nil {
		f.endCounting()
		return err
	}
	return nil
}

// endCounting makes the kernel forget the file.
func (f *file) endCounting() {
	if f.counted == nil {
		return
	}
	k := f.c.counters
	if err := k.follow(f.fd, span{}); err != nil {
		// Its counters are never used again: the kernel may still count in them.
		f.c.cfg.Log.Warn("page cache: the file is counted still", "file", f.name, "err", err)
	} else {
		k.retire(f.counted.span, time.Now())
	}
	f.counted = nil
}

// markAll finds out the state of all blocks. Those behind the last page that is
// in memory are not asked about one by one.
func (f *file) markAll() error {
	c, k := f.counted, f.c.counters
	before := c.cells(k)
	left, err := f.cached(f.fd, 0, Unlimited)
	if err != nil {
		return err
	}
	if !slices.Equal(before, c.cells(k)) {
		left = Unlimited / 2 // of no certain moment: every block is asked about
	}
	for i := range c.marks {
		if left <= 0 && k.load(c.span.First+uint32(i)) == before[i] {
			c.marks[i] = mark{at: before[i], sure: true}
			continue
		}
		m, err := f.measure(i)
		if err != nil {
			return err
		}
		c.marks[i] = m
		left -= int64(m.pages) - m.at.pages(before[i])
	}
	c.beyond, c.beyondAt = 0, 0
	return f.lookBeyond(true)
}

// cells returns all counters of the file but the last.
func (c *counted) cells(k *counters) []cell {
	all := make([]cell, len(c.marks))
	for i := range all {
		all[i] = k.load(c.span.First + uint32(i))
	}
	return all
}

// measure counts the pages of a block, also those behind the end of the file.
// Events are counted before, while and after a page comes or goes: only when the
// counter has stood still do both belong together.
func (f *file) measure(i int) (mark, error) {
	k, at := f.c.counters, f.counted.span.First+uint32(i)
	var m mark
	for try := 0; try < tries && !m.sure; try++ {
		before := k.load(at)
		pages, err := f.cached(f.fd, int64(i)*BlockSize, BlockSize)
		if err != nil {
			return m, err
		}
		m = mark{at: k.load(at), pages: int32(pages)}
		m.sure = m.at == before
	}
	return m, nil
}

// sum adds all counters of the file. They only grow, so that it changes when one
// of them does.
func (c *counted) sum(k *counters) uint64 {
	var sum uint64
	for i := range c.span.Count {
		sum += uint64(k.load(c.span.First + i))
	}
	return sum
}

// pages returns what the counter of a block says.
func (c *counted) pages(i int, now cell) int64 {
	return int64(c.marks[i].pages) + now.pages(c.marks[i].at)
}

// count brings the blocks up to date from the counters. done is false if the
// file has to be polled from now on.
func (f *file) count(sizeChanged bool) (done bool, err error) {
	if len(f.blocks) > len(f.counted.marks) {
		f.endCounting()
		if err := f.beginCounting(); err != nil || f.counted == nil {
			return false, err
		}
	}
	c, k := f.counted, f.c.counters
	if err := f.lookBeyond(sizeChanged); err != nil {
		return false, err
	}
	for i := range f.blocks {
		pages := c.pages(i, k.load(c.span.First+uint32(i)))
		if i == len(f.blocks)-1 {
			pages -= c.beyond
		}
		f.set(i, pages)
	}
	return true, nil
}

// lookBeyond asks how many pages are in memory behind the end of the file, in its
// last block, if that may have changed. Truncating and writing can leave such
// folios; reading leaves none.
func (f *file) lookBeyond(sizeChanged bool) error {
	c := f.counted
	last := len(f.blocks) - 1
	if last < 0 {
		c.beyond = 0
		return nil
	}
	now := f.c.counters.load(c.span.First + uint32(last))
	if !sizeChanged && now == c.beyondAt {
		return nil
	}
	c.beyond, c.beyondAt = 0, now
	end := wholePages(Range{0, f.size}).Len
	if c.pages(last, now) <= 0 {
		return nil
	}
	var err error
	c.beyond, err = f.cached(f.fd, end, int64(last+1)*BlockSize-end)
	return err
}

// verify compares the counter of a block with the kernel, and corrects it. It
// reports whether the counters of the file are still worth using.
func (f *file) verify(i int) (bool, error) {
	c := f.counted
	old := c.marks[i]
	m, err := f.measure(i)
	if err != nil {
		return true, err
	}
	if !m.sure {
		// Too busy to tell: the old mark is as good, unless it was no better.
		if !old.sure {
			c.marks[i] = m
		}
		return true, nil
	}
	wrong := c.pages(i, m.at) != int64(m.pages)
	c.marks[i] = m
	switch {
	case wrong && old.sure:
		c.strikes++
		f.c.cfg.Log.Debug("page cache: a counter was wrong", "file", f.name, "block", i,
			"counted", int64(old.pages)+m.at.pages(old.at), "cached", m.pages, "strikes", c.strikes)
	case !wrong && old.at != m.at:
		c.strikes = 0 // events were counted, and rightly
	}
	return c.strikes < maxStrikes, nil
}

// giveUp polls a file whose counters are wrong time and again.
func (f *file) giveUp() {
	f.c.cfg.Log.Warn("page cache: events of the file are not seen; it is polled", "file", f.name)
	f.endCounting()
	if err := f.update(true); err != nil {
		f.c.cfg.Log.Warn("page cache: "+fmt.Sprint(err), "file", f.name)
	}
}
