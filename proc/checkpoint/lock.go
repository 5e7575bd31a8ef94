package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// A taskLock is a lock on a task's directory. It ends with the process.
type taskLock struct{ f *os.File }

// lock takes the lock of a task, unix.LOCK_EX or LOCK_SH, or fails with ErrBusy.
// The task's directory must exist. The file may be removed and made anew by
// others; only the one that has the name counts.
func (s *Store) lock(task string, how int) (*taskLock, error) {
	path := filepath.Join(s.taskDir(task), lockName)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB); err != nil {
			f.Close()
			if errors.Is(err, unix.EWOULDBLOCK) {
				return nil, ErrBusy
			}
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		same, err := sameFile(f, path)
		if err == nil && same {
			return &taskLock{f}, nil
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
}

func sameFile(f *os.File, path string) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(a, b), err
}

func (l *taskLock) unlock() {
	if l != nil {
		// To close alone does not do: a process that is just being started has a copy.
		unix.Flock(int(l.f.Fd()), unix.LOCK_UN)
		l.f.Close()
	}
}
