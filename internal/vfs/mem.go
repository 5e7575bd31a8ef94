package vfs

import (
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
)

const (
	pageSize = 4096
	sector   = 512
)

// ErrDead: the process that had this open was ended by Kill.
var ErrDead = errors.New("the process has ended")

// Mem is a file system in memory. It is as unkind as POSIX allows: until they are made
// durable, pages and names survive a power failure singly and in any order, a page
// perhaps as it was at some time between, or torn between sectors of 512 bytes.
type Mem struct {
	mu sync.Mutex
	// life is raised by Kill: what was opened before is dead.
	life int
	dead bool
	rand *rand.Rand
	// capacity is in bytes, used in pages.
	capacity, used int64
	dirs           map[string]*memDir
	locks          map[string]bool
}

// NewMem makes an empty file system with room for so many bytes. All chance comes from
// seed.
func NewMem(capacity int64, seed uint64) *Mem {
	return &Mem{rand: rand.New(rand.NewPCG(seed, 0)), capacity: capacity, locks: map[string]bool{},
		dirs: map[string]*memDir{"/": newMemDir(), ".": newMemDir()}}
}

type memDir struct {
	live, durable map[string]*inode
	// changes have not been made durable: each sets names, all or none of them.
	changes []map[string]*inode
	// kept: the directory itself is durable.
	kept bool
}

func newMemDir() *memDir {
	return &memDir{live: map[string]*inode{}, durable: map[string]*inode{}, kept: true}
}

type inode struct {
	size, durableSize int64
	pages             map[int64][]byte
	// dirty has what the device holds of pages that have changed since, nil for a hole.
	dirty map[int64][]byte
	// lost are pages of dirty that count as clean: a sync has failed, and no other one writes them before they change again.
	lost  map[int64]bool
	links int
	opens int
}

// Kill ends the process: nothing that is open works any more, nor the file system
// before Restart.
func (m *Mem) Kill() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.life++
	m.dead = true
	clear(m.locks)
}

// Restart brings the file system back after Kill, with what survives a process, or, if
// the power was off, with what survives that.
func (m *Mem) Restart(powerLost bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = false
	if !powerLost {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[name]
		for _, c := range d.changes {
			if m.rand.IntN(2) == 0 {
				d.apply(d.durable, c)
			}
		}
		d.changes, d.live = nil, maps.Clone(d.durable)
		if m.dirs[path.Dir(name)] == nil || !d.kept && m.rand.IntN(2) == 0 { // with all that is in it
			delete(m.dirs, name)
		}
		d.kept = true
	}
	seen := map[*inode]bool{}
	m.used = 0
	for _, name := range slices.Sorted(maps.Keys(m.dirs)) {
		d := m.dirs[name]
		for _, n := range slices.Sorted(maps.Keys(d.live)) {
			i := d.live[n]
			if !seen[i] {
				seen[i] = true
				i.links, i.opens = 0, 0
				i.powerLost(m.rand)
				m.used += int64(len(i.pages))
			}
			i.links++
		}
	}
}

func (d *memDir) apply(to map[string]*inode, change map[string]*inode) {
	for name, i := range change {
		if i == nil {
			delete(to, name)
		} else {
			to[name] = i
		}
	}
}

// change sets names now, and for good with the next SyncDir.
func (d *memDir) change(c map[string]*inode) {
	d.apply(d.live, c)
	d.changes = append(d.changes, c)
}

// powerLost leaves of each page that was not made durable the new, the old, or some
// sectors of each, and of the length the new or the old.
func (i *inode) powerLost(r *rand.Rand) {
	for _, n := range slices.Sorted(maps.Keys(i.dirty)) {
		old := i.dirty[n]
		if i.lost[n] {
			i.set(n, old)
			continue
		}
		switch r.IntN(4) {
		case 0: // new
		case 1: // torn
			torn := make([]byte, pageSize)
			copy(torn, old)
			for s := 0; s < pageSize && i.pages[n] != nil; s += sector {
				if r.IntN(2) == 0 {
					copy(torn[s:s+sector], i.pages[n][s:])
				}
			}
			i.pages[n] = torn
		default:
			i.set(n, old)
		}
	}
	if r.IntN(2) == 0 {
		i.cut(i.durableSize)
	}
	i.dirty, i.lost, i.durableSize = map[int64][]byte{}, nil, i.size
}

func (i *inode) set(n int64, page []byte) {
	if page == nil {
		delete(i.pages, n)
	} else {
		i.pages[n] = page
	}
}

// cut makes the file that long; what is behind its end is zero.
func (i *inode) cut(size int64) {
	for n, p := range i.pages {
		if n*pageSize >= size {
			delete(i.pages, n)
		} else if over := (n+1)*pageSize - size; over > 0 {
			q := slices.Clone(p)
			clear(q[pageSize-over:])
			i.pages[n] = q
		}
	}
	i.size = size
}

func (m *Mem) alive(life int) error {
	if m.dead || life != m.life {
		return ErrDead
	}
	return nil
}

// look returns the directory and the last part of a name.
func (m *Mem) look(name string) (*memDir, string, error) {
	if m.dead {
		return nil, "", ErrDead
	}
	d := m.dirs[path.Dir(name)]
	if d == nil {
		return nil, "", &os.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	}
	return d, path.Base(name), nil
}

func (m *Mem) Open(name string, flags int) (File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.look(name)
	if err != nil {
		return nil, err
	}
	i := d.live[base]
	switch {
	case i == nil && flags&os.O_CREATE == 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
	case i != nil && flags&os.O_EXCL != 0:
		return nil, &os.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
	case i == nil:
		i = &inode{pages: map[int64][]byte{}, dirty: map[int64][]byte{}, links: 1}
		d.change(map[string]*inode{base: i})
	}
	f := &memFile{m: m, i: i, life: m.life, name: name}
	i.opens++
	if flags&os.O_TRUNC != 0 {
		f.truncate(0)
	}
	return f, nil
}

func (m *Mem) MkdirAll(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return ErrDead
	}
	for ; m.dirs[name] == nil; name = path.Dir(name) {
		m.dirs[name] = newMemDir()
		m.dirs[name].kept = false
	}
	return nil
}

func (m *Mem) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, ErrDead
	}
	d := m.dirs[dir]
	if d == nil {
		return nil, &os.PathError{Op: "open", Path: dir, Err: syscall.ENOENT}
	}
	names := slices.Collect(maps.Keys(d.live))
	for n := range m.dirs {
		if path.Dir(n) == dir && n != dir {
			names = append(names, path.Base(n))
		}
	}
	slices.Sort(names)
	return names, nil
}

func (m *Mem) Rename(from, to string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, a, err := m.look(from)
	if err != nil {
		return err
	}
	e, b, err := m.look(to)
	switch {
	case err != nil:
		return err
	case d != e:
		return errors.ErrUnsupported
	case d.live[a] == nil:
		return &os.PathError{Op: "rename", Path: from, Err: syscall.ENOENT}
	}
	m.unlink(d.live[b])
	d.change(map[string]*inode{a: nil, b: d.live[a]})
	return nil
}

func (m *Mem) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, base, err := m.look(name)
	if err != nil {
		return err
	}
	if d.live[base] == nil {
		return &os.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
	}
	m.unlink(d.live[base])
	d.change(map[string]*inode{base: nil})
	return nil
}

// unlink takes a name from an inode, and its room when it is the last use.
func (m *Mem) unlink(i *inode) {
	if i == nil {
		return
	}
	if i.links--; i.links == 0 && i.opens == 0 {
		m.used -= int64(len(i.pages))
	}
}

func (m *Mem) SyncDir(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return ErrDead
	}
	d := m.dirs[dir]
	if d == nil {
		return &os.PathError{Op: "open", Path: dir, Err: syscall.ENOENT}
	}
	d.durable, d.changes = maps.Clone(d.live), nil
	for n, e := range m.dirs {
		if path.Dir(n) == dir {
			e.kept = true
		}
	}
	return nil
}

func (m *Mem) Space(string) (free, total int64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return 0, 0, ErrDead
	}
	return max(0, m.capacity-m.used*pageSize), m.capacity, nil
}

func (m *Mem) Lock(name string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return nil, ErrDead
	}
	if m.locks[name] {
		return nil, ErrLocked
	}
	m.locks[name] = true
	return &memLock{m, name, m.life}, nil
}

type memLock struct {
	m    *Mem
	name string
	life int
}

func (l *memLock) Close() error {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if err := l.m.alive(l.life); err != nil {
		return err
	}
	delete(l.m.locks, l.name)
	return nil
}

// FailSync has the kernel lose what a file has that is not durable, as after a Sync that has failed: it is read as before, but does not come to the device.
func (m *Mem) FailSync(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if d := m.dirs[path.Dir(name)]; d != nil && d.live[path.Base(name)] != nil {
		i := d.live[path.Base(name)]
		i.lost = map[int64]bool{}
		for n := range i.dirty {
			i.lost[n] = true
		}
	}
}

// clean has the device have all pages but those that are lost.
func (i *inode) clean() {
	maps.DeleteFunc(i.dirty, func(n int64, _ []byte) bool { return !i.lost[n] })
}

// Flip changes one bit of a file behind everybody's back, durably.
func (m *Mem) Flip(name string, off int64, bit uint) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := m.dirs[path.Dir(name)]
	if d == nil || d.live[path.Base(name)] == nil {
		return os.ErrNotExist
	}
	i := d.live[path.Base(name)]
	for _, pages := range []map[int64][]byte{i.pages, i.dirty} {
		if p := pages[off/pageSize]; p != nil {
			q := slices.Clone(p)
			q[off%pageSize] ^= 1 << (bit % 8)
			pages[off/pageSize] = q
		}
	}
	return nil
}
