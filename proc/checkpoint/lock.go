package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

const lockName = "lock"

// A taskLock is a lock on a task's directory. It ends with the process.
type taskLock struct{ f *os.File }

const (
	// DefaultPatience is Options.Patience of a store that does not set it.
	DefaultPatience = 30 * time.Second
	// lockPoll is how often a lock is asked for that somebody else has.
	lockPoll = 5 * time.Millisecond
)

// lock takes the lock of a task, unix.LOCK_EX or LOCK_SH. While others have it, it
// waits as long as the store's patience lasts, and fails with ErrBusy then. The
// task's directory must exist.
func (s *Store) lock(ctx context.Context, task string, how int) (*taskLock, error) {
	patience := s.Patience
	if patience == 0 {
		patience = DefaultPatience
	}
	for deadline := time.Now().Add(patience); ; {
		l, err := s.tryLock(task, how)
		if !errors.Is(err, ErrBusy) || !time.Now().Before(deadline) {
			return l, err
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryLock takes the lock of a task or fails with ErrBusy at once. The file may be
// removed and made anew by others; only the one that has the name counts.
func (s *Store) tryLock(task string, how int) (*taskLock, error) {
	path := filepath.Join(s.taskDir(task), lockName)
	for {
		f, err := linux.LockFile(path, os.O_CREATE, how)
		if errors.Is(err, linux.ErrLocked) {
			return nil, ErrBusy
		}
		if err != nil {
			return nil, err
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
