package pagecache

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
)

// lockedMemory returns what the kernel counts as locked by this process.
func lockedMemory(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	p := regexp.MustCompile(`(?m)^VmLck:\s*(\d+) kB$`).FindSubmatch(b)
	if p == nil {
		t.Fatal("no VmLck")
	}
	n, err := strconv.ParseInt(string(p[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

// writeFile makes a file whose pages may be dropped.
func writeFile(t *testing.T, name string, size int) *os.File {
	t.Helper()
	f, err := os.Create(name)
	if err == nil {
		t.Cleanup(func() { f.Close() })
		_, err = f.Write(make([]byte, size))
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		_, err = f.Stat() // FUSE drops everything when it learns of a change
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What is pinned stays, on every file system.
func TestPinHolds(t *testing.T) {
	const size = 5<<20 + 1
	for _, p := range places() {
		t.Run(p.name, func(t *testing.T) {
			f := writeFile(t, filepath.Join(p.make(t), "f"), size)
			c := newMethod(t, Config{Method: Cachestat, Own: true})
			all := Range{Len: size}
			if err := c.Evict(f, all); err != nil {
				t.Fatal(err)
			}
			before := lockedMemory(t)
			pin, err := c.Pin(t.Context(), f, all, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := lockedMemory(t) - before; got != pin.Bytes() || got != wholePages(all).Len {
				t.Errorf("%d bytes are locked, %d are said to be", got, pin.Bytes())
			}
			if err := c.Evict(f, all); err != nil {
				t.Fatal(err)
			}
			if n, err := c.Resident(f, all); n != size || err != nil {
				t.Errorf("%d bytes of %d are resident, %v", n, size, err)
			}
			if err := pin.Release(); err != nil || lockedMemory(t) != before {
				t.Errorf("%d bytes are still locked, %v", lockedMemory(t)-before, err)
			}
			if p.name == "tmpfs" || p.mended {
				return
			}
			testkit.Await(t, "all to leave memory", func() bool { // what the kernel has in use for a moment stays the first time
				if err := c.Evict(f, all); err != nil {
					t.Fatal(err)
				}
				n, err := c.Resident(f, all)
				if err != nil {
					t.Fatal(err)
				}
				return n == 0
			})
		})
	}
}

// Holes take memory too.
func TestPinSparseFile(t *testing.T) {
	c := newMethod(t, Config{Method: Cachestat})
	f, err := os.Create(filepath.Join(diskDir(t), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(4 << 20); err != nil {
		t.Fatal(err)
	}
	p, err := c.Pin(t.Context(), f, Range{1 << 20, 2 << 20}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.Resident(f, Range{1 << 20, 2 << 20}); p.Bytes() != 2<<20 || n != 2<<20 || err != nil {
		t.Errorf("%d bytes count, %d are resident, %v", p.Bytes(), n, err)
	}
	if _, err := c.Pin(t.Context(), f, Range{0, 1 << 62}, nil); err != nil {
		t.Error(err)
	}
}

func TestPinCannotRead(t *testing.T) {
	c := newMethod(t, Config{Method: Cachestat})
	dir := diskDir(t)
	writeFile(t, dir+"/f", 4096)
	fd, err := unix.Open(dir+"/f", unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip(err)
	}
	direct := os.NewFile(uintptr(fd), "direct")
	defer direct.Close()
	if _, err := c.Pin(t.Context(), direct, Range{0, 1}, nil); !errors.Is(err, ErrNotCached) {
		t.Error(err)
	}
	if fd, err = unix.Open(dir+"/f", unix.O_PATH|unix.O_CLOEXEC, 0); err != nil {
		t.Fatal(err)
	}
	path := os.NewFile(uintptr(fd), "path")
	defer path.Close()
	if _, err := c.Pin(t.Context(), path, Range{0, 1}, nil); !errors.Is(err, ErrNotCached) {
		t.Error(err)
	}
}

// Many at once neither pass the budget nor leave anything behind.
func TestAllAtOnce(t *testing.T) {
	const size, budget = 3 << 20, 4 << 20
	c := newMethod(t, Config{Budget: budget, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	dir := diskDir(t)
	var files []*os.File
	for i := range 4 {
		files = append(files, writeFile(t, filepath.Join(dir, strconv.Itoa(i)), size))
	}
	before := lockedMemory(t)
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	var all sync.WaitGroup
	for g := range 6 {
		all.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 3))
			for range rounds {
				f := files[rnd.IntN(len(files))]
				r := Range{rnd.Int64N(size), rnd.Int64N(size)}
				ctx, cancel := context.WithCancel(context.Background())
				left := rnd.IntN(8)
				w, err := c.Watch(f)
				if err != nil {
					t.Error(err)
				}
				p, err := c.Pin(ctx, f, r, func(int64) {
					if left--; left == 0 {
						cancel()
					}
				})
				cancel()
				if n := c.Pinned(); n > budget {
					t.Errorf("%d bytes are locked", n)
				}
				for _, kind := range []error{ErrBudget, ErrResident, context.Canceled} {
					if errors.Is(err, kind) {
						err = nil
					}
				}
				if err = errors.Join(err, c.Refresh(context.Background()), c.Evict(f, Range{0, size}), w.Close()); err != nil {
					t.Error(err)
				}
				if p != nil {
					go p.Release() // twice, at once
					if err := p.Release(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	all.Wait()
	c.compareAll(t, files)
	if c.Pinned() != 0 || lockedMemory(t) != before || len(c.pins) != 0 || len(c.list) != 0 || len(c.files) != 0 {
		t.Errorf("left: %d bytes, %d by the kernel's count, %d pins, %d files", c.Pinned(), lockedMemory(t)-before, len(c.pins), len(c.list))
	}
}

// compareAll watches files anew and compares them with the kernel.
func (c *cache) compareAll(t *testing.T, files []*os.File) {
	t.Helper()
	for _, f := range files {
		w, err := c.Watch(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.Blocks(nil), truth(t, askKernel, f); !slices.Equal(got, want) {
			t.Errorf("%v, the kernel says %v", got, want)
		}
		w.Close()
	}
}

// Close leaves neither descriptors nor locked memory.
func TestCloseLeavesNothing(t *testing.T) {
	f := dropped(t, filepath.Join(diskDir(t), "f"), 1<<20)
	descriptors := func() []string {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
				all = append(all, to)
			}
		}
		slices.Sort(all)
		return all
	}
	use := func() {
		c, err := newCache(Config{}, loadCounters)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if _, err := c.Watch(f); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Pin(t.Context(), f, Range{0, 1 << 20}, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := c.Evict(f, Range{0, 1 << 20}); err != nil {
			t.Error(err)
		}
	}
	use() // the first time, the runtime opens descriptors of its own
	before, locked := descriptors(), lockedMemory(t)
	use()
	if after := descriptors(); !slices.Equal(before, after) {
		t.Errorf("descriptors before %v, after %v", before, after)
	}
	if n := lockedMemory(t); n != locked {
		t.Errorf("%d bytes are still locked", n-locked)
	}
}
