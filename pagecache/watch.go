package pagecache

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// file is one inode that is watched, by one or more callers.
type file struct {
	c    *cache
	id   fileID
	name string
	// place in cache.list, and number of callers; the cache's mutex guards them.
	place, refs int

	mu   sync.Mutex
	fd   int // -1 when it is not watched any more
	size int64
	// blocks are the resident bytes of each, and resident is their sum.
	blocks   []int64
	resident int64
	// cached asks the kernel; unseen and remote say of which kind its file system is. They stay as they are.
	cached         cachedFunc
	unseen, remote bool
	// counted is nil for a file that is polled.
	counted *counted
	// sum changes when pages come or go: the sum of all counters, or of a file that
	// is polled the pages, also those behind its end.
	sum uint64

	// What is told is a copy, so that nobody waits for a file that is being asked
	// about.
	telling      sync.Mutex
	told         []int64
	toldResident int64
	// reads are the parts of each block that others have read, as far as they were seen.
	reads []uint64
}

// watched is what one caller has of a file.
type watched struct {
	f    *file
	once sync.Once
}

// Watch implements Cache.
func (c *cache) Watch(f *os.File) (Watched, error) {
	fd, err := duplicate(f)
	if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
		err = fmt.Errorf("%w: %w: raise the limit of open files (`ulimit -n`, LimitNOFILE= in a systemd unit)", ErrTooMany, err)
	}
	if err != nil {
		return nil, fileError("watch", f, err)
	}
	w, err := c.watch(fd, f.Name())
	if err != nil {
		return nil, fileError("watch", f, err)
	}
	return w, nil
}

// watch takes over fd.
func (c *cache) watch(fd int, name string) (*watched, error) {
	id, _, err := regular(fd)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	// The file system is asked before anybody else waits for the file: it may be one whose server does not answer.
	kind := fsType(fd)
	f := &file{c: c, id: id, name: name, fd: fd, cached: c.cachedOf(kind), unseen: unseen(kind), remote: linux.Remote(kind)}
	f.mu.Lock() // whoever finds it waits until it is ready
	other, err := c.enter(f)
	if other != nil || err != nil {
		f.mu.Unlock()
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		return &watched{f: other}, nil
	}
	err = f.begin()
	f.mu.Unlock()
	if err != nil {
		c.drop(f, true)
		return nil, err
	}
	return &watched{f: f}, nil
}

// enter adds a file to those that are watched, or returns the one that is watched
// already.
func (c *cache) enter(f *file) (other *file, err error) {
	for {
		c.mu.Lock()
		other := c.files[f.id]
		switch {
		case c.closed:
			err = ErrClosed
		case other != nil:
			other.refs++
		case len(c.list) >= c.cfg.Files:
			err = fmt.Errorf("%w: %d, which is all that may be", ErrTooMany, len(c.list))
		default:
			f.refs, f.place = 1, len(c.list)
			c.files[f.id], c.list = f, append(c.list, f)
		}
		c.mu.Unlock()
		if err != nil || other == nil {
			return nil, err
		}
		other.mu.Lock() // it is ready now, or its beginning has failed
		alive := other.fd >= 0
		other.mu.Unlock()
		if alive {
			return other, nil
		}
	}
}

// begin finds out what is in memory for the first time.
func (f *file) begin() error {
	if _, err := f.lookSize(); err != nil {
		return err
	}
	if f.c.counters != nil && !f.unseen {
		if err := f.beginCounting(); err != nil {
			return err
		}
	}
	return f.update(true)
}

// unseen reports whether files of that file system enter and leave the page
// cache without the events that are counted, or do so as other inodes.
func unseen(kind int64) bool {
	switch kind {
	case unix.TMPFS_MAGIC, unix.HUGETLBFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC:
		return true
	}
	return false
}

// refresh brings the file up to date, also its size if that is wanted or its
// pages have changed: to ask for the size costs more than all else.
func (f *file) refresh(sizeToo bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fd < 0 {
		return nil
	}
	f.seeReads()
	if err := f.update(sizeToo); err != nil {
		return &os.PathError{Op: "refresh", Path: f.name, Err: err}
	}
	return nil
}

// update does as refresh, for a caller that holds the mutex.
func (f *file) update(sizeToo bool) error {
	if f.unchanged() && !sizeToo {
		return nil
	}
	if err := f.look(); err != nil {
		return err
	}
	if f.resident == f.toldResident && slices.Equal(f.blocks, f.told) {
		return nil // only we change what is told
	}
	f.telling.Lock()
	defer f.telling.Unlock()
	f.told = append(f.told[:0], f.blocks...)
	f.toldResident = f.resident
	return nil
}

// unchanged reports whether no page has come or gone since it was last called.
func (f *file) unchanged() bool {
	var sum uint64
	switch {
	case f.c.method == None:
		return true
	case f.counted != nil:
		sum = f.counted.sum(f.c.counters)
	case len(f.blocks) > 1 && f.resident > 0 && f.resident < f.size:
		return false // each block has to be asked about
	default:
		pages, err := f.cached(f.fd, 0, Unlimited)
		if err != nil {
			return false
		}
		sum = uint64(pages)
	}
	same := sum == f.sum
	f.sum = sum
	return same
}

// look finds out size and pages.
func (f *file) look() error {
	changed, err := f.lookSize()
	if err != nil {
		return err
	}
	if f.counted != nil {
		done, err := f.count(changed)
		if done || err != nil {
			return err
		}
	}
	if f.c.method == None {
		return nil
	}
	return f.poll()
}

// lookSize brings the size and the number of blocks up to date. All files wait for each other in a Refresh, so no server is asked.
func (f *file) lookSize() (changed bool, err error) {
	fileSize, err := linux.KnownSize(f.fd)
	if err != nil || fileSize == f.size {
		return false, err
	}
	if fileSize > maxSize {
		return false, fmt.Errorf("%w: a file of %s; at most %s can be followed", unix.EFBIG, size(fileSize), size(maxSize))
	}
	blocks := int((fileSize + BlockSize - 1) / BlockSize)
	if err := f.c.takeBlocks(blocks - len(f.blocks)); err != nil {
		return false, err
	}
	f.size = fileSize
	f.resize(blocks)
	return true, nil
}

// maxSize and maxBlocks bound the memory that sparse files can cost, one of them and all together: 16 bytes a
// block.
const (
	maxSize   = 1 << 44
	maxBlocks = 1 << 22
)

// takeBlocks counts how many more blocks are followed, or fewer.
func (c *cache) takeBlocks(more int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if more > 0 && c.blocks+more > maxBlocks {
		return fmt.Errorf("%w: they have %s, and at most %s can be followed", ErrTooMany, size(int64(c.blocks)*BlockSize), size(maxBlocks*BlockSize))
	}
	c.blocks += more
	return nil
}

func (f *file) resize(blocks int) {
	for len(f.blocks) > blocks {
		last := len(f.blocks) - 1
		f.resident -= f.blocks[last]
		f.blocks = f.blocks[:last]
	}
	f.blocks = append(f.blocks, make([]int64, blocks-len(f.blocks))...)
}

// blockBytes returns how many bytes of the file block i has.
func (f *file) blockBytes(i int) int64 {
	return min(BlockSize, f.size-int64(i)*BlockSize)
}

// set notes the pages that are resident of each block.
func (f *file) set(i int, pages int64) {
	n := min(max(pages, 0)*pageSize, f.blockBytes(i))
	f.resident += n - f.blocks[i]
	f.blocks[i] = n
}

// Resident implements Watched.
func (w *watched) Resident() int64 {
	w.f.telling.Lock()
	defer w.f.telling.Unlock()
	return w.f.toldResident
}

// Blocks implements Watched.
func (w *watched) Blocks(dst []int64) []int64 {
	w.f.telling.Lock()
	defer w.f.telling.Unlock()
	return append(dst, w.f.told...)
}

// Close implements Watched.
func (w *watched) Close() error {
	w.once.Do(func() {
		c := w.f.c
		c.mu.Lock()
		w.f.refs--
		last := w.f.refs == 0
		c.mu.Unlock()
		if last {
			c.drop(w.f, false)
		}
	})
	return nil
}

// drop ends the watching of a file that nobody watches any more, or of any file.
func (c *cache) drop(f *file, any bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.fd < 0 || f.refs > 0 && !any {
		return
	}
	// The kernel must forget the file before somebody can watch it anew.
	f.endCounting()
	if f.remote {
		c.later.close(f.fd)
	} else {
		unix.Close(f.fd)
	}
	f.fd = -1
	c.blocks -= len(f.blocks)
	f.blocks, f.resident = nil, 0
	delete(c.files, f.id)
	last := len(c.list) - 1
	c.list[f.place] = c.list[last]
	c.list[f.place].place = f.place
	c.list[last] = nil
	c.list = c.list[:last]
}

// closer closes descriptors one after the other, so that a server that does not answer holds up one thread, and none of those
// who want them closed.
type closer struct {
	mu   sync.Mutex
	busy bool
	fds  []int
}

func (c *closer) close(fd int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fds = append(c.fds, fd)
	if !c.busy {
		c.busy = true
		go c.run()
	}
}

// run ends when all are closed.
func (c *closer) run() {
	for {
		c.mu.Lock()
		if c.busy = len(c.fds) > 0; !c.busy {
			c.mu.Unlock()
			return
		}
		fd := c.fds[0]
		c.fds = c.fds[1:]
		c.mu.Unlock()
		unix.Close(fd)
	}
}
