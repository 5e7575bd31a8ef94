package linux

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// netlinkPatience bounds the wait for an answer, which the kernel gives at once.
const netlinkPatience = 10 * time.Second

// askNetlink sends messages to a part of the kernel and returns its first answer: the kind
// and what is behind the header. An answer that is an error is returned as one, a
// unix.Errno; an acknowledgement is of the kind NLMSG_ERROR.
func askNetlink(protocol int, messages []byte) (kind uint16, body []byte, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(fd)
	limit := unix.NsecToTimeval(int64(netlinkPatience))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return 0, nil, err
	}
	if err := unix.Sendto(fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return 0, nil, err
	}
	answer := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return 0, nil, err
	}
	if n < unix.SizeofNlMsghdr+4 {
		return 0, nil, errors.New("it has given a short answer")
	}
	kind, body = (*unix.NlMsghdr)(unsafe.Pointer(&answer[0])).Type, answer[unix.SizeofNlMsghdr:n]
	if kind == unix.NLMSG_ERROR {
		if e := unix.Errno(-*(*int32)(unsafe.Pointer(&body[0]))); e != 0 {
			return kind, nil, e
		}
	}
	return kind, body, nil
}
