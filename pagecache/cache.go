package pagecache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// cache is the page cache of this machine.
//
// A goroutine that holds the mutex of a file may take that of the cache, not the
// other way round.
type cache struct {
	cfg      Config
	method   Method
	why      string
	counters *counters // nil unless the method is BPF
	seeReads sync.Once // has them see what is read
	cached   cachedFunc
	stop     context.Context
	cancel   context.CancelFunc
	active   sync.WaitGroup // Pins at work
	ending   time.Duration  // linux.EndTime, but for tests

	// later closes files whose servers may not answer.
	later closer

	// refreshing is held by Refresh; it guards these.
	refreshing sync.Mutex
	check      check
	round      int

	mu     sync.Mutex
	closed bool
	files  map[fileID]*file
	list   []*file // the same files
	blocks int     // of all of them
	pins   map[fileID][]*pinned
	locked int64
}

// cachedFunc is linux.CachedPages, or what a test has in its place.
type cachedFunc func(fd int, off, length int64) (pages int64, err error)

// fileID names an inode for as long as somebody has it open.
type fileID struct{ dev, ino uint64 }

func newStop() (context.Context, context.CancelFunc) {
	return context.WithCancel(context.Background())
}

func (c *cache) Method() (Method, string) { return c.method, c.why }

// Resident implements Cache.
func (c *cache) Resident(f *os.File, r Range) (int64, error) {
	var n int64
	err := linux.Control(f, func(fd int) error {
		_, fileSize, err := regular(fd)
		if err != nil {
			return err
		}
		if r, err = clamp(r, fileSize); err != nil {
			return err
		}
		n, err = residentBytes(c.cachedOf(fsType(fd)), fd, r)
		return err
	})
	if err != nil {
		return 0, fileError("ask what is in memory of", f, err)
	}
	return n, nil
}

// residentBytes counts the bytes of a range that are in memory. The range must
// not go beyond the end of the file.
func residentBytes(cached cachedFunc, fd int, r Range) (int64, error) {
	whole := wholePages(r)
	pages, err := cached(fd, whole.Off, whole.Len)
	if err != nil || pages == 0 {
		return 0, err
	}
	if pages*pageSize >= whole.Len {
		return r.Len, nil
	}
	// Pages that are only partly in the range were counted as whole ones.
	n := pages * pageSize
	before, after := r.Off-whole.Off, whole.Off+whole.Len-(r.Off+r.Len)
	for _, edge := range []struct{ off, outside int64 }{{whole.Off, before}, {whole.Off + whole.Len - pageSize, after}} {
		if edge.outside == 0 {
			continue
		}
		in, err := cached(fd, edge.off, pageSize)
		if err != nil {
			return 0, err
		}
		n -= in * edge.outside
	}
	return min(max(n, 0), r.Len), nil
}

// Evict implements Cache.
func (c *cache) Evict(f *os.File, r Range) error {
	err := linux.Control(f, func(fd int) error {
		_, fileSize, err := regular(fd)
		if err != nil {
			return err
		}
		if r, err = clamp(r, fileSize); err != nil || r.Len == 0 {
			return err
		}
		toEnd := r.Off+r.Len == fileSize
		// A page that belongs to the range only in part stays; the kernel takes a
		// length of 0 as all the rest.
		off := wholePages(Range{Off: r.Off + pageSize - 1}).Off
		length := int64(0)
		if !toEnd {
			end := r.Off + r.Len
			if length = end - end%pageSize - off; length <= 0 {
				return nil
			}
		}
		return os.NewSyscallError("fadvise", unix.Fadvise(fd, off, length, unix.FADV_DONTNEED))
	})
	if err != nil {
		return fileError("evict", f, err)
	}
	return nil
}

// Refresh implements Cache.
func (c *cache) Refresh(ctx context.Context) error {
	c.refreshing.Lock()
	defer c.refreshing.Unlock()
	c.mu.Lock()
	files := append(c.check.files[:0], c.list...)
	closed := c.closed
	c.mu.Unlock()
	c.check.files = files
	defer clear(files)
	if closed {
		return ErrClosed
	}
	c.round++
	var errs []error
	for i, f := range files {
		if i%256 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if err := f.refresh((i+c.round)%sizeEvery == 0); err != nil && len(errs) < maxErrors {
			errs = append(errs, err)
		}
	}
	if c.counters != nil {
		c.check.run(ctx, time.Now())
	}
	return errors.Join(errs...)
}

// sizeEvery is with which of several Refreshes the size of a file is asked for.
const sizeEvery = 4

// maxErrors is how many files' errors one Refresh tells of.
const maxErrors = 10

// Close implements Cache.
func (c *cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.cancel()
	c.mu.Unlock()
	var err error
	if linux.Within(c.ending, func() { err = c.end() }) {
		return err
	}
	left := "what is in memory of a file is being asked"
	for _, p := range c.allPins() {
		if name := p.reads.Load(); name != nil {
			left = *name + " is being read"
		}
	}
	return fmt.Errorf("%w for %v: %s; what is locked in memory is let go when it does", ErrHangs, c.ending, left)
}

// end lets go of everything, once nobody is at work any more.
func (c *cache) end() error {
	c.active.Wait()
	c.refreshing.Lock() // a Refresh at work ends first
	defer c.refreshing.Unlock()

	var errs []error
	for _, p := range c.allPins() {
		errs = append(errs, p.Release())
	}
	c.mu.Lock()
	files := append([]*file(nil), c.list...)
	c.mu.Unlock()
	for _, f := range files {
		c.drop(f, true)
	}
	if c.counters != nil {
		errs = append(errs, c.counters.close())
	}
	return errors.Join(errs...)
}

// duplicate makes a descriptor of our own.
func duplicate(f *os.File) (int, error) {
	fd := -1
	err := linux.Control(f, func(theirs int) (err error) {
		fd, err = unix.FcntlInt(uintptr(theirs), unix.F_DUPFD_CLOEXEC, 0)
		return os.NewSyscallError("fcntl", err)
	})
	return fd, err
}

// regular checks that a descriptor is of a regular file.
func regular(fd int) (id fileID, fileSize int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fileID{}, 0, os.NewSyscallError("fstat", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, 0, ErrNotRegular
	}
	return fileID{uint64(st.Dev), st.Ino}, st.Size, nil
}

// missing stands for CachedPages where it is not to be had.
func missing(why string) cachedFunc {
	err := &linux.MissingError{Feature: "what is in the page cache", Need: "cachestat(2)", Err: errors.New(why)}
	return func(int, int64, int64) (int64, error) { return 0, err }
}

// askKernel does as linux.CachedPages, with an error that says what to do.
func askKernel(fd int, off, length int64) (int64, error) {
	n, err := linux.CachedPages(fd, off, length)
	return n, explainAsking(err)
}

// askMapping returns the same with linux.MappedPages.
func askMapping(fd int, off, length int64) (int64, error) {
	n, err := linux.MappedPages(fd, off, length)
	return n, explainAsking(err)
}

func explainAsking(err error) error {
	if errors.Is(err, unix.EPERM) {
		return fmt.Errorf("%w: only the owner of a file, who may write it, and root are told", err)
	}
	return err
}

// askBoth serves files that may or may not keep their pages in another inode: of
// those that do, the kernel knows none.
func askBoth(fd int, off, length int64) (int64, error) {
	n, err := askKernel(fd, off, length)
	if n > 0 || err != nil {
		return n, err
	}
	if n, err = askMapping(fd, off, length); err != nil {
		return 0, nil // it cannot be mapped, and has no pages elsewhere
	}
	return n, nil
}

// cachedOf returns how to ask about a file of a kind of file system.
func (c *cache) cachedOf(kind int64) cachedFunc {
	if c.method != None {
		switch kind {
		case unix.OVERLAYFS_SUPER_MAGIC:
			return askMapping
		case unix.FUSE_SUPER_MAGIC: // where it passes through to other files
			return askBoth
		}
	}
	return c.cached
}

// fsType returns the magic number of the file system of a file, or 0.
func fsType(fd int) int64 {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return 0
	}
	return int64(st.Type)
}
