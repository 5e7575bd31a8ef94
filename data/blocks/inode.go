package blocks

import (
	"os"

	"golang.org/x/sys/unix"
)

// inode tells which file it is.
type inode struct{ dev, ino uint64 }

func inodeOf(f *os.File) (at inode, size int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return inode{}, 0, os.NewSyscallError("fstat", err)
	}
	return inode{uint64(st.Dev), st.Ino}, st.Size, nil
}
