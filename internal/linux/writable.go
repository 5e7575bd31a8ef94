package linux

import (
	"os"

	"golang.org/x/sys/unix"
)

// Writable returns nil if this process can make files in a directory, as far as the kernel knows without trying: it may, the file system is mounted to be written, and has room.
func Writable(dir string) error {
	if err := unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS); err != nil {
		return &os.PathError{Op: "write", Path: dir, Err: err}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	free := st.Bavail
	if os.Geteuid() == 0 {
		free = st.Bfree
	}
	if st.Blocks > 0 && free == 0 || st.Files > 0 && st.Ffree == 0 { // some have no bounds
		return &os.PathError{Op: "write", Path: dir, Err: unix.ENOSPC}
	}
	return nil
}
