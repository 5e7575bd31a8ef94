package vfs

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// OS is the file system of this machine. What it makes only its user may read.
type OS struct{}

func (OS) Open(name string, flags int) (File, error) {
	f, err := os.OpenFile(name, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	return osFile{f}, nil
}

func (OS) MkdirAll(name string) error   { return os.MkdirAll(name, 0o700) }
func (OS) Rename(from, to string) error { return os.Rename(from, to) }
func (OS) Remove(name string) error     { return os.Remove(name) }

func (OS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, err
}

func (OS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func (OS) Space(dir string) (free, total int64, err error) { return Space(dir) }

func (OS) Lock(name string) (io.Closer, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

type osFile struct{ *os.File }

func (f osFile) OS() *os.File { return f.File }

func (f osFile) Size() (int64, error) {
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

// Sync leaves out times, which cost a write of their own.
func (f osFile) Sync() error { return f.do("fdatasync", unix.Fdatasync) }

func (f osFile) Allocate(off, n int64) error {
	return optional(f.do("fallocate", func(fd int) error { return unix.Fallocate(fd, 0, off, n) }))
}

func (f osFile) Punch(off, n int64) error {
	return optional(f.do("punch", func(fd int) error {
		return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	}))
}

func (f osFile) Writeback(off, n int64, wait bool) {
	flags := unix.SYNC_FILE_RANGE_WRITE
	if wait {
		flags |= unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	}
	f.do("", func(fd int) error { return unix.SyncFileRange(fd, off, n, flags) })
}

func (f osFile) Prefetch(off, n int64) {
	f.do("", func(fd int) error { return unix.Fadvise(fd, off, n, unix.FADV_WILLNEED) })
}

// optional is for what not every file system can.
func optional(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}

// do makes a system call with the descriptor, again if a signal has come between.
func (f osFile) do(op string, call func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var cerr error
	err = raw.Control(func(fd uintptr) {
		for cerr = unix.EINTR; cerr == unix.EINTR; {
			cerr = call(int(fd))
		}
	})
	if err != nil {
		return err
	}
	if cerr != nil {
		return &os.PathError{Op: op, Path: f.Name(), Err: cerr}
	}
	return nil
}
