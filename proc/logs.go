package proc

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// OpenLogs is the directory, beside that of the tasks, of deleted files that somebody still
// has open for writing. It is root's alone. Whoever keeps logs within limits keeps these
// empty, and removes them when they are closed (package tasklog).
const OpenLogs = "open-logs"

// usersFiles are those in a task's directory that belong to its user.
var usersFiles = []string{"stdout", "stderr", ProgressFile}

// removeFile removes a file of a task's directory, or what is below it. What a user goes on
// writing to would not be seen any more, on a disk that is not that user's: it is put aside.
func removeFile(path string) error {
	if os.Geteuid() != 0 || !slices.Contains(usersFiles, filepath.Base(path)) {
		return os.RemoveAll(path)
	}
	// From now on nobody opens it for writing, by whatever descriptor.
	err := errors.Join(os.Lchown(path, 0, 0), os.Chmod(path, 0))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err == nil {
		defer f.Close() // after the removal
		if !linux.HeldForWriting(f) {
			return os.Remove(path)
		}
	} else if !errors.Is(err, unix.EAGAIN) { // that is a lease of who writes
		return err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	aside := filepath.Join(filepath.Dir(filepath.Dir(filepath.Dir(path))), OpenLogs)
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(aside, strconv.FormatUint(info.Sys().(*syscall.Stat_t).Ino, 10)))
}
