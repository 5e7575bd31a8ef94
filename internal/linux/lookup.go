package linux

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// ErrKernelFile is a path that ends in a file system in which the kernel shows
// itself.
var ErrKernelFile = errors.New("it belongs to a file system of the kernel's own, as /proc and /sys do; name a file with contents")

// errLink is what the kernel says with ELOOP, which it also does to magic links.
type errLink struct{}

func (errLink) Error() string { return "too many levels of symbolic links, or a link of /proc" }
func (errLink) Unwrap() error { return unix.ELOOP }

// kernelFS are the file systems in which the kernel shows itself. Nothing of them is read for a user: a thread of
// ours sees more there than the user would, and to read some of it does something.
var kernelFS = []int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC,
	unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC,
	unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.AAFS_MAGIC, unix.BINFMTFS_MAGIC, unix.RDTGROUP_SUPER_MAGIC,
	unix.NSFS_MAGIC, unix.PID_FS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.XENFS_SUPER_MAGIC, unix.OPENPROM_SUPER_MAGIC,
	unix.BINDERFS_SUPER_MAGIC, unix.DEVMEM_MAGIC,
	0x62656570, // configfs
	0x65735543, // fusectl
	0x19800202, // mqueue
}

// Lookup finds what a path that somebody else has named leads to, with the rights
// of this thread, and opens nothing: the descriptor is one of O_PATH, and the
// caller closes it. No magic link of /proc is passed: to a thread that acts as a
// user (AsUser) the descriptors in /proc/self/fd are those of this process, not
// that user's. What belongs to a file system of the kernel's own is ErrKernelFile.
//
// Of flags O_NOFOLLOW and O_DIRECTORY are meant, of resolve the RESOLVE_ bits that
// forbid more. Errors are without the path.
func Lookup(path string, flags int, resolve uint64) (fd int, st unix.Stat_t, err error) {
	return LookupAt(unix.AT_FDCWD, path, flags, resolve)
}

// LookupAt is Lookup of a path that is relative to an open directory.
func LookupAt(dir int, path string, flags int, resolve uint64) (fd int, st unix.Stat_t, err error) {
	if fd, err = OpenAt(dir, path, unix.O_PATH|flags, resolve); err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = refuseKernelFile(fd)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// OpenDirFor opens a directory for reading as Lookup finds it. The caller closes
// it. Errors are without the path.
func OpenDirFor(path string) (*os.File, error) {
	fd, err := OpenAt(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := refuseKernelFile(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenRegularFor opens the regular file that Lookup finds. Anything else is
// unix.EINVAL and is not opened: a pipe does not block, a device does not notice.
// The open does not wait for whoever has a lease on the file either. Errors are
// without the path.
func OpenRegularFor(path string, flags int, resolve uint64) (*os.File, error) {
	return OpenRegularAt(unix.AT_FDCWD, path, flags, resolve)
}

// OpenRegularAt is OpenRegularFor of a path that is relative to an open directory.
func OpenRegularAt(dir int, path string, flags int, resolve uint64) (*os.File, error) {
	at, st, err := LookupAt(dir, path, flags&unix.O_NOFOLLOW, resolve)
	if err != nil {
		return nil, err
	}
	defer unix.Close(at)
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, unix.EINVAL
	}
	// The very file that was looked at, whatever the path leads to by now.
	own := fmt.Sprintf("/proc/self/fd/%d", at)
	fd, err := unix.Open(own, flags&^unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), path), nil
}

// OpenAt opens a path that is relative to an open directory, or to where this process is
// (unix.AT_FDCWD), without passing a magic link of /proc. It asks nothing about what it
// finds. The caller closes it. Errors are without the path.
func OpenAt(dir int, path string, flags int, resolve uint64) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN && flags&unix.O_PATH != 0:
			continue
		case err == unix.ELOOP:
			return -1, errLink{}
		}
		return fd, err
	}
}

func refuseKernelFile(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if slices.Contains(kernelFS, int64(fs.Type)) {
		return ErrKernelFile
	}
	return nil
}
