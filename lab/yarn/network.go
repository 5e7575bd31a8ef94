package yarn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// The first three bytes of the addresses of a cluster whose machines have networks of
// their own. They are set aside for tests of networks (RFC 2544), and nobody outside the
// cluster sees them, so that all clusters have the same.
const testNetwork = "198.18.0."

// newHead makes the network namespace of what a cluster has one of, with a switch (a
// bridge) to which machines are connected. Nothing outside knows of it, and it is gone when
// its processes are and it was closed.
func newHead() (*namespace, error) {
	n, err := newNetwork()
	if err != nil {
		return nil, err
	}
	err = n.ip("link set lo up", "link add br0 type bridge", "addr add "+testNetwork+"1/24 dev br0", "link set br0 up")
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// newMachine makes the network namespace of a machine, with a cable to the switch of the
// head.
func (n *namespace) newMachine(index int, address string) (*namespace, error) {
	m, err := newNetwork()
	if err != nil {
		return nil, err
	}
	cable := fmt.Sprint("m", index)
	err = n.ip(fmt.Sprintf("link add %s type veth peer name eth0 netns /proc/%d/fd/%d", cable, os.Getpid(), m.net.Fd()),
		fmt.Sprintf("link set %s master br0 up", cable))
	if err == nil {
		err = m.ip("link set lo up", "addr add "+address+"/24 dev eth0", "link set eth0 up")
	}
	if err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// newNetwork makes a network namespace with nothing in it.
func newNetwork() (*namespace, error) {
	n := &namespace{}
	err := linux.OnOwnThread(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace, which takes root: %w", err)
		}
		n.net, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	if err != nil {
		return nil, err
	}
	return n, nil
}

// ip gives commands to ip(8) there.
func (n *namespace) ip(lines ...string) error {
	return n.do(func() error {
		cmd := exec.Command("ip", "-batch", "-")
		cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("make a network with ip(8) of iproute2: %w: %s", err, out)
		}
		return nil
	})
}

// dial connects from there; addresses are numbers.
func (n *namespace) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	err = n.do(func() error {
		// One address and no fallback: it is all done on this thread.
		conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
		return err
	})
	return conn, err
}

// Transport returns one for HTTP that reaches the daemons of the cluster, whose network
// may be closed to this process. It keeps no connections, so that there is nothing to
// close.
func (s *installation) Transport() *http.Transport {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		return s.head.dial(ctx, network, address)
	}
	return &http.Transport{DialContext: dial, DisableKeepAlives: true, ResponseHeaderTimeout: time.Minute}
}
