package tasklog

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// leases opens files on which their owners may have a lease (fcntl(2), F_SETLEASE). An
// open waits for these until they are given back, or the kernel takes them away, after
// /proc/sys/fs/lease-break-time; an open that does not wait never gets a file whose
// owner takes the next lease at once. So such files are waited for, beside the others:
// while somebody waits with the right to write, no new lease is given.
type leases struct {
	mu      sync.Mutex
	waiting map[string]bool // for the files of these paths
}

// maxWaiting bounds how many are waited for at a time: each takes a thread.
const maxWaiting = 64

// with opens a file that need not be there, does something with it, and closes it:
// before it returns, or when the file's lease is over. The error of the latter is for
// nobody: it is tried again as long as the file is too large.
func (l *leases) with(path string, do func(f *os.File) error) error {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := unix.Open(path, flags|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EAGAIN):
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.waiting[path] || len(l.waiting) >= maxWaiting {
			return nil
		}
		if l.waiting == nil {
			l.waiting = map[string]bool{}
		}
		l.waiting[path] = true
		go func() {
			if fd, err := unix.Open(path, flags, 0); err == nil {
				doWith(fd, path, do)
			}
			l.mu.Lock()
			defer l.mu.Unlock()
			delete(l.waiting, path)
		}()
		return nil
	case err != nil:
		return fmt.Errorf("cut %s: %w", path, err)
	}
	return doWith(fd, path, do)
}

func doWith(fd int, path string, do func(f *os.File) error) error {
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	return do(f)
}
