package inspect

import (
	"errors"
	"net/netip"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// TestSocketWithoutItsAddress: a socket on an address that the machine has not is lost only if it could not be bound so again.
func TestSocketWithoutItsAddress(t *testing.T) {
	for name, c := range map[string]struct {
		address        string
		freely, always bool // IP_FREEBIND when it is bound, and then
		lost           bool
	}{
		"own":                   {address: "127.0.0.1"},
		"any":                   {address: "::"},
		"foreign":               {address: "192.0.2.1", freely: true, lost: true},
		"foreign, of version 6": {address: "2001:db8::1", freely: true, lost: true},
		"foreign, as it may be": {address: "192.0.2.1", freely: true, always: true},
	} {
		for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_DGRAM} {
			to := func(v bool) int { return map[bool]int{true: 1}[v] }
			a := netip.MustParseAddr(c.address)
			family, at := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Addr: a.As16()})
			if a.Is4() {
				family, at = unix.AF_INET, &unix.SockaddrInet4{Addr: a.As4()}
			}
			fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(os.NewSyscallError("socket", err))
			}
			defer unix.Close(fd)
			err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, to(c.freely)), unix.Bind(fd, at),
				unix.SetsockoptInt(fd, unix.SOL_IP, unix.IP_FREEBIND, to(c.always)))
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			l, err := lostOfSocket(linux.Descriptor{PID: os.Getpid(), FD: fd})
			if err != nil || (l != nil) != c.lost {
				t.Errorf("%s, kind %d: lost: %v, %v", name, kind, l, err)
			}
		}
	}
}
