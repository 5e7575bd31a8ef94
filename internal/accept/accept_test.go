package accept

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// script is a listener whose accept fails as it was told.
type script struct {
	net.Listener
	errs []error
}

func (s *script) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		a, b := net.Pipe()
		b.Close()
		return a, nil
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
}

func TestAcceptGoesOn(t *testing.T) {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ECONNABORTED, unix.EINTR, unix.EPROTO} {
		l := &Listener{Listener: &script{errs: []error{e, e, e}}}
		conn, err := l.Accept()
		if err != nil {
			t.Errorf("after %v: %v", e, err)
			continue
		}
		conn.Close()
	}
	for _, e := range []error{net.ErrClosed, unix.EBADF, unix.EINVAL} {
		l := &Listener{Listener: &script{errs: []error{e}}}
		if _, err := l.Accept(); !errors.Is(err, e) {
			t.Errorf("%v, want %v", err, e)
		}
	}
}

// TestReserve takes all descriptors away from under a listener: it accepts as many
// connections as were kept back, and all once there are others again.
func TestReserve(t *testing.T) {
	socket, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	reserve, err := NewReserve(2)
	if err != nil {
		t.Fatal(err)
	}
	defer reserve.Close()
	l := &Listener{Listener: socket, Reserve: reserve}
	var clients []net.Conn
	for range 3 { // they wait to be accepted
		c, err := net.Dial("unix", socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		clients = append(clients, c)
	}
	free := exhaust(t)
	defer free()
	for i := range 2 {
		if _, err := l.Accept(); err != nil {
			t.Fatal(i, err)
		}
	}
	if reserve.Filled() {
		t.Error("the reserve is full while there are no descriptors")
	}
	accepted := make(chan error, 1)
	go func() { _, err := l.Accept(); accepted <- err }()
	select {
	case err := <-accepted:
		t.Errorf("accepted without a descriptor: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	free()
	if err := <-accepted; err != nil {
		t.Error(err)
	}
	if !reserve.Filled() {
		t.Error("the reserve is not filled although there are descriptors")
	}
	clients[0].Close()
}

// exhaust lowers the limit of descriptors to what is open; free undoes it.
func exhaust(t *testing.T) (free func()) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	now := was
	now.Cur = 256
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &now); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
		files = nil
		unix.Setrlimit(unix.RLIMIT_NOFILE, &was)
	}
}

func TestNewest(t *testing.T) {
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Newest{Listener: socket, Max: 2}
	defer l.Close()
	var ours, theirs []net.Conn
	for range 4 {
		c, err := net.Dial("tcp", socket.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		a, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		ours, theirs = append(ours, a), append(theirs, c)
	}
	for i, c := range theirs {
		patience := 2 * time.Minute
		if i >= 2 { // nothing is to come
			patience = 50 * time.Millisecond
		}
		c.SetReadDeadline(time.Now().Add(patience))
		if _, err := c.Read(make([]byte, 1)); errors.Is(err, io.EOF) != (i < 2) {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	ours[3].Close()
	if l.conns.Len() != 1 {
		t.Errorf("%d connections are counted, want 1", l.conns.Len())
	}
}
