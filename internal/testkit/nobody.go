package testkit

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Nobody returns a local address, host:port, that refuses connections until the test ends. A socket has it and does not
// listen, so that nobody else can take the port meanwhile, as happens with one that was listened at and closed.
func Nobody(t testing.TB) string {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint("127.0.0.1:", at.(*unix.SockaddrInet4).Port)
}
