package linux

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	keptAddress = "TEST_KEPT_ADDRESS"
	keptGreets  = "this is the next one"
)

// TestKeptChild is the process after the one that has died.
func TestKeptChild(t *testing.T) {
	address := os.Getenv(keptAddress)
	if address == "" {
		t.Skip("it is a part of TestListenKept")
	}
	l, err := ListenKept(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		if v, there := os.LookupEnv(name); there {
			t.Errorf("children would get %s=%s, too", name, v)
		}
	}
	if address == "127.0.0.1:0" {
		return
	}
	l.SetDeadline(time.Now().Add(time.Minute))
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	io.WriteString(c, keptGreets)
}

// systemd is what a service tells it, and the descriptors that it is given.
type systemd struct{ *net.UnixConn }

func (s systemd) told(t *testing.T) (message string, files []*os.File) {
	t.Helper()
	s.SetReadDeadline(time.Now().Add(time.Minute))
	b, rights := make([]byte, 200), make([]byte, 200)
	n, oobn, _, _, err := s.ReadMsgUnix(b, rights)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		fds, err := unix.ParseUnixRights(&m)
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "kept"))
		}
	}
	return string(b[:n]), files
}

// TestListenKept: the port of a service that has ended is nobody's until the next one has it, and what comes meanwhile
// is answered by that. One that is to listen elsewhere lets go of it.
func TestListenKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := systemd{conn}
	t.Setenv("NOTIFY_SOCKET", path)
	first, err := ListenKept("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := first.Addr().String()
	message, files := s.told(t)
	if message != "FDSTORE=1\nFDNAME=listener" || len(files) != 1 {
		t.Fatalf("systemd is told %q with %d descriptors", message, len(files))
	}
	first.Close() // the first one has died
	if l, err := net.Listen("tcp", address); err == nil {
		l.Close()
		t.Error("somebody else has got the port")
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	next := func(address string) {
		t.Helper()
		cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ exec "$0" -test.run '^TestKeptChild$'`, os.Args[0])
		cmd.Env = append(os.Environ(), "LISTEN_FDS=2", "LISTEN_FDNAMES=something:listener", keptAddress+"="+address)
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		something, err := other.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		defer something.Close()
		cmd.ExtraFiles = []*os.File{something, files[0]}
		if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("PASS")) {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	next(address)
	c.SetDeadline(time.Now().Add(time.Minute))
	if got, err := io.ReadAll(c); err != nil || string(got) != keptGreets {
		t.Errorf("%q, %v", got, err)
	}
	next("127.0.0.1:0")
	for _, want := range []string{"FDSTOREREMOVE=1\nFDNAME=listener", "FDSTORE=1\nFDNAME=listener"} {
		if message, _ := s.told(t); message != want {
			t.Errorf("systemd is told %q, want %q", message, want)
		}
	}
}

func TestSameAddress(t *testing.T) {
	for _, c := range []struct {
		has, want string
		same      bool
	}{
		{"127.0.0.1:1", "127.0.0.1:1", true}, {"127.0.0.1:1", "127.0.0.1:2", false}, {"127.0.0.1:1", "127.0.0.2:1", false},
		{"[::]:1", "0.0.0.0:1", true}, {"[::]:1", ":1", true}, {"[::]:1", "127.0.0.1:1", false}, {"[::1]:1", "[::]:1", false},
	} {
		addr := func(s string) *net.TCPAddr {
			a, err := net.ResolveTCPAddr("tcp", s)
			if err != nil {
				t.Fatal(err)
			}
			return a
		}
		if got := sameAddress(addr(c.has), addr(c.want)); got != c.same {
			t.Error(fmt.Sprint(c), got)
		}
	}
}
