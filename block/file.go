package block

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"headrace/internal/vfs"
)

// combined is all blocks of one user's file on one disk: one file, one region after the
// other in the order in which the blocks came.
type combined struct {
	v    *volume
	id   uint64
	lane lane

	// mu orders what changes the file as a whole. It is taken before Store.mu.
	mu sync.Mutex
	// changes counts changes that have begun, and busy those of them that have not ended.
	changes, busy int
	// named: the file's name is durable.
	named bool
	// sync is held during an fsync: of two at once on one descriptor the kernel tells
	// only one of an error.
	sync sync.Mutex

	opening sync.Mutex
	open    *handle
	// unreadable: the disk could not open it the last time.
	unreadable atomic.Bool

	// Guarded by Store.mu. Regions are in order; those of deleted blocks are among them.
	regions []*replica
	end     int64
	gaps    []Gap
	// left: there is a replica in it that was left as it is (choose).
	left bool
}

// Gap is a part of the file of a user's blocks on a disk in which there may be blocks of which nobody knows: a header could not be read. Or it is all files of a directory of the disk
// that could not be listed.
type Gap struct {
	// File is the user's file of which they were when they were made; of a directory, one whose blocks would be there.
	File uint64
	// From and To are offsets in bytes. Where no block was found behind it To is math.MaxInt64. Of a directory From is below 0.
	From, To int64
	Cause    error
}

// Directory reports whether it is a directory.
func (g Gap) Directory() bool { return g.From < 0 }

// Has reports whether blocks of a user's file may be in it.
func (g Gap) Has(file uint64) bool {
	return g.File == file || g.Directory() && directory(g.File) == directory(file)
}

// String says where it is, for people.
func (g Gap) String() string {
	if g.Directory() {
		return "blocks of all files in files/" + directory(g.File)
	}
	to := "its end"
	if g.To != math.MaxInt64 {
		to = fmt.Sprint(g.To)
	}
	return fmt.Sprintf("blocks of file %d from byte %d to %s", g.File, g.From, to)
}

// openGap returns the gap behind which nobody knows where another region may begin; Store.mu is held.
func (c *combined) openGap() (gap Gap, open bool) {
	if n := len(c.gaps); n > 0 && c.gaps[n-1].To == math.MaxInt64 {
		return c.gaps[n-1], true
	}
	return gap, false
}

// handle is an open combined file, closed with its last user.
type handle struct {
	vfs.File
	c    *combined
	uses int
}

// use opens the file, or joins those who have it open. One that is there and cannot be opened is no fault of the disk's other files.
func (c *combined) use(flags int) (*handle, error) {
	c.opening.Lock()
	defer c.opening.Unlock()
	if c.open == nil {
		got := make(chan vfs.File, 1)
		what := reading
		if flags&os.O_CREATE != 0 {
			what = changing
		}
		err := c.v.do(what, func() error {
			f, err := c.v.fs.Open(c.v.path(c.id), os.O_RDWR|flags)
			if err == nil {
				got <- f
			}
			return err
		})
		c.unreadable.Store(errors.Is(err, unix.EIO))
		if err != nil {
			return nil, err
		}
		c.open = &handle{File: <-got, c: c}
	}
	c.open.uses++
	return c.open, nil
}

// create is use of a file that may be a new one.
func (c *combined) create() (*handle, error) {
	v := c.v
	v.making.RLock()
	h, err := c.use(0)
	if errors.Is(err, os.ErrNotExist) {
		h, err = c.use(os.O_CREATE)
	}
	v.making.RUnlock()
	if !errors.Is(err, os.ErrNotExist) {
		return h, err
	}
	v.making.Lock()
	defer v.making.Unlock()
	if _, err := v.readFile("VERSION"); errors.Is(err, os.ErrNotExist) { // what is below a disk that is not mounted any more is not it
		return nil, v.takeOut(ErrNotMounted)
	}
	if err := v.makeDir(filepath.Dir(v.path(c.id))); err != nil {
		return nil, err
	}
	return c.use(os.O_CREATE)
}

// release ends the use of a handle.
func (h *handle) release() {
	h.c.opening.Lock()
	defer h.c.opening.Unlock()
	if h.uses--; h.uses > 0 {
		return
	}
	if h.c.open == h {
		h.c.open = nil
	}
	var begun atomic.Bool
	err := h.c.v.do(asking, func() error { begun.Store(true); return h.Close() }) // it writes nothing back
	if err != nil && !begun.Load() {
		go h.Close() // the disk is out of use, and nobody can unmount it while a file is open
	}
}

// change begins a change of the file. The index forgets the file first, durably, so that
// after a crash its headers are read again.
func (c *combined) change() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changeLocked()
}

func (c *combined) changeLocked() error {
	if err := c.v.index.forget(c.v, c.id); err != nil {
		return err
	}
	c.changes++
	c.busy++
	return nil
}

// changed ends a change.
func (c *combined) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy--
}

// write writes at a place in the file.
func (h *handle) write(p []byte, off int64) error {
	return h.c.v.do(changing, func() error {
		_, err := h.WriteAt(p, off)
		return err
	})
}

// sync makes the file durable with its name.
func (h *handle) sync() error {
	c := h.c
	c.sync.Lock()
	defer c.sync.Unlock()
	if err := c.v.do(syncing, h.Sync); err != nil || c.named {
		return err
	}
	if err := c.v.do(syncing, func() error { return c.v.fs.SyncDir(filepath.Dir(c.v.path(c.id))) }); err != nil {
		return err
	}
	c.named = true
	return nil
}

// unlink removes the file. Who has it open keeps it. The kernel looks the name up first, which reads what may be unreadable: that is no fault of the disk's other files.
func (c *combined) unlink() error {
	c.opening.Lock()
	c.open = nil
	c.opening.Unlock()
	err := c.v.do(reading, func() error { return c.v.fs.Remove(c.v.path(c.id)) })
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	c.named = false
	return err
}
