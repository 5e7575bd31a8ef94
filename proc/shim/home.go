package shim

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/proc"
)

// Names in the task's directory.
const (
	// memoryDir is a file system in memory that only root can enter, where programs may be run. Restores use it:
	// links and small files take long on a disk where others wait for fsync.
	memoryDir  = "memory"
	imagesDir  = "images"  // in it: what CRIU reads
	deletedDir = "deleted" // in both: what CRIU makes of files that had been deleted
	madeDir    = "made"    // in the one on disk, which stays
)

// home is the task's directory, which is the supervisor's working directory.
type home struct {
	dir       string
	knownAs   string // dir as the task's processes know it: they may have been moved
	hasMemory bool   // memoryDir is mounted
	hasDisk   bool   // deletedDir is mounted on itself
}

// appearAs makes the directory appear, in this mount namespace, at the path of another
// task's.
func (h *home) appearAs(dir string) error {
	if err := h.makeMountPoint(dir); err != nil {
		return fmt.Errorf("make the directory that the task had elsewhere: %w", err)
	}
	if err := unix.Mount(h.dir, dir, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("show the task's directory at %s: %w", dir, err)
	}
	h.knownAs = dir
	return nil
}

// makeMountPoint makes a directory beside those of other tasks, where no user can
// put anything, unless it is there, and marks it (proc.StoodInBy).
func (h *home) makeMountPoint(dir string) error {
	if dir != filepath.Clean(dir) || !filepath.IsAbs(dir) {
		return fmt.Errorf("%q is not an absolute path", dir)
	}
	parent, err := os.OpenFile(filepath.Dir(dir), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%w; daemons between which tasks move must have the same state directory", err)
	}
	defer parent.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(parent.Fd()), &st); err != nil {
		return err
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return fmt.Errorf("others may write to %s", parent.Name())
	}
	// Recorded first, so that it is removed with the task.
	if err := linux.WriteFileDurably(proc.StandInFile, []byte(dir), 0o600); err != nil {
		return err
	}
	err = unix.Mkdirat(int(parent.Fd()), filepath.Base(dir), 0o711)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	mark := filepath.Join(filepath.Base(dir), proc.StoodInBy+filepath.Base(h.dir))
	fd, err := unix.Openat(int(parent.Fd()), mark, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &os.PathError{Op: "create", Path: mark, Err: err}
	}
	return unix.Close(fd)
}

// memory mounts the file system in memory, once, in the task's mount namespace,
// with which it goes.
func (h *home) memory() (string, error) {
	dir := filepath.Join(h.dir, memoryDir)
	if h.hasMemory {
		return dir, nil
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if err := unix.Mount("headrace", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700"); err != nil {
		return "", fmt.Errorf("mount %s: %w", dir, err)
	}
	h.hasMemory = true
	return dir, nil
}

// memoryForDeleted returns a directory in it that is not there yet.
func (h *home) memoryForDeleted() (string, error) {
	memory, err := h.memory()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(memory, deletedDir)
	return dir, os.RemoveAll(dir)
}

// diskForDeleted returns a directory on the disk that is not there yet, for the deleted files of a user's task. What they
// were on may have been mounted with nosuid, and contents and owner as the user liked: so is what they are made on. Root's own
// tasks may have had devices.
func (h *home) diskForDeleted(user uint32) (string, error) {
	dir := filepath.Join(h.dir, deletedDir)
	if !h.hasDisk {
		if err := os.RemoveAll(dir); err != nil { // of an earlier supervisor
			return "", err
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			return "", err
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(dir, &fs); err != nil {
			return "", &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		flags := uintptr(fs.Flags)&(unix.MS_NODEV|unix.MS_NOEXEC) | unix.MS_NOSUID // the bits are the same as in ST_NODEV
		if user != 0 {
			flags |= unix.MS_NODEV
		}
		err := unix.Mount(dir, dir, "", unix.MS_BIND, "")
		if err == nil {
			if err = unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|flags, ""); err != nil {
				err = errors.Join(err, unix.Unmount(dir, unix.MNT_DETACH))
			}
		}
		if err != nil {
			return "", fmt.Errorf("mount %s on itself: %w", dir, err)
		}
		h.hasDisk = true
	}
	made := filepath.Join(dir, madeDir)
	return made, os.RemoveAll(made)
}
