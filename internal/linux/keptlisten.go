package linux

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// keptName is that of the socket among those that systemd keeps.
const keptName = "listener"

// ListenKept listens at a TCP address as net.Listen does, and has systemd keep the socket over restarts of the service,
// where its unit says so (FileDescriptorStoreMax=, sd_pid_notify_with_fds(3)): else anybody could take the port in
// between, and would be taken for the service. What was kept at another address is let go. It is for the first moments of a
// process, before NotifyReady.
func ListenKept(address string) (*net.TCPListener, error) {
	want, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, err
	}
	kept := inherited()
	if kept != nil && sameAddress(kept.Addr(), want) {
		return kept, nil
	}
	if kept != nil {
		kept.Close()
		if err := notify("FDSTOREREMOVE=1\nFDNAME="+keptName, nil); err != nil {
			return nil, fmt.Errorf("have systemd let go of %s: %w", kept.Addr(), err)
		}
	}
	l, err := net.ListenTCP("tcp", want)
	if err != nil {
		return nil, err
	}
	if err := keep(l); err != nil {
		l.Close()
		return nil, fmt.Errorf("have systemd keep the socket at %s: %w", l.Addr(), err)
	}
	return l, nil
}

func keep(l *net.TCPListener) error {
	raw, err := l.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Control(func(fd uintptr) { sent = notify("FDSTORE=1\nFDNAME="+keptName, unix.UnixRights(int(fd))) })
	if err != nil {
		return err
	}
	return sent
}

// inherited returns the socket that systemd has kept, nil if there is none, and forgets what systemd has handed over.
func inherited() (kept *net.TCPListener) {
	pid, names := os.Getenv("LISTEN_PID"), strings.Split(os.Getenv("LISTEN_FDNAMES"), ":")
	n, err := strconv.Atoi(os.Getenv("LISTEN_FDS"))
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if err != nil || pid != strconv.Itoa(os.Getpid()) {
		return nil
	}
	const first = 3 // SD_LISTEN_FDS_START
	for i := range n {
		f := os.NewFile(uintptr(first+i), "descriptor of systemd")
		if l, err := net.FileListener(f); err == nil {
			if tcp, ok := l.(*net.TCPListener); ok && kept == nil && i < len(names) && names[i] == keptName {
				kept = tcp
			} else {
				l.Close()
			}
		}
		f.Close()
	}
	return kept
}

// sameAddress reports whether a socket is where one is wanted; all addresses of the machine have several names.
func sameAddress(of net.Addr, want *net.TCPAddr) bool {
	has := of.(*net.TCPAddr)
	all := func(a *net.TCPAddr) bool { return len(a.IP) == 0 || a.IP.IsUnspecified() }
	return has.Port == want.Port && (has.IP.Equal(want.IP) && has.Zone == want.Zone || all(has) && all(want))
}
