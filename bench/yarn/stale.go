package yarn

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is a file in a cluster's directory that is locked as long as the process
// lives that has started the cluster.
const lockName = "lock"

var errInUse = errors.New("in use")

// lockDir fails with errInUse when whoever has started the cluster is alive.
func lockDir(dir string, flags int) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|flags, 0o600)
	if err != nil {
		return nil, err
	}
	if err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errInUse
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}

// removeStale ends the clusters below parent whose process was killed, and removes
// their directories. One that was kept has no lock and stays.
func removeStale(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, dir := range dirs {
		lock, err := lockDir(dir, 0)
		if errors.Is(err, errInUse) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err == nil {
			err = sweep(dir)
			lock.Close()
		}
		if err == nil {
			err = os.RemoveAll(dir)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
