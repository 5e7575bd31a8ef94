package inspect

import (
	"fmt"
	"net"

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
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return nil, err
	}
	if l, err := withoutAddress(d.FD, fd, kind); l != nil || err != nil || kind != unix.SOCK_STREAM {
		return l, err
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

// withoutAddress: a socket with a port is bound again at a restore, with the options that it has by then. One whose address this
// machine has not, or no longer, may be bound to it only while it says so (IP_FREEBIND).
func withoutAddress(number, fd, kind int) (*Loss, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if family != unix.AF_INET && family != unix.AF_INET6 || kind != unix.SOCK_STREAM && kind != unix.SOCK_DGRAM || err != nil {
		return nil, err
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		return nil, fmt.Errorf("ask for the address of socket %d: %w", number, err)
	}
	var address net.IP
	bound := false
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		address, bound, a.Port = a.Addr[:], a.Port != 0, 0
	case *unix.SockaddrInet6:
		address, bound, a.Port = a.Addr[:], a.Port != 0, 0
	}
	if _, err := unix.Getpeername(fd); !bound || kind == unix.SOCK_STREAM && err == nil {
		return nil, nil // CRIU makes connections whatever the machine has
	}
	for _, option := range []int{unix.IP_FREEBIND, unix.IP_TRANSPARENT} {
		if on, err := unix.GetsockoptInt(fd, unix.SOL_IP, option); on != 0 || err != nil {
			return nil, err
		}
	}
	// Which addresses a network interface may have is not asked of one that is bound to it.
	if on, err := unix.GetsockoptString(fd, unix.SOL_SOCKET, unix.SO_BINDTODEVICE); on != "" || err != nil {
		return nil, err
	}
	trial, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(trial)
	if unix.Bind(trial, at) != unix.EADDRNOTAVAIL {
		return nil, nil
	}
	return &Loss{Passing: true, Has: fmt.Sprintf("socket %d at the address %s, which this machine has not, so that it could not be made again; "+
		"try again when the machine has it or the process has closed it", number, address)}, nil
}
