package supplement

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Group is one of multicast that a socket has joined.
type Group struct {
	Interface string     `json:"interface"`
	Address   netip.Addr `json:"address"`
	// Sources are those that it wants to hear; with Except those that it does not.
	Sources []netip.Addr `json:"sources,omitempty"`
	Except  bool         `json:"except,omitempty"`
}

// membership is a group that somebody on this machine has joined, by the number of the interface.
type membership struct {
	index int
	group netip.Addr
}

// memberships returns all of the network namespace. Whose they are the kernel does not list: each socket has to be asked.
func memberships() ([]membership, error) {
	var list []membership
	for file, parse := range map[string]func(string) ([]membership, error){"igmp": parseIGMP, "igmp6": parseIGMP6} {
		text, err := os.ReadFile("/proc/self/net/" + file)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without
			continue
		}
		if err != nil {
			return nil, err
		}
		found, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("/proc/net/%s: %w", file, err)
		}
		list = append(list, found...)
	}
	return list, nil
}

// parseIGMP reads lines of interfaces, with lines of their groups below, which begin with tabs.
func parseIGMP(text string) (list []membership, err error) {
	index := 0
	_, lines, _ := strings.Cut(text, "\n") // the names of the columns
	for line := range strings.Lines(lines) {
		f := strings.Fields(line)
		if len(f) < 4 {
			return nil, fmt.Errorf("%q has too few words", line)
		}
		if line[0] != '\t' {
			if index, err = strconv.Atoi(f[0]); err != nil {
				return nil, err
			}
			continue
		}
		group, err := strconv.ParseUint(f[0], 16, 32) // as it stands in memory
		if err != nil {
			return nil, err
		}
		var b [4]byte
		binary.NativeEndian.PutUint32(b[:], uint32(group))
		list = append(list, membership{index, netip.AddrFrom4(b)})
	}
	return list, nil
}

// parseIGMP6 reads lines that begin with the number and name of an interface, and a group.
func parseIGMP6(text string) (list []membership, err error) {
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 4 {
			return nil, fmt.Errorf("%q has too few words", line)
		}
		index, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, err
		}
		b, err := hex.DecodeString(f[2])
		if err != nil || len(b) != 16 {
			return nil, fmt.Errorf("%q is no address", f[2])
		}
		list = append(list, membership{index, netip.AddrFrom16([16]byte(b))})
	}
	return list, nil
}

// The kernel's struct group_filter, without its sources, and group_source_req, of which group_req is the beginning (linux/in.h).
type (
	address     [128]byte // sockaddr_storage
	groupFilter struct {
		index uint32
		_     uint32
		group address
		mode  uint32
		count uint32
	}
	groupRequest struct {
		index         uint32
		_             uint32
		group, source address
	}
)

const (
	modeExclude = 0       // MCAST_EXCLUDE of linux/in.h
	maxSources  = 1 << 16 // far beyond what the kernel allows
)

// groupsOf returns those groups of the machine's that a socket has joined. What it does with datagrams of groups that others have
// joined is an option (IP_MULTICAST_ALL).
func groupsOf(fd int, all []membership) (list []Group, err error) {
	for _, m := range all {
		g, ok, err := m.of(fd)
		if err != nil {
			return nil, fmt.Errorf("ask for the multicast group %v: %w", m.group, err)
		}
		if ok {
			list = append(list, g)
		}
	}
	return list, nil
}

// of returns how a socket has joined the group, if it has.
func (m membership) of(fd int) (g Group, joined bool, err error) {
	const head = int(unsafe.Sizeof(groupFilter{}))
	for room := uint32(16); ; {
		buf := make([]byte, head+int(room)*len(address{}))
		filter := (*groupFilter)(unsafe.Pointer(unsafe.SliceData(buf)))
		filter.index, filter.group, filter.count = uint32(m.index), storage(m.group), room
		_, err := getOption(fd, levelOf(m.group), unix.MCAST_MSFILTER, buf)
		switch {
		case err == unix.EADDRNOTAVAIL, err == unix.ENOPROTOOPT, err == unix.EOPNOTSUPP: // also of a socket of the other family
			return g, false, nil
		case err != nil:
			return g, false, err
		case filter.count > maxSources:
			return g, false, fmt.Errorf("it has %d sources", filter.count)
		case filter.count > room:
			room = filter.count
			continue
		}
		i, err := net.InterfaceByIndex(m.index)
		if err != nil {
			return g, false, err
		}
		g = Group{Interface: i.Name, Address: m.group, Except: filter.mode == modeExclude}
		for at := range slices.Chunk(buf[head:head+int(filter.count)*len(address{})], len(address{})) {
			g.Sources = append(g.Sources, addressIn(address(at), m.group.Is4()))
		}
		return g, true, nil
	}
}

// join joins the group as it was joined.
func (g Group) join(fd int) error {
	i, err := net.InterfaceByName(g.Interface)
	if err != nil {
		return err
	}
	r := groupRequest{index: uint32(i.Index), group: storage(g.Address)}
	ask := func(number int, size uintptr) error {
		return unix.SetsockoptString(fd, levelOf(g.Address), number, string(unsafe.Slice((*byte)(unsafe.Pointer(&r)), size)))
	}
	of := unix.MCAST_JOIN_SOURCE_GROUP
	if g.Except {
		of = unix.MCAST_BLOCK_SOURCE
		if err := ask(unix.MCAST_JOIN_GROUP, unsafe.Offsetof(r.source)); err != nil {
			return err
		}
	}
	for _, source := range g.Sources {
		r.source = storage(source)
		if err := ask(of, unsafe.Sizeof(r)); err != nil {
			return fmt.Errorf("source %v: %w", source, err)
		}
	}
	return nil
}

func levelOf(a netip.Addr) int {
	if a.Is4() {
		return unix.SOL_IP
	}
	return unix.SOL_IPV6
}

// Where an address stands in a sockaddr_in and in a sockaddr_in6.
const at4, at6 = 4, 8

// storage returns an address as the kernel has it, without a port.
func storage(a netip.Addr) (s address) {
	family, at := uint16(unix.AF_INET6), at6
	if a.Is4() {
		family, at = unix.AF_INET, at4
	}
	binary.NativeEndian.PutUint16(s[:], family)
	copy(s[at:], a.AsSlice())
	return s
}

func addressIn(s address, v4 bool) netip.Addr {
	if v4 {
		return netip.AddrFrom4([4]byte(s[at4:]))
	}
	return netip.AddrFrom16([16]byte(s[at6:]))
}
