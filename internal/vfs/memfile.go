package vfs

import (
	"fmt"
	"io"
	"os"
	"syscall"
)

// memFile is an open file of a Mem.
type memFile struct {
	m      *Mem
	i      *inode
	life   int
	name   string
	closed bool
}

// enter locks the file system for an operation on the file.
func (f *memFile) enter() (leave func(), err error) {
	f.m.mu.Lock()
	if err = f.m.alive(f.life); err == nil && f.closed {
		err = os.ErrClosed
	}
	if err != nil {
		f.m.mu.Unlock()
		return nil, err
	}
	return f.m.mu.Unlock, nil
}

func (f *memFile) OS() *os.File                 { return nil }
func (f *memFile) Writeback(_, _ int64, _ bool) {}
func (f *memFile) Prefetch(off, n int64)        {}
func (f *memFile) errorf(err error) error       { return fmt.Errorf("%s: %w", f.name, err) }

func (f *memFile) Size() (int64, error) {
	leave, err := f.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	return f.i.size, nil
}

func (f *memFile) ReadAt(p []byte, off int64) (n int, err error) {
	leave, err := f.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	if int64(len(p)) > f.i.size-off {
		p, err = p[:max(0, f.i.size-off)], io.EOF
	}
	for n < len(p) {
		at := off + int64(n)
		from := at % pageSize
		part := p[n:min(len(p), n+int(pageSize-from))]
		if page := f.i.pages[at/pageSize]; page != nil {
			copy(part, page[from:])
		} else {
			clear(part)
		}
		n += len(part)
	}
	return n, err
}

func (f *memFile) WriteAt(p []byte, off int64) (n int, err error) {
	leave, err := f.enter()
	if err != nil {
		return 0, err
	}
	defer leave()
	for n < len(p) {
		at := off + int64(n)
		from := at % pageSize
		part := p[n:min(len(p), n+int(pageSize-from))]
		page, err := f.page(at / pageSize)
		if err != nil {
			return n, f.errorf(err)
		}
		copy(page[from:], part)
		n += len(part)
		f.i.size = max(f.i.size, at+int64(len(part)))
	}
	f.drift()
	return n, nil
}

// page returns a page to be changed, with what the device has of it kept.
func (f *memFile) page(n int64) ([]byte, error) {
	old := f.i.pages[n]
	delete(f.i.lost, n)
	if old == nil && (f.m.used+1)*pageSize > f.m.capacity {
		return nil, syscall.ENOSPC
	}
	if _, dirty := f.i.dirty[n]; !dirty {
		f.i.dirty[n] = old
		page := make([]byte, pageSize)
		copy(page, old)
		f.i.pages[n] = page
	} else if old == nil {
		f.i.pages[n] = make([]byte, pageSize)
	}
	if old == nil {
		f.m.used++
	}
	return f.i.pages[n], nil
}

// drift writes some pages to the device now and then, as the kernel does.
func (f *memFile) drift() {
	if f.m.rand.IntN(8) != 0 {
		return
	}
	f.i.clean() // the order of a map is no matter of the seed, so it must not decide: all or none
}

func (f *memFile) Sync() error {
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	f.i.clean()
	f.i.durableSize = f.i.size
	return nil
}

func (f *memFile) Truncate(size int64) error {
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	f.truncate(size)
	return nil
}

func (f *memFile) truncate(size int64) {
	for n := range f.i.pages {
		if (n+1)*pageSize > size {
			delete(f.i.lost, n)
			if _, dirty := f.i.dirty[n]; !dirty {
				f.i.dirty[n] = f.i.pages[n]
			}
		}
	}
	before := len(f.i.pages)
	f.i.cut(size)
	f.m.used -= int64(before - len(f.i.pages))
}

func (f *memFile) Allocate(off, n int64) error {
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	var fresh []int64
	for p := off / pageSize; p*pageSize < off+n; p++ {
		if f.i.pages[p] == nil {
			fresh = append(fresh, p)
		}
	}
	if (f.m.used+int64(len(fresh)))*pageSize > f.m.capacity {
		return f.errorf(syscall.ENOSPC)
	}
	for _, p := range fresh {
		if _, err := f.page(p); err != nil {
			return f.errorf(err)
		}
	}
	f.i.size = max(f.i.size, off+n)
	return nil
}

func (f *memFile) Punch(off, n int64) error {
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	for p, page := range f.i.pages {
		from, to := max(off, p*pageSize), min(off+n, (p+1)*pageSize)
		if from >= to {
			continue
		}
		delete(f.i.lost, p)
		if _, dirty := f.i.dirty[p]; !dirty {
			f.i.dirty[p] = page
			page = append([]byte(nil), page...)
			f.i.pages[p] = page
		}
		if to-from == pageSize {
			delete(f.i.pages, p)
			f.m.used--
			continue
		}
		clear(page[from-p*pageSize : to-p*pageSize])
	}
	return nil
}

func (f *memFile) Close() error {
	leave, err := f.enter()
	if err != nil {
		return err
	}
	defer leave()
	f.closed = true
	if f.i.opens--; f.i.links == 0 && f.i.opens == 0 {
		f.m.used -= int64(len(f.i.pages))
	}
	return nil
}
