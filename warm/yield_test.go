package warm

import (
	"sync/atomic"
	"testing"
	"time"

	"headrace/pagecache"
)

// TestShortMemory: when others take the memory, what is locked for those who come last is let
// go, and no more than is needed; what of that the kernel drops is read again when there is memory.
func TestShortMemory(t *testing.T) {
	var memory atomic.Int64
	memory.Store(blocks(100))
	change := func(c *Config) { c.Spare = func() (int64, error) { return memory.Load() - c.Cache.Pinned(), nil } }
	inWorld(t, worldConfig{Config: pagecache.Config{Budget: blocks(20)}, change: change}, func(t *testing.T, w *world) {
		large, small := w.file("d1/large", blocks(5)), w.file("d1/small", blocks(2))
		w.add(w.job("large", large))
		w.add(w.job("small", small))
		w.wantPinned(7)

		memory.Store(blocks(4))
		w.pass(time.Second)
		w.wantPinned(4)
		l, s := w.status("r-large"), w.status("r-small")
		if l.Pinned != blocks(2) || l.Resident != blocks(3) || s.Pinned != blocks(2) {
			t.Errorf("when memory is short: %+v, %+v", l, s)
		}
		if c := w.e.Counters(); c.Budget != blocks(4) || c.Released != blocks(3) {
			t.Errorf("%+v", c)
		}

		// The kernel drops what is not locked. There is room for one block of that.
		w.dropPages(large.Path, pagecache.Range{Len: blocks(5)})
		memory.Store(blocks(5) + 1)
		w.pass(10 * time.Second)
		w.wantPinned(5)
		if l := w.status("r-large"); l.Done || !l.Full || l.Remaining != blocks(2) {
			t.Errorf("with memory for one block: %+v", l)
		}
		memory.Store(-blocks(100)) // less than none
		w.pass(time.Second)
		w.wantPinned(0)
		for _, f := range []File{large, small} {
			w.dropPages(f.Path, pagecache.Range{Len: f.Size})
		}
		memory.Store(blocks(100))
		w.pass(10 * time.Second)
		w.wantPinned(7)
		if l := w.status("r-large"); !l.Done || l.Full {
			t.Errorf("with memory again: %+v", l)
		}
	})
}
