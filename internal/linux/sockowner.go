package linux

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrNotHere: no socket of this machine is the other end.
var ErrNotHere = errors.New("it is not a socket of this machine")

// The kernel's struct inet_diag_req_v2 and inet_diag_msg (linux/inet_diag.h). Ports and addresses
// are in the order of the network.
type (
	sockID struct {
		sport, dport [2]byte
		src, dst     [16]byte
		iface        uint32
		cookie       [2]uint32
	}
	diagRequest struct {
		family, protocol, ext, pad uint8
		states                     uint32
		id                         sockID
	}
	diagAnswer struct {
		family, state, timer, retrans  uint8
		id                             sockID
		expires, rqueue, wqueue, owner uint32
		inode                          uint32
	}
)

// TCPOwner returns the user who has made the socket with one address, connected to another, on this
// machine and in this network namespace; ErrNotHere when there is none. So a server learns who is
// at the other end of a connection of its own machine: near is the client's end.
func TCPOwner(near, far netip.AddrPort) (uint32, error) {
	uid, err := tcpOwner(near, far)
	if err != nil && err != ErrNotHere {
		err = fmt.Errorf("ask the kernel for the owner of a socket: %w", err)
	}
	return uid, err
}

func tcpOwner(near, far netip.AddrPort) (uint32, error) {
	plain := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
	}
	near, far = plain(near), plain(far)
	r := diagRequest{family: unix.AF_INET6, protocol: unix.IPPROTO_TCP, states: ^uint32(0), id: sockID{cookie: [2]uint32{^uint32(0), ^uint32(0)}}}
	binary.BigEndian.PutUint16(r.id.sport[:], near.Port())
	binary.BigEndian.PutUint16(r.id.dport[:], far.Port())
	if near.Addr().Is4() {
		r.family = unix.AF_INET
	}
	copy(r.id.src[:], near.Addr().AsSlice())
	copy(r.id.dst[:], far.Addr().AsSlice())
	ask := make([]byte, unix.SizeofNlMsghdr+int(unsafe.Sizeof(r)))
	*(*unix.NlMsghdr)(unsafe.Pointer(&ask[0])) = unix.NlMsghdr{Len: uint32(len(ask)), Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST}
	*(*diagRequest)(unsafe.Pointer(&ask[unix.SizeofNlMsghdr])) = r
	kind, body, err := askNetlink(unix.NETLINK_SOCK_DIAG, ask)
	switch {
	case err == unix.ENOENT:
		return 0, ErrNotHere
	case err != nil:
		return 0, err
	case kind != unix.SOCK_DIAG_BY_FAMILY || len(body) < int(unsafe.Sizeof(diagAnswer{})):
		return 0, fmt.Errorf("it has given an answer of kind %d", kind)
	}
	a := (*diagAnswer)(unsafe.Pointer(&body[0]))
	// Where no socket is connected so the kernel tells of one that listens at near's port, which a caller of another machine chooses.
	if !a.connects(near, far) {
		return 0, ErrNotHere
	}
	if a.inode == 0 { // the client has closed it, and it only waits: it has no owner any more
		return 0, ErrNotHere
	}
	return a.owner, nil
}

// connects reports whether the socket has these ends.
func (a *diagAnswer) connects(near, far netip.AddrPort) bool {
	end := func(b [16]byte, port [2]byte) netip.AddrPort {
		ip := netip.AddrFrom16(b)
		if a.family == unix.AF_INET {
			ip = netip.AddrFrom4([4]byte(b[:4]))
		}
		return netip.AddrPortFrom(ip.Unmap(), binary.BigEndian.Uint16(port[:]))
	}
	return end(a.id.src, a.id.sport) == near && end(a.id.dst, a.id.dport) == far
}
