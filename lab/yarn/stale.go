package yarn

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// lockName is a file in a cluster's directory that is locked as long as the process
// lives that has started the cluster.
const lockName = "lock"

// lockDir fails with linux.ErrLocked when whoever has started the cluster is alive.
func lockDir(dir string, flags int) (*os.File, error) {
	return linux.LockFile(filepath.Join(dir, lockName), flags, unix.LOCK_EX)
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
		if errors.Is(err, linux.ErrLocked) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
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
