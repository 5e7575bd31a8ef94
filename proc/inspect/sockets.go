package inspect

import (
	"fmt"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// lostOfSocket: of a stream CRIU saves neither which of the unread bytes is urgent, nor what the kernel makes of what is written
// (TLS, for one: what a program writes would go out as it is).
func lostOfSocket(d linux.Descriptor) (*Loss, error) {
	fd, err := d.Duplicate()
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_STREAM {
		return nil, err
	}
	urgent := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
	if _, err := unix.Poll(urgent, 0); err != nil && err != unix.EINTR {
		return nil, fmt.Errorf("look for urgent data in socket %d: %w", d.FD, err)
	}
	if urgent[0].Revents&unix.POLLPRI != 0 {
		return &Loss{Passing: true, Has: fmt.Sprintf("unread urgent data (MSG_OOB) in socket %d, which would be lost; try again when it has read on", d.FD)}, nil
	}
	// Other sockets than those of TCP do not have this option.
	if above, err := unix.GetsockoptString(fd, unix.SOL_TCP, unix.TCP_ULP); err == nil && above != "" {
		return &Loss{Has: fmt.Sprintf("a connection (socket %d) of which the kernel does the %s, which cannot be restored", d.FD, above)}, nil
	}
	return nil, nil
}
