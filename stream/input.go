package stream

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"headrace/fileset"
	"headrace/internal/linux"
)

// input is a file that is being scanned. It has a number among those of arenas,
// because consumers may be told to take the bytes from it.
type input struct {
	id uint32
	*os.File
	fileset.Identity
}

func newInput(f *os.File, is fileset.Identity) *input {
	return &input{id: arenaIDs.Add(1), File: f, Identity: is}
}

// openAgain opens a file for a consumer: what that does with the descriptor, such as
// setting flags, must not change anything for others. It has the owner's rights, for
// some file systems refuse root. It may take as long as the file system likes. The
// caller closes the file.
func openAgain(file *os.File, owner linux.Credentials) (f *os.File, err error) {
	err = linux.AsUser(owner, func() error {
		f, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", file.Fd()))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s again for a consumer: %w", file.Name(), err)
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // reads ahead twice as far
	return f, nil
}

// readAhead has the kernel begin to read a small part of the file, without waiting.
func (in *input) readAhead(off, n int64) {
	_, _, _ = unix.Syscall(unix.SYS_READAHEAD, in.Fd(), uintptr(off), uintptr(n))
}
