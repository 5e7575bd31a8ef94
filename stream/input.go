package stream

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// input is a file that is being scanned. It has a number among those of arenas,
// because consumers may be told to take the bytes from it.
type input struct {
	id uint32
	*os.File
	identity
}

func newInput(f *os.File, is identity) *input {
	return &input{id: arenaIDs.Add(1), File: f, identity: is}
}

// again opens the file for a consumer: what it does with the descriptor, such as
// setting flags, must not change anything for others. The caller closes it.
func (in *input) again() (*os.File, error) {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", in.Fd()))
	if err != nil {
		return nil, fmt.Errorf("open %s again for a consumer: %w", in.Name(), err)
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_SEQUENTIAL) // reads ahead twice as far
	return f, nil
}

// readAhead has the kernel begin to read a small part of the file, without waiting.
func (in *input) readAhead(off, n int64) {
	_, _, _ = unix.Syscall(unix.SYS_READAHEAD, in.Fd(), uintptr(off), uintptr(n))
}
