package pagecachetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/pagecache"
)

// Memory is a model of the page cache. Its files are real ones, of which only
// identity and size are looked at: which pages are in memory is what Load, Drop,
// Pin and Evict have made of them, and nothing is read. Budgets, errors and the
// rules of Pin are those of the real one.
//
// It keeps a descriptor of each file it has met until Close.
type Memory struct {
	cfg  pagecache.Config
	stop context.Context
	end  context.CancelFunc

	mu      sync.Mutex
	closed  bool
	onPiece func(ctx context.Context, f *os.File, r pagecache.Range) error
	inodes  map[[2]uint64]*inode
	watched map[*watched]bool
	locked  int64
	active  sync.WaitGroup
}

type inode struct {
	f     *os.File
	size  int64
	pages []bool // in memory
	pins  []*pinned
}

const (
	piece     = 1 << 20
	unbounded = 1 << 40
)

var pageSize = int64(os.Getpagesize())

// NewMemory makes a model in which nothing is in memory. Of the configuration it
// uses Budget (1 TiB if that is 0), Own, Files (any number if that is 0)
// and Method: None is a machine without cachestat, all else means BPF.
func NewMemory(c pagecache.Config) *Memory {
	if c.Budget == 0 {
		c.Budget = unbounded
	}
	if c.Method == "" {
		c.Method = pagecache.BPF
	}
	m := &Memory{cfg: c, inodes: map[[2]uint64]*inode{}, watched: map[*watched]bool{}}
	m.stop, m.end = context.WithCancel(context.Background())
	return m
}

// OnPiece has f called before each piece that Pin reads. It may take its time,
// and what it returns becomes the error of Pin.
func (m *Memory) OnPiece(f func(ctx context.Context, f *os.File, r pagecache.Range) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.onPiece = f
}

// Load has somebody else read a range.
func (m *Memory) Load(f *os.File, r pagecache.Range) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.inode(f)
	if err != nil {
		return err
	}
	i.load(r)
	return nil
}

// Drop has the kernel reclaim a range, but for what is locked.
func (m *Memory) Drop(f *os.File, r pagecache.Range) error { return m.Evict(f, r) }

// inode finds the model of a file and brings its size up to date. The caller
// holds the mutex.
func (m *Memory) inode(f *os.File) (*inode, error) {
	st, err := stat(f)
	if err != nil {
		return nil, err
	}
	id := [2]uint64{uint64(st.Dev), st.Ino}
	i := m.inodes[id]
	if i == nil {
		own, err := duplicate(f)
		if err != nil {
			return nil, err
		}
		i = &inode{f: own}
		m.inodes[id] = i
	}
	i.resize(st.Size)
	return i, nil
}

func (i *inode) update() error {
	st, err := stat(i.f)
	if err == nil {
		i.resize(st.Size)
	}
	return err
}

func (i *inode) resize(size int64) {
	i.size = size
	n := int((size + pageSize - 1) / pageSize)
	if n < len(i.pages) {
		i.pages = i.pages[:n]
	}
	i.pages = append(i.pages, make([]bool, n-len(i.pages))...)
}

func (i *inode) load(r pagecache.Range) {
	if r = i.cut(r); r.Len == 0 {
		return
	}
	for p := r.Off / pageSize; p*pageSize < r.Off+r.Len; p++ {
		i.pages[p] = true
	}
}

// cut clamps a range that is not negative.
func (i *inode) cut(r pagecache.Range) pagecache.Range {
	off := min(r.Off, i.size)
	return pagecache.Range{Off: off, Len: min(r.Len, i.size-off)}
}

// resident counts the bytes of a range for which the pages are in memory, and
// which no Pin but own holds if foreign.
func (i *inode) resident(r pagecache.Range, foreign bool, own *pinned) int64 {
	r = i.cut(r)
	var n int64
	for p := r.Off / pageSize; p*pageSize < r.Off+r.Len; p++ {
		if i.pages[p] && !(foreign && i.heldBy(p, own)) {
			n += min((p+1)*pageSize, r.Off+r.Len) - max(p*pageSize, r.Off)
		}
	}
	return n
}

// count returns the pages in memory of so many bytes.
func (i *inode) count(off, length int64) int64 {
	var n int64
	for _, in := range i.pages[off/pageSize : min(int64(len(i.pages)), (off+length)/pageSize)] {
		if in {
			n++
		}
	}
	return n
}

// heldBy reports whether a page belongs to a Pin other than own.
func (i *inode) heldBy(page int64, own *pinned) bool {
	return slices.ContainsFunc(i.pins, func(p *pinned) bool {
		return p != own && page*pageSize >= p.r.Off && page*pageSize < p.r.Off+p.r.Len
	})
}

// Method implements pagecache.Cache.
func (m *Memory) Method() (pagecache.Method, string) { return m.cfg.Method, "it is a model" }

// Resident implements pagecache.Cache.
func (m *Memory) Resident(f *os.File, r pagecache.Range) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.inode(f)
	if err == nil {
		err = check(r)
	}
	if err == nil && m.cfg.Method == pagecache.None {
		err = &pagecache.CapabilityError{Feature: "what is in the page cache", Need: "cachestat(2)", Err: errors.New("it is a model without")}
	}
	if err != nil {
		return 0, err
	}
	return i.resident(r, false, nil), nil
}

// Evict implements pagecache.Cache.
func (m *Memory) Evict(f *os.File, r pagecache.Range) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.inode(f)
	if err == nil {
		err = check(r)
	}
	if err != nil {
		return err
	}
	r = i.cut(r)
	end := r.Off + r.Len
	for p := (r.Off + pageSize - 1) / pageSize; (p+1)*pageSize <= end || p*pageSize < end && end == i.size; p++ {
		if !i.heldBy(p, nil) {
			i.pages[p] = false
		}
	}
	return nil
}

// Pinned implements pagecache.Cache.
func (m *Memory) Pinned() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.locked
}

// Budget implements pagecache.Cache.
func (m *Memory) Budget() int64 { return m.cfg.Budget }

// Close implements pagecache.Cache.
func (m *Memory) Close() error {
	m.mu.Lock()
	m.closed = true
	m.end()
	m.mu.Unlock()
	m.active.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.watched)
	var errs []error
	for id, i := range m.inodes {
		for _, p := range slices.Clone(i.pins) {
			p.release()
		}
		errs = append(errs, i.f.Close())
		delete(m.inodes, id)
	}
	return errors.Join(errs...)
}

// check refuses ranges that cannot be.
func check(r pagecache.Range) error {
	if r.Off < 0 || r.Len < 0 {
		return fmt.Errorf("range of %d bytes at %d: %w", r.Len, r.Off, unix.EINVAL)
	}
	return nil
}

// stat looks at a regular file.
func stat(f *os.File) (st unix.Stat_t, err error) {
	err = linux.Control(f, func(fd int) error {
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFREG {
			return pagecache.ErrNotRegular
		}
		return nil
	})
	if err != nil {
		err = &os.PathError{Op: "look at", Path: f.Name(), Err: err}
	}
	return st, err
}

func duplicate(f *os.File) (own *os.File, err error) {
	err = linux.Control(f, func(theirs int) error {
		fd, err := unix.FcntlInt(uintptr(theirs), unix.F_DUPFD_CLOEXEC, 0)
		if err == nil {
			own = os.NewFile(uintptr(fd), f.Name())
		}
		return os.NewSyscallError("fcntl", err)
	})
	return own, err
}
