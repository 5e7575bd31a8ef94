package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// StandInFile, in a task's directory, holds the path of the directory for which it
// stands in (RestoreOptions.MovedFrom).
const StandInFile = "stands-in-for"

// StoodInBy is how the names of the files begin that mark, on the host, a directory
// as one for which others stand in; the rest is the name of the other's directory.
// As long as there is one the directory must not be removed: what is mounted on it,
// in whatever namespace, would go with it.
const StoodInBy = "stood-in-by-"

// removeStandIn takes a task's mark away from the directory for which it stood in,
// and the directory if nothing else is in it.
func removeStandIn(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, StandInFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	mark := filepath.Join(string(b), StoodInBy+filepath.Base(dir))
	if err := os.Remove(mark); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return removeIfEmpty(string(b))
}

// removeTaskDir removes a task's directory but for the marks of those who stand in
// for it.
func removeTaskDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), StoodInBy) {
			continue
		}
		if err := removeFile(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return removeIfEmpty(dir)
}

func removeIfEmpty(dir string) error {
	err := unix.Rmdir(dir)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTEMPTY) {
		return nil
	}
	return err
}
