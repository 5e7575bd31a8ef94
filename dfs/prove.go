package dfs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"headrace/internal/accounts"
	"headrace/internal/linux"
)

// ProveHere is Prove for what nobody is to do who only says a name: a caller of another machine is refused, too.
func (c *Callers) ProveHere(name string, near, far netip.AddrPort) error {
	if _, err := linux.TCPOwner(near, far); errors.Is(err, linux.ErrNotHere) {
		return fmt.Errorf("nothing proves that a caller of another machine, at %s, is %s: ask from a machine that has a node, by its address", near.Addr(), name)
	}
	return c.Prove(name, near, far)
}

// Prove refuses a caller of this machine who is another than it says: the kernel knows whose socket near, the other
// end of a connection to far, is. Root may be anybody, and so may the user who runs this, whose files they all are.
// A caller of another machine is believed, as by an HDFS without Kerberos.
func (c *Callers) Prove(name string, near, far netip.AddrPort) error {
	if c.Trust {
		return nil
	}
	uid, err := linux.TCPOwner(near, far)
	switch {
	case errors.Is(err, linux.ErrNotHere) && !ours(near.Addr(), far.Addr()):
		return nil
	case err != nil:
		return fmt.Errorf("it is not known who calls as %s: %w", name, err)
	case mayAll(uid):
		return nil
	}
	u, err := accounts.Here.UserOf(uid)
	if err != nil {
		return fmt.Errorf("nothing proves that user %d is %s: %w", uid, name, err)
	}
	if u.Name != name {
		return fmt.Errorf("user %s is not %s", u.Name, name)
	}
	return nil
}

// ours reports whether an address is this machine's: a socket there that nobody has any more was closed, so that it cannot be
// asked for.
func ours(a, end netip.Addr) bool {
	a, end = a.Unmap().WithZone(""), end.Unmap().WithZone("")
	if a.IsLoopback() || a == end {
		return true
	}
	all, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(all, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap() == a
	})
}

// ProveOwn refuses whoever is not a process on this machine of root or of the user who runs this.
func (c *Callers) ProveOwn(near, far netip.AddrPort) error {
	uid, err := linux.TCPOwner(near, far)
	if err == nil && !mayAll(uid) {
		err = fmt.Errorf("user %d is neither root nor the user who runs this", uid)
	}
	return err
}

// mayAll reports whether a user is root or the one who runs this, whose files they all are.
func mayAll(uid uint32) bool { return uid == 0 || int(uid) == os.Getuid() }
