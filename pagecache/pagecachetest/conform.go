package pagecachetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/pagecache"
)

// A World is a page cache to try, and a way to have files read in it.
type World struct {
	New func(t testing.TB, c pagecache.Config) pagecache.Cache
	// Load reads a range as somebody else would, and nothing besides.
	Load func(t testing.TB, c pagecache.Cache, f *os.File, r pagecache.Range)
	// Dir is where files may be made; they must be able to leave memory.
	Dir string
}

// Conform tries what every Cache does alike.
func Conform(t *testing.T, w World) {
	for _, c := range []struct {
		name string
		try  func(*trial)
	}{
		{"resident", (*trial).resident},
		{"watch", (*trial).watch},
		{"size changes", (*trial).sizes},
		{"watched twice", (*trial).twice},
		{"evict", (*trial).evict},
		{"pin", (*trial).pin},
		{"pin nothing", (*trial).pinNothing},
		{"budget", (*trial).budget},
		{"already resident", (*trial).refuse},
		{"what is one's own is locked", (*trial).lockOwn},
		{"overlapping pins", (*trial).overlap},
		{"what cannot be", (*trial).special},
		{"cancelled", (*trial).cancelled},
		{"shorter meanwhile", (*trial).shorter},
		{"closed", (*trial).closed},
		{"closed meanwhile", (*trial).closedMeanwhile},
		{"too many", (*trial).tooMany},
		{"none", (*trial).none},
	} {
		t.Run(c.name, func(t *testing.T) { c.try(&trial{T: t, World: w}) })
	}
}

// trial is one of the tests.
type trial struct {
	*testing.T
	World
	c pagecache.Cache
}

const mib = 1 << 20

func (t *trial) open(c pagecache.Config) pagecache.Cache {
	t.Helper()
	t.c = t.New(t, c)
	t.Cleanup(func() { t.c.Close() })
	return t.c
}

// file makes a file that is not in memory. It is opened for random access, so
// that the kernel does not read ahead.
func (t *trial) file(size int64) *os.File {
	t.Helper()
	f, err := os.CreateTemp(t.Dir, "conform-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close(); os.Remove(f.Name()) })
	b := make([]byte, min(size, mib))
	for off := int64(0); off < size; off += int64(len(b)) {
		if _, err := f.Write(b[:min(size-off, mib)]); err != nil {
			t.Fatal(err)
		}
	}
	err = linux.Control(f, func(fd int) error {
		err := errors.Join(unix.Fsync(fd), unix.Fadvise(fd, 0, 0, unix.FADV_RANDOM))
		for range evictions {
			err = errors.Join(err, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
			if n, _ := linux.MappedPages(fd, 0, size); n == 0 || err != nil {
				break
			}
			runtime.Gosched()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// evictions is how often is tried to have all leave memory: what the kernel has in use for a moment, to move it for example, stays the first time.
const evictions = 100

func (t *trial) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (t *trial) want(f *os.File, r pagecache.Range, want int64) {
	t.Helper()
	if got, err := t.c.Resident(f, r); got != want || err != nil {
		t.Errorf("%d bytes of %v are resident (%v), want %d", got, r, err, want)
	}
}

// empty has all of a range leave that may, and wants so much to be left of it.
func (t *trial) empty(f *os.File, r pagecache.Range, want int64) {
	t.Helper()
	t.evictUntil(f, r, r, want)
	t.want(f, r, want)
}

// evictUntil has a range leave until of all that was wanted no more is left.
func (t *trial) evictUntil(f *os.File, r, all pagecache.Range, want int64) {
	t.Helper()
	for range evictions {
		t.must(t.c.Evict(f, r))
		if got, err := t.c.Resident(f, all); got <= want || err != nil {
			break
		}
		runtime.Gosched()
	}
}

func (t *trial) resident() {
	c := t.open(pagecache.Config{})
	size := 3*mib + 100
	f := t.file(int64(size))
	all := pagecache.Range{Len: 1 << 62}
	t.want(f, all, 0)
	t.Load(t, c, f, pagecache.Range{Off: mib, Len: 8 * pageSize})
	t.Load(t, c, f, pagecache.Range{Off: 3 * mib, Len: 100})
	t.want(f, all, 8*pageSize+100)
	t.want(f, pagecache.Range{Off: mib + 7, Len: 3}, 3)
	t.want(f, pagecache.Range{Off: mib - 10, Len: 30}, 20)
	t.want(f, pagecache.Range{Off: mib + 7*pageSize + 5, Len: 2 * pageSize}, pageSize-5)
	t.want(f, pagecache.Range{Off: mib - 5, Len: 8*pageSize + 10}, 8*pageSize)
	t.want(f, pagecache.Range{Off: 3 * mib, Len: pageSize}, 100)
	t.want(f, pagecache.Range{Off: 3*mib + 100, Len: pageSize}, 0)
	t.want(f, pagecache.Range{Off: 1 << 40, Len: 1 << 40}, 0)
	t.want(f, pagecache.Range{Off: mib}, 0)
	t.want(t.file(0), all, 0)
	for _, r := range []pagecache.Range{{Off: -1, Len: 2}, {Off: 0, Len: -1}} {
		if n, err := c.Resident(f, r); !errors.Is(err, unix.EINVAL) {
			t.Errorf("range %v: %d, %v", r, n, err)
		}
	}
}

// watching compares a watched file with what is wanted.
func (t *trial) watching(w pagecache.Watched, blocks ...int64) {
	t.Helper()
	var sum int64
	for _, b := range blocks {
		sum += b
	}
	if got := w.Blocks([]int64{-1}); !slices.Equal(got, append([]int64{-1}, blocks...)) || w.Resident() != sum {
		t.Errorf("blocks %v, %d resident, want %v after the -1 that was there", got, w.Resident(), blocks)
	}
}

func (t *trial) refresh() {
	t.Helper()
	t.must(t.c.Refresh(t.Context()))
}

// refreshSize refreshes until a new size must have been seen.
func (t *trial) refreshSize() {
	t.Helper()
	for range 4 {
		t.refresh()
	}
}

func (t *trial) watch() {
	c := t.open(pagecache.Config{})
	f := t.file(2*pagecache.BlockSize + 10)
	t.Load(t, c, f, pagecache.Range{Off: pagecache.BlockSize, Len: mib})
	w, err := c.Watch(f)
	t.must(err)
	defer w.Close()
	t.watching(w, 0, mib, 0)
	t.Load(t, c, f, pagecache.Range{Off: pagecache.BlockSize - pageSize, Len: 2 * pageSize})
	t.Load(t, c, f, pagecache.Range{Off: 2 * pagecache.BlockSize, Len: 10})
	t.watching(w, 0, mib, 0) // as of the last Refresh
	f.Close()                // it has a descriptor of its own
	t.refresh()
	t.watching(w, pageSize, mib, 10)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Refresh(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Refresh after the end: %v", err)
	}
	empty, err := c.Watch(t.file(0))
	t.must(err)
	t.watching(empty)
	t.must(empty.Close())
	t.must(empty.Close())
}

func (t *trial) sizes() {
	c := t.open(pagecache.Config{})
	f := t.file(pageSize)
	w, err := c.Watch(f)
	t.must(err)
	defer w.Close()
	t.must(f.Truncate(4*pagecache.BlockSize + 1)) // sparse
	t.refreshSize()
	t.watching(w, 0, 0, 0, 0, 0)
	t.Load(t, c, f, pagecache.Range{Off: pagecache.BlockSize, Len: pagecache.BlockSize})
	t.Load(t, c, f, pagecache.Range{Off: 4 * pagecache.BlockSize, Len: 1})
	t.refresh()
	t.watching(w, 0, pagecache.BlockSize, 0, 0, 1)
	t.must(f.Truncate(2*pagecache.BlockSize - 3*pageSize))
	t.refresh() // pages have gone with it
	t.watching(w, 0, pagecache.BlockSize-3*pageSize)
	t.must(f.Truncate(0))
	t.refresh()
	t.watching(w)
	t.must(f.Truncate(1))
	t.refreshSize()
	t.watching(w, 0)
}

func (t *trial) twice() {
	c := t.open(pagecache.Config{})
	f := t.file(mib)
	a, err := c.Watch(f)
	t.must(err)
	b, err := c.Watch(f)
	t.must(err)
	t.must(a.Close())
	t.must(a.Close())
	t.Load(t, c, f, pagecache.Range{Len: mib})
	t.refresh()
	t.watching(b, mib)
	t.must(b.Close())
	t.empty(f, pagecache.Range{Len: mib}, 0)
	again, err := c.Watch(f)
	t.must(err)
	defer again.Close()
	t.watching(again, 0)
}

func (t *trial) evict() {
	c := t.open(pagecache.Config{})
	f := t.file(mib + 10)
	fill := func() { t.Load(t, c, f, pagecache.Range{Len: mib + 10}) }
	all := pagecache.Range{Len: 1 << 62}
	for _, x := range []struct {
		r    pagecache.Range
		want int64
	}{
		{pagecache.Range{Off: 0, Len: pageSize}, mib + 10 - pageSize},
		{pagecache.Range{Off: 1, Len: 2 * pageSize}, mib + 10 - pageSize},
		{pagecache.Range{Off: 1, Len: pageSize}, mib + 10},
		{pagecache.Range{Off: 1, Len: 1}, mib + 10},
		{pagecache.Range{Off: mib - pageSize, Len: pageSize + 9}, mib + 10 - pageSize},
		{pagecache.Range{Off: mib - pageSize, Len: pageSize + 10}, mib - pageSize},
		{pagecache.Range{Off: 1 << 40, Len: 1}, mib + 10},
		{pagecache.Range{Off: pageSize}, mib + 10},
		{all, 0},
	} {
		fill()
		t.evictUntil(f, x.r, all, x.want)
		if n, err := c.Resident(f, all); n != x.want || err != nil {
			t.Errorf("after %v was evicted %d bytes are resident (%v), want %d", x.r, n, err, x.want)
		}
	}
	if err := c.Evict(f, pagecache.Range{Off: -1}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a negative range: %v", err)
	}
}

func (t *trial) special() {
	c := t.open(pagecache.Config{})
	r, w, err := os.Pipe()
	t.must(err)
	defer r.Close()
	defer w.Close()
	dir, err := os.Open(t.Dir)
	t.must(err)
	defer dir.Close()
	null, err := os.Open("/dev/zero")
	t.must(err)
	defer null.Close()
	for _, f := range []*os.File{r, dir, null} {
		_, rerr := c.Resident(f, pagecache.Range{Len: 1})
		_, werr := c.Watch(f)
		_, perr := c.Pin(t.Context(), f, pagecache.Range{Len: 1}, nil)
		for _, err := range []error{rerr, werr, perr, c.Evict(f, pagecache.Range{Len: 1})} {
			if !errors.Is(err, pagecache.ErrNotRegular) {
				t.Errorf("%s: %v", f.Name(), err)
			}
		}
	}
	name := filepath.Join(t.TempDir(), "f")
	out, err := os.Create(name)
	t.must(err)
	out.Close()
	out, err = os.OpenFile(name, os.O_WRONLY, 0)
	t.must(err)
	defer out.Close()
	if _, err := c.Pin(t.Context(), out, pagecache.Range{Len: 1}, nil); !errors.Is(err, pagecache.ErrNotCached) {
		t.Errorf("open for writing only: %v", err)
	}
	if _, err := c.Pin(t.Context(), t.file(10), pagecache.Range{Off: -1, Len: 1}, nil); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a negative range: %v", err)
	}
	closed := t.file(10)
	closed.Close()
	if _, err := c.Watch(closed); err == nil {
		t.Error("a closed file is watched")
	}
	if c.Pinned() != 0 {
		t.Errorf("%d bytes are locked", c.Pinned())
	}
}

func (t *trial) tooMany() {
	c := t.open(pagecache.Config{Files: 2})
	one := t.file(10)
	for _, f := range []*os.File{one, t.file(10), one} {
		w, err := c.Watch(f)
		t.must(err)
		defer w.Close()
	}
	if _, err := c.Watch(t.file(10)); !errors.Is(err, pagecache.ErrTooMany) {
		t.Errorf("a third file: %v", err)
	}
}

func (t *trial) none() {
	c := t.open(pagecache.Config{Method: pagecache.None})
	if m, why := c.Method(); m != pagecache.None || why == "" {
		t.Errorf("method %s, %q", m, why)
	}
	f := t.file(mib)
	w, err := c.Watch(f)
	t.must(err)
	defer w.Close()
	t.Load(t, c, f, pagecache.Range{Len: mib})
	t.refresh()
	t.watching(w, 0)
	var missing *pagecache.CapabilityError
	if n, err := c.Resident(f, pagecache.Range{Len: mib}); n != 0 || !errors.As(err, &missing) || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%d, %v", n, err)
	}
	p, err := c.Pin(t.Context(), f, pagecache.Range{Len: mib}, nil) // nobody knows that it is there
	t.must(err)
	if p.Bytes() != mib || c.Pinned() != mib {
		t.Error(fmt.Sprint(p.Bytes(), c.Pinned()))
	}
	t.must(p.Release())
}
