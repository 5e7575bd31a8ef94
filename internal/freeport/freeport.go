package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
)

// Listen takes a port of an address, below those that the kernel chooses by itself
// (net.ipv4.ip_local_port_range). So when the listener is closed, for a server to take
// the port, no connection of anybody gets it meanwhile; and nobody who listens at a port
// that the kernel has chosen, on all addresses, has this one too.
func Listen(host string) (l net.Listener, err error) {
	const least, end, tries = 10000, 32768, 100
	for range tries {
		l, err = net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(least+rand.N(end-least))))
		if !errors.Is(err, syscall.EADDRINUSE) {
			break
		}
	}
	return l, err
}
