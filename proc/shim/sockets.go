package shim

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"headrace/internal/linux"
)

// tcpListen is the state in /proc/net/tcp of a socket that only listens.
const tcpListen = "0A"

// hasConnections reports whether a process of the stopped tree holds a TCP
// connection. Only then must the dump hold back packets, which costs a tenth of
// a second and more for the firewall's rules.
func hasConnections(tree []linux.Stat) (bool, error) {
	connected, err := connections()
	if err != nil || len(connected) == 0 {
		return false, err
	}
	for _, p := range tree {
		open, err := procs.Descriptors(p.PID)
		if err != nil && !linux.Gone(err) {
			return false, err
		}
		for _, d := range open {
			if inode, ok := strings.CutPrefix(d.Target, "socket:["); ok && connected[strings.TrimSuffix(inode, "]")] {
				return true, nil
			}
		}
	}
	return false, nil
}

// connections returns the inodes of the TCP sockets of this network namespace
// that do more than listen.
func connections() (map[string]bool, error) {
	inodes := make(map[string]bool)
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(path)
		if os.IsNotExist(err) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return nil, err
		}
		sc := bufio.NewScanner(f)
		for sc.Scan() {
			// sl local_address rem_address st tx:rx tr:tm retrnsmt uid timeout inode ...
			if fields := strings.Fields(sc.Text()); len(fields) >= 10 && fields[3] != tcpListen && fields[9] != "0" {
				inodes[fields[9]] = true
			}
		}
		f.Close()
		if err := sc.Err(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return inodes, nil
}
