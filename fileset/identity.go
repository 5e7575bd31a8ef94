package fileset

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Identity tells whether a file is still the one that was opened.
type Identity struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`  // bytes
	Mtime int64  `json:"mtime"` // ns
}

// Identify tells which file is open.
func Identify(f *os.File) (Identity, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Identity{}, err
	}
	return Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano()}, nil
}

// Here returns what a file that was this would be called now that it is opened again, as now: device numbers
// of file systems that have no block device of their own (NFS, FUSE, overlay, btrfs) are given anew whenever they
// are mounted. Dev 0 is any device.
func (was Identity) Here(now Identity) Identity {
	if was.Dev == 0 || unix.Major(was.Dev) == 0 && unix.Major(now.Dev) == 0 {
		was.Dev = now.Dev
	}
	return was
}

// Changed says how a file that was opened as was differs now, empty if not in a
// way that matters. A file may grow: what was appended is not read.
func (was Identity) Changed(now Identity) string {
	switch {
	case was.Dev != now.Dev || was.Ino != now.Ino:
		return "was replaced by another file"
	case now.Size < was.Size:
		return fmt.Sprintf("shrank from %d to %d bytes", was.Size, now.Size)
	case now.Size == was.Size && now.Mtime != was.Mtime:
		return "was written to"
	}
	return ""
}
