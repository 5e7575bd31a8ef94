package linux

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// HeldForWriting reports whether somebody has a file open, or mapped, for writing. f must be
// open for reading only. If nobody has, who opens it to write waits until f is closed. On a
// file system without leases the answer is no.
func HeldForWriting(f *os.File) bool {
	err := Control(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
		return err
	})
	return errors.Is(err, unix.EAGAIN)
}
