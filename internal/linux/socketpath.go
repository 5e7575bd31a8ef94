package linux

import (
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// maxSocketPath is the longest path that fits into a sockaddr_un with its NUL.
const maxSocketPath = 107

// SocketPath returns path itself when it fits into a socket address, else a path
// through a descriptor of its directory that is valid until release is called.
func SocketPath(path string) (short string, release func(), err error) {
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	// Not for reading: ordinary users may go through a state directory, but not list it.
	dir, err := os.OpenFile(filepath.Dir(path), unix.O_PATH, 0)
	if err != nil {
		return "", nil, err
	}
	short = filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), filepath.Base(path))
	return short, func() { dir.Close() }, nil
}
