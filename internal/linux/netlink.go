package linux

import (
	"encoding/binary"
	"errors"
	"iter"
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
	fd, err := sendNetlink(protocol, messages)
	if err != nil {
		return 0, nil, err
	}
	defer unix.Close(fd)
	answers := make([]byte, 8<<10)
	n, _, err := unix.Recvfrom(fd, answers, 0)
	if err != nil {
		return 0, nil, err
	}
	a, _, err := nextAnswer(answers[:n])
	return a.Type, a.body, err
}

// errChanged: what was listed has changed meanwhile.
var errChanged = errors.New("it has changed while it was listed")

// listNetlink sends a message that asks for a list, and calls each with what is behind the
// header of every answer.
func listNetlink(protocol int, message []byte, each func(body []byte)) error {
	fd, err := sendNetlink(protocol, message)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	changed := false
	for answers := make([]byte, 64<<10); ; { // the kernel sends 32 KiB at most at once
		n, _, err := unix.Recvfrom(fd, answers, 0)
		if err != nil {
			return err
		}
		for left := answers[:n]; len(left) > 0; {
			var a answer
			if a, left, err = nextAnswer(left); err != nil {
				return err
			}
			changed = changed || a.Flags&unix.NLM_F_DUMP_INTR != 0
			switch {
			case a.Type == unix.NLMSG_DONE && changed:
				return errChanged
			case a.Type == unix.NLMSG_DONE:
				return a.failure()
			}
			each(a.body)
		}
	}
}

// sendNetlink opens a socket and sends messages to a part of the kernel. The caller closes
// it.
func sendNetlink(protocol int, messages []byte) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(netlinkPatience))
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	if err == nil {
		err = unix.Sendto(fd, messages, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// answer is one of the kernel's.
type answer struct {
	unix.NlMsghdr
	body []byte
}

// nextAnswer takes the first of the answers, and returns the others. One that is an error is
// returned as such.
func nextAnswer(answers []byte) (a answer, rest []byte, err error) {
	if len(answers) < unix.SizeofNlMsghdr+4 {
		return a, nil, errors.New("it has given a short answer")
	}
	a.NlMsghdr = *(*unix.NlMsghdr)(unsafe.Pointer(&answers[0]))
	if a.Len < unix.SizeofNlMsghdr+4 || int(a.Len) > len(answers) {
		return a, nil, errors.New("it has given an answer without an end")
	}
	a.body, rest = answers[unix.SizeofNlMsghdr:a.Len], answers[min(len(answers), aligned(int(a.Len))):]
	if a.Type == unix.NLMSG_ERROR {
		err = a.failure()
	}
	return a, rest, err
}

// failure returns the error that an answer tells of, nil for none.
func (a answer) failure() error {
	if e := int32(binary.NativeEndian.Uint32(a.body)); e < 0 {
		return unix.Errno(-e)
	}
	return nil
}

// aligned returns where the next header or attribute is behind one of a length.
func aligned(n int) int { return (n + 3) &^ 3 }

// netlinkAttributes are the attributes in b, by kind. One without an end is the last.
func netlinkAttributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(kind uint16, value []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:]) &^ (unix.NLA_F_NESTED | unix.NLA_F_NET_BYTEORDER)
			if n < unix.SizeofNlAttr || n > len(b) || !yield(kind, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min(len(b), aligned(n)):]
		}
	}
}

// netlinkAttribute returns the first attribute of a kind; nil: there is none.
func netlinkAttribute(b []byte, kind uint16) []byte {
	for k, value := range netlinkAttributes(b) {
		if k == kind {
			return value
		}
	}
	return nil
}
