package fileset

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Open opens a regular file for reading, with the rights of this thread. It
// fails with ErrNotRegular on anything else, without opening it: a pipe does
// not block it, a device does not notice. The error has the path.
func Open(path string) (*os.File, error) {
	at, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &Problem{Path: path, Err: err}
	}
	defer unix.Close(at)
	var st unix.Stat_t
	if err := unix.Fstat(at, &st); err != nil {
		return nil, &Problem{Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &Problem{Path: path, Err: ErrNotRegular}
	}
	// The very file that was looked at, whatever the path leads to by now.
	fd, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", at), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, &Problem{Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}
