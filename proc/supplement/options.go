package supplement

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// SocketOptions is what a socket has other than one that has just been made, of what CRIU does not give back.
type SocketOptions struct {
	linux.Descriptor
	// Values are by the names of the options, as the kernel writes them; the names of network interfaces instead of their numbers.
	Values map[string][]byte `json:"values,omitempty"`
	Groups []Group           `json:"groups,omitempty"`
}

// option is one that getsockopt(2) tells and setsockopt(2) takes.
type option struct {
	level, number int
	name          string
	size          int // in bytes, at most
	note          note
}

// A note says what is to be known of an option.
type note uint

const (
	// idle: of a connection of TCP it changes by itself, or cannot be set.
	idle note = 1 << iota
	// iface: it is the number of a network interface; ifaceBE: in the order of the network.
	iface
	ifaceBE
)

// options are set in this order.
var options = []option{
	{unix.SOL_SOCKET, unix.SO_TIMESTAMPING, "SO_TIMESTAMPING", 8, 0},
	{unix.SOL_SOCKET, unix.SO_TIMESTAMPING_NEW, "SO_TIMESTAMPING_NEW", 8, 0},
	{unix.SOL_SOCKET, unix.SO_TIMESTAMP, "SO_TIMESTAMP", 4, 0},
	{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, "SO_TIMESTAMPNS", 4, 0},
	{unix.SOL_SOCKET, unix.SO_TIMESTAMP_NEW, "SO_TIMESTAMP_NEW", 4, 0},
	{unix.SOL_SOCKET, unix.SO_TIMESTAMPNS_NEW, "SO_TIMESTAMPNS_NEW", 4, 0},
	{unix.SOL_SOCKET, unix.SO_TXTIME, "SO_TXTIME", 8, 0},
	{unix.SOL_SOCKET, unix.SO_RXQ_OVFL, "SO_RXQ_OVFL", 4, 0},
	{unix.SOL_SOCKET, unix.SO_PEEK_OFF, "SO_PEEK_OFF", 4, 0},
	{unix.SOL_SOCKET, unix.SO_LOCK_FILTER, "SO_LOCK_FILTER", 4, 0},
	{unix.SOL_SOCKET, unix.SO_SELECT_ERR_QUEUE, "SO_SELECT_ERR_QUEUE", 4, 0},
	{unix.SOL_SOCKET, unix.SO_BUSY_POLL, "SO_BUSY_POLL", 4, 0},
	{unix.SOL_SOCKET, unix.SO_PREFER_BUSY_POLL, "SO_PREFER_BUSY_POLL", 4, 0},
	{unix.SOL_SOCKET, unix.SO_INCOMING_CPU, "SO_INCOMING_CPU", 4, idle},
	{unix.SOL_SOCKET, unix.SO_ZEROCOPY, "SO_ZEROCOPY", 4, 0},
	{unix.SOL_SOCKET, unix.SO_MAX_PACING_RATE, "SO_MAX_PACING_RATE", 8, 0},
	{unix.SOL_SOCKET, unix.SO_TXREHASH, "SO_TXREHASH", 4, 0},
	{unix.SOL_SOCKET, unix.SO_RESERVE_MEM, "SO_RESERVE_MEM", 4, 0},
	{unix.SOL_SOCKET, unix.SO_RCVMARK, "SO_RCVMARK", 4, 0},
	{unix.SOL_SOCKET, unix.SO_RCVPRIORITY, "SO_RCVPRIORITY", 4, 0},
	{unix.SOL_SOCKET, unix.SO_PASSPIDFD, "SO_PASSPIDFD", 4, 0},
	{unix.SOL_SOCKET, unix.SO_PASSRIGHTS, "SO_PASSRIGHTS", 4, 0},
	{unix.SOL_SOCKET, unix.SO_DEBUG, "SO_DEBUG", 4, 0},

	{unix.SOL_IP, unix.IP_TOS, "IP_TOS", 4, 0},
	{unix.SOL_SOCKET, unix.SO_PRIORITY, "SO_PRIORITY", 4, 0},
	{unix.SOL_IP, unix.IP_TTL, "IP_TTL", 4, 0},
	{unix.SOL_IP, unix.IP_OPTIONS, "IP_OPTIONS", 40, 0},
	{unix.SOL_IP, unix.IP_RECVOPTS, "IP_RECVOPTS", 4, 0},
	{unix.SOL_IP, unix.IP_RETOPTS, "IP_RETOPTS", 4, 0},
	{unix.SOL_IP, unix.IP_PKTINFO, "IP_PKTINFO", 4, 0},
	{unix.SOL_IP, unix.IP_MTU_DISCOVER, "IP_MTU_DISCOVER", 4, 0},
	{unix.SOL_IP, unix.IP_RECVERR, "IP_RECVERR", 4, 0},
	{unix.SOL_IP, unix.IP_RECVERR_RFC4884, "IP_RECVERR_RFC4884", 4, 0},
	{unix.SOL_IP, unix.IP_RECVTTL, "IP_RECVTTL", 4, 0},
	{unix.SOL_IP, unix.IP_RECVTOS, "IP_RECVTOS", 4, 0},
	{unix.SOL_IP, unix.IP_PASSSEC, "IP_PASSSEC", 4, 0},
	{unix.SOL_IP, unix.IP_TRANSPARENT, "IP_TRANSPARENT", 4, 0},
	{unix.SOL_IP, unix.IP_RECVORIGDSTADDR, "IP_RECVORIGDSTADDR", 4, 0},
	{unix.SOL_IP, unix.IP_MINTTL, "IP_MINTTL", 4, 0},
	{unix.SOL_IP, unix.IP_CHECKSUM, "IP_CHECKSUM", 4, 0},
	{unix.SOL_IP, unix.IP_BIND_ADDRESS_NO_PORT, "IP_BIND_ADDRESS_NO_PORT", 4, 0},
	{unix.SOL_IP, unix.IP_RECVFRAGSIZE, "IP_RECVFRAGSIZE", 4, 0},
	{unix.SOL_IP, unix.IP_LOCAL_PORT_RANGE, "IP_LOCAL_PORT_RANGE", 4, 0},
	{unix.SOL_IP, unix.IP_UNICAST_IF, "IP_UNICAST_IF", 4, ifaceBE},
	{unix.SOL_IP, unix.IP_MULTICAST_IF, "IP_MULTICAST_IF", 4, 0}, // an address
	{unix.SOL_IP, unix.IP_MULTICAST_TTL, "IP_MULTICAST_TTL", 4, idle},
	{unix.SOL_IP, unix.IP_MULTICAST_LOOP, "IP_MULTICAST_LOOP", 4, 0},
	{unix.SOL_IP, unix.IP_MULTICAST_ALL, "IP_MULTICAST_ALL", 4, 0},

	{unix.SOL_IPV6, unix.IPV6_CHECKSUM, "IPV6_CHECKSUM", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_2292PKTINFO, "IPV6_2292PKTINFO", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_2292HOPOPTS, "IPV6_2292HOPOPTS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_2292DSTOPTS, "IPV6_2292DSTOPTS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_2292RTHDR, "IPV6_2292RTHDR", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_2292HOPLIMIT, "IPV6_2292HOPLIMIT", 4, 0},
	{unix.SOL_IPV6, ipv6FlowInfo, "IPV6_FLOWINFO", 4, 0},
	{unix.SOL_IPV6, ipv6FlowInfoSend, "IPV6_FLOWINFO_SEND", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_UNICAST_HOPS, "IPV6_UNICAST_HOPS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_UNICAST_IF, "IPV6_UNICAST_IF", 4, ifaceBE},
	{unix.SOL_IPV6, unix.IPV6_MULTICAST_IF, "IPV6_MULTICAST_IF", 4, idle | iface},
	{unix.SOL_IPV6, unix.IPV6_MULTICAST_HOPS, "IPV6_MULTICAST_HOPS", 4, idle},
	{unix.SOL_IPV6, unix.IPV6_MULTICAST_LOOP, "IPV6_MULTICAST_LOOP", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_MULTICAST_ALL, "IPV6_MULTICAST_ALL", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_MTU_DISCOVER, "IPV6_MTU_DISCOVER", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVERR, "IPV6_RECVERR", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVERR_RFC4884, "IPV6_RECVERR_RFC4884", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVHOPLIMIT, "IPV6_RECVHOPLIMIT", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVHOPOPTS, "IPV6_RECVHOPOPTS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVRTHDR, "IPV6_RECVRTHDR", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVDSTOPTS, "IPV6_RECVDSTOPTS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVPATHMTU, "IPV6_RECVPATHMTU", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVTCLASS, "IPV6_RECVTCLASS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVORIGDSTADDR, "IPV6_RECVORIGDSTADDR", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_RECVFRAGSIZE, "IPV6_RECVFRAGSIZE", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_HOPOPTS, "IPV6_HOPOPTS", maxValue, 0},
	{unix.SOL_IPV6, unix.IPV6_RTHDR, "IPV6_RTHDR", maxValue, 0},
	{unix.SOL_IPV6, unix.IPV6_RTHDRDSTOPTS, "IPV6_RTHDRDSTOPTS", maxValue, 0},
	{unix.SOL_IPV6, unix.IPV6_DSTOPTS, "IPV6_DSTOPTS", maxValue, 0},
	{unix.SOL_IPV6, unix.IPV6_DONTFRAG, "IPV6_DONTFRAG", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_TCLASS, "IPV6_TCLASS", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_AUTOFLOWLABEL, "IPV6_AUTOFLOWLABEL", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_ADDR_PREFERENCES, "IPV6_ADDR_PREFERENCES", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_MINHOPCOUNT, "IPV6_MINHOPCOUNT", 4, 0},
	{unix.SOL_IPV6, unix.IPV6_TRANSPARENT, "IPV6_TRANSPARENT", 4, 0},

	{unix.SOL_TCP, unix.TCP_MAXSEG, "TCP_MAXSEG", 4, idle},
	{unix.SOL_TCP, unix.TCP_SYNCNT, "TCP_SYNCNT", 4, 0},
	{unix.SOL_TCP, unix.TCP_LINGER2, "TCP_LINGER2", 4, 0},
	{unix.SOL_TCP, unix.TCP_DEFER_ACCEPT, "TCP_DEFER_ACCEPT", 4, 0},
	{unix.SOL_TCP, unix.TCP_WINDOW_CLAMP, "TCP_WINDOW_CLAMP", 4, idle},
	{unix.SOL_TCP, unix.TCP_CONGESTION, "TCP_CONGESTION", 16, 0},
	{unix.SOL_TCP, unix.TCP_THIN_LINEAR_TIMEOUTS, "TCP_THIN_LINEAR_TIMEOUTS", 4, 0},
	{unix.SOL_TCP, unix.TCP_USER_TIMEOUT, "TCP_USER_TIMEOUT", 4, 0},
	{unix.SOL_TCP, unix.TCP_FASTOPEN, "TCP_FASTOPEN", 4, idle},
	{unix.SOL_TCP, unix.TCP_FASTOPEN_KEY, "TCP_FASTOPEN_KEY", 32, idle},
	{unix.SOL_TCP, unix.TCP_FASTOPEN_CONNECT, "TCP_FASTOPEN_CONNECT", 4, idle},
	{unix.SOL_TCP, unix.TCP_FASTOPEN_NO_COOKIE, "TCP_FASTOPEN_NO_COOKIE", 4, idle},
	{unix.SOL_TCP, unix.TCP_NOTSENT_LOWAT, "TCP_NOTSENT_LOWAT", 4, 0},
	{unix.SOL_TCP, unix.TCP_SAVE_SYN, "TCP_SAVE_SYN", 4, 0},
	{unix.SOL_TCP, unix.TCP_INQ, "TCP_INQ", 4, 0},
	{unix.SOL_TCP, unix.TCP_TX_DELAY, "TCP_TX_DELAY", 4, 0},
	{unix.SOL_TCP, unix.TCP_RTO_MAX_MS, "TCP_RTO_MAX_MS", 4, 0},
	{unix.SOL_TCP, unix.TCP_RTO_MIN_US, "TCP_RTO_MIN_US", 4, 0},
	{unix.SOL_TCP, unix.TCP_DELACK_MAX_US, "TCP_DELACK_MAX_US", 4, 0},

	{unix.SOL_UDP, unix.UDP_ENCAP, "UDP_ENCAP", 4, 0},
	{unix.SOL_UDP, unix.UDP_NO_CHECK6_TX, "UDP_NO_CHECK6_TX", 4, 0},
	{unix.SOL_UDP, unix.UDP_NO_CHECK6_RX, "UDP_NO_CHECK6_RX", 4, 0},
	{unix.SOL_UDP, unix.UDP_SEGMENT, "UDP_SEGMENT", 4, 0},
	{unix.SOL_UDP, unix.UDP_GRO, "UDP_GRO", 4, 0},

	{unix.SOL_NETLINK, unix.NETLINK_PKTINFO, "NETLINK_PKTINFO", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_BROADCAST_ERROR, "NETLINK_BROADCAST_ERROR", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_NO_ENOBUFS, "NETLINK_NO_ENOBUFS", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_LISTEN_ALL_NSID, "NETLINK_LISTEN_ALL_NSID", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_CAP_ACK, "NETLINK_CAP_ACK", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_EXT_ACK, "NETLINK_EXT_ACK", 4, 0},
	{unix.SOL_NETLINK, unix.NETLINK_GET_STRICT_CHK, "NETLINK_GET_STRICT_CHK", 4, 0},
}

// Of linux/in6.h.
const ipv6FlowInfo, ipv6FlowInfoSend = 11, 33

// maxValue is how much an extension header of IPv6 has at most.
const maxValue = 2048

// kind is what of a socket says which options it has.
type kind struct {
	family, typ, proto int
	connection         bool // of TCP
}

func kindOf(fd int) (k kind, err error) {
	for number, to := range map[int]*int{unix.SO_DOMAIN: &k.family, unix.SO_TYPE: &k.typ, unix.SO_PROTOCOL: &k.proto} {
		if *to, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, number); err != nil {
			return k, fmt.Errorf("ask what kind of socket it is: %w", err)
		}
	}
	if k.tcp() {
		const closed, listens = 7, 10 // TCP_CLOSE, TCP_LISTEN
		state, err := getOption(fd, unix.SOL_TCP, unix.TCP_INFO, make([]byte, 1))
		if err != nil {
			return k, fmt.Errorf("ask for its state: %w", err)
		}
		k.connection = state[0] != closed && state[0] != listens
	}
	return k, nil
}

func (k kind) inet() bool { return k.family == unix.AF_INET || k.family == unix.AF_INET6 }
func (k kind) tcp() bool  { return k.inet() && k.typ == unix.SOCK_STREAM && k.proto == unix.IPPROTO_TCP }

// has reports whether such a socket may have an option, that can be set again.
func (k kind) has(o option) bool {
	if o.note&idle != 0 && k.connection {
		return false
	}
	switch o.level {
	case unix.SOL_IP:
		return k.inet()
	case unix.SOL_IPV6:
		return k.family == unix.AF_INET6
	case unix.SOL_TCP:
		return k.tcp()
	case unix.SOL_UDP:
		return k.inet() && k.typ == unix.SOCK_DGRAM
	case unix.SOL_NETLINK:
		return k.family == unix.AF_NETLINK
	}
	return true
}

// unlike returns those options of a socket that are not what they are of a new one. What this kernel, or such a socket, does not
// have is left out.
func (k kind) unlike(fresh map[string][]byte, fd int) map[string][]byte {
	values, buf := make(map[string][]byte), make([]byte, maxValue)
	for _, o := range options {
		if !k.has(o) {
			continue
		}
		value, err := o.get(fd, buf)
		was, known := fresh[o.name]
		_, tos := values["IP_TOS"]
		if tos && o.name == "SO_PRIORITY" { // which IP_TOS changes
			known = false
		}
		if err == nil && !(known && bytes.Equal(value, was)) {
			values[o.name] = bytes.Clone(value)
		}
	}
	return values
}

func (o option) get(fd int, buf []byte) ([]byte, error) {
	value, err := getOption(fd, o.level, o.number, buf[:o.size])
	order := o.order()
	if err != nil || order == nil {
		return value, err
	}
	index := int(order.Uint32(value))
	if index == 0 {
		return nil, nil
	}
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return nil, err
	}
	return []byte(i.Name), nil
}

func (o option) set(fd int, value []byte) error {
	if order := o.order(); order != nil {
		i, err := net.InterfaceByName(string(value))
		if err != nil {
			return fmt.Errorf("%s: %w", value, err)
		}
		value = make([]byte, 4)
		order.PutUint32(value, uint32(i.Index))
	}
	return unix.SetsockoptString(fd, o.level, o.number, string(value))
}

// order returns how the number of a network interface stands in the option; nil: it is none.
func (o option) order() binary.ByteOrder {
	switch {
	case o.note&iface != 0:
		return binary.NativeEndian
	case o.note&ifaceBE != 0:
		return binary.BigEndian
	}
	return nil
}

// optionsOf returns what sockets of the tree have unlike new ones.
func optionsOf(tree []linux.Stat) (list []SocketOptions, err error) {
	groups, err := memberships()
	if err != nil {
		return nil, err
	}
	fresh, seen := map[kind]map[string][]byte{}, map[string]bool{}
	err = eachSocket(tree, func(d linux.Descriptor) error {
		if seen[d.Target] {
			return nil
		}
		seen[d.Target] = true
		fd, err := d.Duplicate()
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		k, err := kindOf(fd)
		if err != nil || k.family != unix.AF_UNIX && k.family != unix.AF_NETLINK && !k.inet() {
			return err
		}
		if fresh[k] == nil {
			fresh[k] = k.ofNew()
		}
		s := SocketOptions{Descriptor: d, Values: k.unlike(fresh[k], fd)}
		s.Target = "" // it has another number when it comes back
		if k.inet() && k.typ != unix.SOCK_STREAM {
			if s.Groups, err = groupsOf(fd, groups); err != nil {
				return err
			}
		}
		if len(s.Values)+len(s.Groups) > 0 {
			list = append(list, s)
		}
		return nil
	})
	return list, err
}

// ofNew returns the options of a socket that nobody has set any of; none where this process may not make one.
func (k kind) ofNew() map[string][]byte {
	fd, err := unix.Socket(k.family, k.typ|unix.SOCK_CLOEXEC, k.proto)
	if err != nil {
		return map[string][]byte{}
	}
	defer unix.Close(fd)
	return k.unlike(nil, fd)
}

// putBack sets those options that are not yet as they were, and joins groups. What this machine does not have, or not
// allow, of options is returned as a remark.
func (s SocketOptions) putBack() (remark string, err error) {
	fd, err := s.Duplicate()
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var lost []string
	buf := make([]byte, maxValue)
	for _, o := range options { // and no others, whatever the record says
		value, ok := s.Values[o.name]
		if !ok {
			continue
		}
		if now, err := o.get(fd, buf); err == nil && bytes.Equal(now, value) {
			continue
		}
		if err := o.set(fd, value); err != nil {
			lost = append(lost, fmt.Sprintf("%s (%v)", o.name, err))
		}
	}
	if len(lost) > 0 {
		remark = fmt.Sprintf("socket %d of process %d has lost options that cannot be set here: %s", s.FD, s.PID, strings.Join(lost, ", "))
	}
	for _, g := range s.Groups {
		if err := g.join(fd); err != nil {
			return remark, fmt.Errorf("join the multicast group %v on the network interface %s again: %w", g.Address, g.Interface, err)
		}
	}
	return remark, nil
}

// getOption returns the part of buf in which the kernel has answered, which it does at once.
func getOption(fd, level, number int, buf []byte) ([]byte, error) {
	n := uint32(len(buf))
	_, _, e := unix.RawSyscall6(unix.SYS_GETSOCKOPT, uintptr(fd), uintptr(level), uintptr(number), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return nil, e
	}
	return buf[:min(int(n), len(buf))], nil
}
