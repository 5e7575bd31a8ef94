package inspect

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// ttyBuffer is as much as the kernel tells of what is queued in one direction of a
// terminal (N_TTY_BUF_SIZE - 1). There may be more behind it, four times as much.
const ttyBuffer = 4095

// isTerminal reports whether a descriptor is the master or the slave of a pty.
func isTerminal(d linux.Descriptor) bool {
	return strings.HasPrefix(d.Target, "/dev/pts/") || d.Target == "/dev/ptmx"
}

// unreadTerminal: CRIU reads what is queued in a terminal and writes it back at the
// restore, where nobody reads: what does not fit makes it wait for ever. And a terminal
// that does more than pass bytes on, as one for people does, does that a second time.
func unreadTerminal(d linux.Descriptor) (*Loss, error) {
	fd, err := d.Duplicate()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	// On a busy machine what was written may still be on its way to the queue, where
	// TIOCINQ does not see it; poll waits for it to arrive (tty_buffer_flush_work).
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0); err != nil && !errors.Is(err, unix.EINTR) {
		return nil, fmt.Errorf("look at the terminal %s (descriptor %d): %w", d.Target, d.FD, err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCINQ)
	if errors.Is(err, unix.EIO) || err == nil && n == 0 { // its other side is closed
		return nil, nil
	}
	var mode *unix.Termios
	if err == nil {
		mode, err = unix.IoctlGetTermios(fd, unix.TCGETS)
	}
	if err != nil {
		return nil, fmt.Errorf("look at the terminal %s (descriptor %d): %w", d.Target, d.FD, err)
	}
	raw := mode.Oflag&unix.OPOST == 0 // of what the slave has written
	if d.Target != "/dev/ptmx" {
		raw = mode.Lflag&(unix.ICANON|unix.ECHO|unix.ISIG) == 0 && mode.Iflag&(unix.ICRNL|unix.INLCR|unix.IGNCR) == 0
	}
	if raw && n < ttyBuffer {
		return nil, nil
	}
	return &Loss{Passing: true, Has: fmt.Sprintf(
		"%d unread bytes or more in the terminal %s (descriptor %d), which could not be put back as they are; try again when they are read", n, d.Target, d.FD)}, nil
}
