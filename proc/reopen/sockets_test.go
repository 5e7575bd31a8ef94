package reopen

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// TestShutWithoutPeer: a socket that is connected to nobody can be shut all the same: the kernel says that it is not connected, and shuts it.
func TestShutWithoutPeer(t *testing.T) {
	for name, kind := range map[string]int{"datagrams": unix.SOCK_DGRAM, "a stream": unix.SOCK_STREAM} {
		t.Run(name, func(t *testing.T) {
			fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
			if err != nil {
				t.Fatal(os.NewSyscallError("socket", err))
			}
			defer unix.Close(fd)
			b := bound{address: &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, kind: kind, shut: unix.SHUT_RD}
			if err := errors.Join(b.bind(fd), b.goOn(fd)); err != nil {
				t.Fatal(err)
			}
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
			if n, err := unix.Poll(poll, 0); n != 1 || poll[0].Revents&unix.POLLRDHUP == 0 {
				t.Errorf("it is not shut: %v %v", poll, err)
			}
		})
	}
}
