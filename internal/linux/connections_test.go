package linux

import (
	"fmt"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestConnections: a connection is found by the inode of its socket, in either version of IP, and a
// socket that only listens is none.
func TestConnections(t *testing.T) {
	for _, network := range []string{"tcp4", "tcp6"} {
		l, err := net.Listen(network, "localhost:0")
		if err != nil {
			t.Log(err) // IPv6 may be off
			continue
		}
		defer l.Close()
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		all, err := ProcFS("").Connections()
		if err != nil {
			t.Fatal(err)
		}
		near, far := ends(c)
		if got, want := all[inodeOf(t, c.(*net.TCPConn))], (Connection{near, far}); got != want || got.Reversed() != (Connection{far, near}) {
			t.Errorf("%v, want %v", got, want)
		}
		if got, is := all[inodeOf(t, l.(*net.TCPListener))]; is {
			t.Errorf("what only listens is %v", got)
		}
	}
	for _, bad := range []string{"", "0100007F", "0100007F:", "0100007:0050", "0100007F00:0050", "0100007F:10050", "x:0050"} {
		if got, err := parseEnd(bad); err == nil {
			t.Errorf("%q is %v", bad, got)
		}
	}
}

func inodeOf(t *testing.T, c interface{ File() (*os.File, error) }) string {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(st.Ino)
}

// TestEndRepair: a connection that is put into repair mode and taken out again carries what was
// written meanwhile.
func TestEndRepair(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	of := Descriptor{PID: os.Getpid(), FD: int(f.Fd())}
	repairing := func() int {
		on, err := unix.GetsockoptInt(of.FD, unix.IPPROTO_TCP, unix.TCP_REPAIR)
		if err != nil {
			t.Fatal(err)
		}
		return on
	}
	if err := EndRepair(of); err != nil || repairing() != 0 {
		t.Errorf("of a socket that is in no such mode: %v", err)
	}
	if err := unix.SetsockoptInt(of.FD, unix.IPPROTO_TCP, unix.TCP_REPAIR, unix.TCP_REPAIR_ON); err != nil {
		t.Skipf("sockets cannot be put into repair mode here: %v", err)
	}
	if repairing() != 1 {
		t.Fatal("it is not in repair mode")
	}
	if err := EndRepair(of); err != nil || repairing() != 0 {
		t.Errorf("it stays in repair mode: %v", err)
	}
	if _, err := s.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if n, err := c.Read(b); err != nil || string(b[:n]) != "hello" {
		t.Errorf("read %q, %v", b[:n], err)
	}
}
