package linux

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked says that somebody else has a lock.
var ErrLocked = errors.New("locked by another")

// LockFile opens a file, with os.O_CREATE among the flags also one that is not there,
// and locks it: how is unix.LOCK_EX or LOCK_SH. It does not wait, but fails with
// ErrLocked. The lock ends when the file is closed by all that have it, at the latest
// with the process.
func LockFile(path string, flags, how int) (*os.File, error) {
	return lock(path, os.O_RDWR|flags, how)
}

// LockDir is LockFile for a directory.
func LockDir(path string, how int) (*os.File, error) {
	return lock(path, os.O_RDONLY|unix.O_DIRECTORY, how)
}

func lock(path string, flags, how int) (*os.File, error) {
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrLocked
	}
	return nil, fmt.Errorf("lock %s: %w", path, err)
}
