package linux

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Connection is the two ends of a TCP connection. Addresses of IPv4 are such, also where a
// socket of IPv6 has them.
type Connection struct{ Near, Far netip.AddrPort }

// Reversed is the connection as its other end has it.
func (c Connection) Reversed() Connection { return Connection{c.Far, c.Near} }

// tcpListen is the state in /proc/net/tcp of a socket that only listens.
const tcpListen = "0A"

// Connections returns the TCP sockets of this network namespace that do more than listen, by
// their inodes.
func (p ProcFS) Connections() (map[string]Connection, error) {
	all := make(map[string]Connection)
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(p.path("net", name))
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		sc := bufio.NewScanner(f)
		for sc.Scan() && err == nil {
			// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...
			if fields := strings.Fields(sc.Text()); len(fields) >= 10 && fields[0] != "sl" && fields[3] != tcpListen && fields[9] != "0" {
				all[fields[9]], err = parseConnection(fields[1], fields[2])
			}
		}
		f.Close()
		if err == nil {
			err = sc.Err()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
	}
	return all, nil
}

func parseConnection(near, far string) (c Connection, err error) {
	if c.Near, err = parseEnd(near); err == nil {
		c.Far, err = parseEnd(far)
	}
	return c, err
}

// parseEnd reads one end: the words of the address, of 32 bits each, and the port.
func parseEnd(s string) (netip.AddrPort, error) {
	address, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(address)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 16, 16)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for i := 0; i+4 <= len(b); i += 4 { // they are shown as numbers of this machine
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	if !ok {
		return netip.AddrPort{}, fmt.Errorf("%q is no address", s)
	}
	return netip.AddrPortFrom(a.Unmap(), uint16(n)), nil
}

// EndRepair takes a TCP socket that another process has open out of repair mode, in which it
// neither sends nor takes anything; one that is in no such mode stays as it is. It takes
// CAP_NET_ADMIN over the socket, and the right to trace the process.
func EndRepair(d Descriptor) error {
	fd, err := d.Duplicate()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	on, err := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR)
	if err == nil && on != 0 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_OFF)
	}
	return os.NewSyscallError("end the repair mode of a socket: setsockopt", err)
}
