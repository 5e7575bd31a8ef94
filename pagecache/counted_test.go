package pagecache

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fakeKernel is a page cache of one file, with counters, in which pages come and
// go whenever the test likes.
type fakeKernel struct {
	*counters
	pages []int64 // of each block
	spans map[span]bool
	// busy is called at each moment at which the real one could be interrupted.
	busy func()
	// deaf: there are no events.
	deaf bool
	fail error
}

func newFakeKernel(blocks int) *fakeKernel {
	k := &fakeKernel{pages: make([]int64, blocks), spans: map[span]bool{}, busy: func() {}}
	k.counters = &counters{
		cells: make([]uint64, 1<<10), spans: newSpans(1 << 10), close: func() error { return nil },
		follow: func(_ int, s span) error {
			clear(k.spans)
			if s.Count > 0 {
				k.spans[s] = true
			}
			return nil
		},
	}
	return k
}

// event counts pages that were added or removed.
func (k *fakeKernel) event(block int, added, removed uint32) {
	if k.deaf {
		return
	}
	for s := range k.spans {
		c := &k.cells[s.First+min(uint32(block), s.Count-1)]
		*c = uint64(uint32(*c)+added) | uint64(uint32(*c>>32)+removed)<<32
	}
}

// change brings a block to so many pages. As in the kernel, an event of a page
// that comes is after it, and of one that goes before it.
func (k *fakeKernel) change(block int, pages int64, between func()) {
	switch d := pages - k.pages[block]; {
	case d > 0:
		k.pages[block] = pages
		between()
		k.event(block, uint32(d), 0)
	case d < 0:
		k.event(block, 0, uint32(-d))
		between()
		k.pages[block] = pages
	}
}

func (k *fakeKernel) cached(_ int, off, length int64) (int64, error) {
	k.busy()
	if k.fail != nil {
		return 0, k.fail
	}
	var n int64
	for b := range k.pages {
		start := int64(b) * BlockSize
		if off <= start && length >= start+BlockSize-off || length == Unlimited {
			n += k.pages[b]
		} else if off > start && off < start+BlockSize {
			n += max(0, k.pages[b]-(off-start)/pageSize) // behind the end
		}
	}
	k.busy()
	return n, nil
}

// watchFake watches a sparse file with a fake kernel.
func watchFake(t *testing.T, k *fakeKernel) (*cache, *file) {
	t.Helper()
	c, err := newCache(Config{}, func(int, int) (*counters, error) { return k.counters, nil })
	skipMissing(t, err)
	if m, why := c.Method(); m != BPF {
		t.Skipf("method %s: %s", m, why)
	}
	t.Cleanup(func() { c.Close() })
	c.cached = k.cached
	f, err := os.Create(diskDir(t) + "/f")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(int64(len(k.pages)) * BlockSize); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(f)
	if err != nil {
		t.Fatal(err)
	}
	return c, w.(*watched).f
}

const blockPages = 100 // as many as the fake kernel ever has of a block

func (k *fakeKernel) want(t *testing.T, f *file) {
	t.Helper()
	w := watched{f: f}
	got := w.Blocks(nil)
	for i := range got {
		got[i] /= pageSize
	}
	if !slices.Equal(got, k.pages) {
		t.Fatalf("pages %v, want %v", got, k.pages)
	}
}

// Pages come and go while the file is watched for the first time; as long as each
// block is left alone once, its counter is right from the beginning.
func TestFirstLookInspiteOfEvents(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		k := newFakeKernel(5)
		for b := range k.pages {
			k.pages[b] = rnd.Int64N(blockPages)
		}
		quiet := 0
		k.busy = func() { // never more often in a row than there are tries
			if quiet++; rnd.IntN(3) == 0 && quiet >= 3 {
				quiet = 0
				k.change(rnd.IntN(5), rnd.Int64N(blockPages), func() {})
			}
		}
		c, f := watchFake(t, k)
		k.busy = func() {}
		for range 5 {
			c.refreshOnly(t, false)
			k.want(t, f)
			k.change(rnd.IntN(5), rnd.Int64N(blockPages), func() {})
		}
	}
}

// Where an event and its page are torn apart by the first look, the comparison
// with the kernel mends it, and a file that is right in between stays counted.
func TestTornEventsAreMended(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		k := newFakeKernel(4)
		var c *cache
		var f *file
		c, f = watchFake(t, k)
		for range 20 {
			b := rnd.IntN(4)
			k.change(b, rnd.Int64N(blockPages), func() {
				if rnd.IntN(2) == 0 { // measured just now
					f.mu.Lock()
					defer f.mu.Unlock()
					if f.counted == nil {
						return // it was torn too often; it is right none the less
					}
					if _, err := f.verify(b); err != nil {
						t.Error(err)
					}
				}
			})
			for range 2 {
				c.mustRefresh(t) // compares a block at least
			}
		}
		for range 4 {
			c.mustRefresh(t)
		}
		c.refreshOnly(t, false)
		k.want(t, f)
	}
}

// A file whose pages come without events is polled after a while, and right then.
func TestUnseenEventsEndInPolling(t *testing.T) {
	k := newFakeKernel(2)
	k.deaf = true
	var log bytes.Buffer
	c, f := watchFake(t, k)
	c.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	for i := range 30 {
		k.pages[i%2] = int64(i)
		c.mustRefresh(t)
	}
	if f.counted != nil {
		t.Fatalf("it is counted still, with %d strikes", f.counted.strikes)
	}
	k.want(t, f)
	if len(k.spans) != 0 || !strings.Contains(log.String(), "it is polled") {
		t.Errorf("the kernel counts in %v; log: %s", k.spans, &log)
	}
}

func TestNoCountersLeft(t *testing.T) {
	k := newFakeKernel(3)
	k.counters.spans.free[10] = nil
	c, f := watchFake(t, k)
	if f.counted != nil || len(k.spans) != 0 {
		t.Fatalf("counted in %v", k.spans)
	}
	k.pages[1] = 7
	c.mustRefresh(t)
	k.want(t, f)
}

// A file grows out of its counters into more of them.
func TestGrowth(t *testing.T) {
	k := newFakeKernel(3)
	c, f := watchFake(t, k)
	first := f.counted.span
	for b := 3; b < 40; b++ {
		k.pages = append(k.pages, 0)
		k.change(b, int64(b), func() {})
		if err := unix.Ftruncate(f.fd, int64(b+1)*BlockSize); err != nil {
			t.Fatal(err)
		}
		c.refreshOnly(t, false)
		k.want(t, f)
	}
	if f.counted.span == first || !k.spans[f.counted.span] {
		t.Errorf("counted in %v, by the kernel in %v", f.counted.span, k.spans)
	}
	if err := unix.Ftruncate(f.fd, 1<<10*BlockSize); err != nil { // more blocks than counters
		t.Fatal(err)
	}
	c.refreshOnly(t, true)
	if f.counted != nil || len(f.blocks) != 1<<10 {
		t.Errorf("counted in %v", f.counted)
	}
}

func TestFollowingFails(t *testing.T) {
	k := newFakeKernel(1)
	k.follow = func(int, span) error { return unix.ENOSPC }
	c, f := watchFake(t, k)
	if f.counted != nil {
		t.Fatal("it is counted")
	}
	k.pages[0] = 3
	c.mustRefresh(t)
	k.want(t, f)
}

// What cannot be asked about keeps its values, and the others do not suffer.
func TestRefreshFails(t *testing.T) {
	k := newFakeKernel(2)
	c, f := watchFake(t, k)
	k.change(0, 9, func() {})
	c.mustRefresh(t)
	k.fail = unix.EIO
	f.mu.Lock()
	f.endCounting()
	f.mu.Unlock()
	if err := c.Refresh(t.Context()); !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), f.name) {
		t.Errorf("%v", err)
	}
	k.want(t, f)
	g, err := os.Open(f.name)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c.drop(f, true)
	if _, err := c.Watch(g); !errors.Is(err, unix.EIO) {
		t.Errorf("%v", err)
	}
	if len(c.list) != 0 || len(c.files) != 0 {
		t.Error("it is watched all the same")
	}
}

// Sparse files cost their owner nothing: all that are followed have a bound together.
func TestFollowedBlocksAreBounded(t *testing.T) {
	c := newMethod(t, Config{Method: None})
	c.blocks = maxBlocks - 5
	sparse := func(name string, blocks int64) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if err := f.Truncate(blocks * BlockSize); err != nil {
			t.Fatal(err)
		}
		return f
	}
	large, small := sparse("large", 4), sparse("small", 2)
	w, err := c.Watch(large)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Watch(small); !errors.Is(err, ErrTooMany) {
		t.Errorf("two blocks more, room for one: %v", err)
	}
	if err := large.Truncate(6 * BlockSize); err != nil {
		t.Fatal(err)
	}
	for range sizeEvery {
		err = errors.Join(err, c.Refresh(t.Context()))
	}
	if !errors.Is(err, ErrTooMany) || len(w.Blocks(nil)) != 4 {
		t.Errorf("the file has grown: %v, %d blocks", err, len(w.Blocks(nil)))
	}
	w.Close()
	if w, err = c.Watch(small); err != nil || c.blocks != maxBlocks-3 {
		t.Errorf("after the large one was let go: %v, %d blocks", err, c.blocks)
	}
	w.Close()
}

func TestFilesTooLargeToFollow(t *testing.T) {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", "size=1m") // which takes any size
	c := newMethod(t, Config{Method: Cachestat})
	f, err := os.Create(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(5); err != nil {
		t.Fatal(err)
	}
	w, err := c.Watch(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(1 << 62); err != nil {
		t.Skip(err)
	}
	for range sizeEvery - 1 {
		err = errors.Join(err, c.Refresh(t.Context()))
	}
	if err = errors.Join(err, c.Refresh(t.Context())); !errors.Is(err, unix.EFBIG) || len(w.Blocks(nil)) != 1 {
		t.Errorf("%v, blocks %v", err, w.Blocks(nil))
	}
	w.Close()
	if _, err := c.Watch(f); !errors.Is(err, unix.EFBIG) {
		t.Error(err)
	}
	if n, err := c.Resident(f, Range{0, 1 << 62}); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}
