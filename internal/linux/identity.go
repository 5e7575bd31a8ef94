package linux

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"slices"

	"golang.org/x/sys/unix"
)

// FileIdentity tells a file from all others, also from one that takes its place
// and its inode number later.
type FileIdentity struct {
	Dev   uint64 `json:"dev"`
	Inode uint64 `json:"inode"`
	// Type is the file type, unix.S_IFREG and so on.
	Type uint32 `json:"type"`
	UID  uint32 `json:"uid"`
	// Rdev is which device a device file means.
	Rdev uint64 `json:"rdev,omitempty"`
	// FS is the kind of file system, as statfs(2) has it.
	FS int64 `json:"fs"`
	// Handle is the file handle with its type; empty on file systems without.
	Handle []byte `json:"handle,omitempty"`
	// Birth is when the file was made, in nanoseconds of Unix time; 0: unknown.
	Birth int64 `json:"birth,omitempty"`
}

// atHandleFID asks for a handle that need not lead back to the file (Linux 6.5).
const atHandleFID = 0x200

// IdentifyFile looks at an open file. A descriptor opened with O_PATH will do.
func IdentifyFile(fd int) (FileIdentity, error) {
	var x unix.Statx_t
	const want = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, want, &x); err != nil {
		return FileIdentity{}, os.NewSyscallError("statx", err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return FileIdentity{}, os.NewSyscallError("fstatfs", err)
	}
	id := FileIdentity{
		Dev: unix.Mkdev(x.Dev_major, x.Dev_minor), Inode: x.Ino, Type: uint32(x.Mode) & unix.S_IFMT, UID: x.Uid,
		FS: int64(fs.Type), Handle: fileHandle(fd),
	}
	if id.isDevice() {
		id.Rdev = unix.Mkdev(x.Rdev_major, x.Rdev_minor)
	}
	if x.Mask&unix.STATX_BTIME != 0 {
		id.Birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	return id, nil
}

// fileHandle returns the file handle with its type, nil where the file system has none.
func fileHandle(fd int) []byte {
	for _, flags := range []int{0, atHandleFID} {
		h, _, err := unix.NameToHandleAt(fd, "", unix.AT_EMPTY_PATH|flags)
		if err == nil {
			return append(binary.LittleEndian.AppendUint32(nil, uint32(h.Type())), h.Bytes()...)
		}
	}
	return nil
}

func (id FileIdentity) isDevice() bool { return id.Type == unix.S_IFCHR || id.Type == unix.S_IFBLK }

// OfKernel reports whether the file is one that the kernel shows, as below /proc, and no
// device. Such files are made when somebody looks, so they have no identity of their own;
// their paths are not a user's to change.
func (id FileIdentity) OfKernel() bool { return !id.isDevice() && slices.Contains(kernelFS, id.FS) }

// Remote reports whether the files of a kind of file system, as statfs(2) has it, are another machine's or another
// program's: whoever serves them may take long, or may not answer, and says who may open them.
func Remote(kind int64) bool {
	switch kind {
	case unix.NFS_SUPER_MAGIC, unix.FUSE_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC,
		unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC, unix.AFS_FS_MAGIC, unix.CODA_SUPER_MAGIC,
		0x0bd00bd0, // Lustre
		0x47504653, // GPFS
		0x19830326: // BeeGFS
		return true
	}
	return false
}

// Weak reports whether another file could take the identity over: then the rights
// of the user are asked for as well.
func (id FileIdentity) Weak() bool {
	return id.OfKernel() || !id.isDevice() && len(id.Handle) == 0 && id.Birth == 0
}

var fileTypeNames = map[uint32]string{
	unix.S_IFREG: "a regular file", unix.S_IFDIR: "a directory", unix.S_IFLNK: "a symbolic link", unix.S_IFIFO: "a named pipe",
	unix.S_IFSOCK: "a socket", unix.S_IFCHR: "a character device", unix.S_IFBLK: "a block device",
}

func fileTypeName(t uint32) string {
	if n := fileTypeNames[t]; n != "" {
		return n
	}
	return fmt.Sprintf("a file of type %#o", t)
}

// Differs says how the file now at a path is not the recorded one; empty: it is.
// After a reboot, devices may have other numbers.
func (id FileIdentity) Differs(now FileIdentity, sameBoot bool) string {
	switch {
	case now.Type != id.Type:
		return fmt.Sprintf("it was %s and is %s now", fileTypeName(id.Type), fileTypeName(now.Type))
	case now.UID != id.UID:
		return fmt.Sprintf("it belonged to user %d and belongs to user %d now", id.UID, now.UID)
	case id.isDevice():
		if now.Rdev != id.Rdev {
			return fmt.Sprintf("it was device %s and is device %s now", DeviceName(id.Rdev), DeviceName(now.Rdev))
		}
		return ""
	case now.FS != id.FS:
		return "it was on a file system of another kind"
	case id.OfKernel():
		return ""
	case now.Inode != id.Inode:
		return fmt.Sprintf("another file is there now (inode %d, it was %d)", now.Inode, id.Inode)
	}
	known := len(id.Handle) > 0 && len(now.Handle) > 0
	switch {
	case known && !bytes.Equal(id.Handle, now.Handle), id.Birth != 0 && now.Birth != 0 && id.Birth != now.Birth:
		return fmt.Sprintf("another file is there now, made later (inode %d as before)", now.Inode)
	case !known && sameBoot && now.Dev != id.Dev:
		return fmt.Sprintf("it was on another file system (device %s, now %s)", DeviceName(id.Dev), DeviceName(now.Dev))
	}
	return ""
}

// DeviceName writes a device number as MAJOR:MINOR.
func DeviceName(dev uint64) string { return fmt.Sprintf("%d:%d", unix.Major(dev), unix.Minor(dev)) }
