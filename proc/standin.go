package proc

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// StandInFile, in a task's directory, holds the path of the directory for which it
// stands in (RestoreOptions.MovedFrom), if that was made for it.
const StandInFile = "stands-in-for"

// removeStandIn removes the mount point that a moved task has left on the host: an
// empty directory.
func removeStandIn(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, StandInFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = unix.Rmdir(string(b))
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // a task has come to be there
	}
	return err
}
