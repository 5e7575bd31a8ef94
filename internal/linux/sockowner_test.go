package linux

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func ends(c net.Conn) (near, far netip.AddrPort) {
	return netip.MustParseAddrPort(c.LocalAddr().String()), netip.MustParseAddrPort(c.RemoteAddr().String())
}

// The owner of a client's socket is found by its ends, in either version of IP, and only as long as
// the client has it.
func TestTCPOwner(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Log(err) // IPv6 may be off
			continue
		}
		defer l.Close()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		s, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		far, near := ends(s)
		if uid, err := TCPOwner(near, far); err != nil || uid != uint32(os.Getuid()) {
			t.Errorf("%s: %d, %v", address, uid, err)
		}
		if _, err := TCPOwner(netip.AddrPortFrom(near.Addr(), near.Port()), netip.AddrPortFrom(far.Addr(), 1)); !errors.Is(err, ErrNotHere) {
			t.Errorf("a connection to elsewhere: %v", err)
		}
		c.Close()
		s.Close()
		if uid, err := TCPOwner(near, far); !errors.Is(err, ErrNotHere) {
			t.Errorf("%s closed: %d, %v", address, uid, err)
		}
	}
}

// A socket that listens at the port of a caller elsewhere is not that caller's, whatever addresses it listens at.
func TestTCPOwnerOfAListener(t *testing.T) {
	for _, listens := range []string{"0.0.0.0:0", "[::]:0", "127.0.0.1:0"} {
		l, err := net.Listen("tcp", listens)
		if err != nil {
			t.Log(err) // IPv6 may be off
			continue
		}
		defer l.Close()
		port := netip.MustParseAddrPort(l.Addr().String()).Port()
		for near, far := range map[string]string{"203.0.113.7": "127.0.0.1:1", "127.0.0.1": "127.0.0.1:1", "2001:db8::7": "[::1]:1", "::1": "[::1]:1"} {
			if uid, err := TCPOwner(netip.AddrPortFrom(netip.MustParseAddr(near), port), netip.MustParseAddrPort(far)); !errors.Is(err, ErrNotHere) {
				t.Errorf("%s listens: %s to %s is of user %d, %v", listens, near, far, uid, err)
			}
		}
	}
}

// A client of IPv6 that speaks to IPv4, as Java's do, and of another user.
func TestTCPOwnerOfAnother(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can be another user")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	cmd := exec.Command("bash", "-c", "exec 3<>/dev/tcp/::ffff:127.0.0.1/"+port+"; read -r line <&3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	cmd.Dir = "/"
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err, said.String())
	}
	far, near := ends(s)
	if uid, err := TCPOwner(near, far); err != nil || uid != 12345 {
		t.Errorf("%d, %v", uid, err)
	}
	s.Write([]byte("end\n"))
	s.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err, said.String())
	}
}
