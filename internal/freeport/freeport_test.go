package freeport

import (
	"net"
	"testing"
)

// Ports of a hundred listeners differ, and are none that the kernel would choose.
func TestListen(t *testing.T) {
	for range 100 {
		l, err := Listen("127.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if port := l.Addr().(*net.TCPAddr).Port; port < 10000 || port >= 32768 {
			t.Errorf("port %d", port)
		}
	}
}
