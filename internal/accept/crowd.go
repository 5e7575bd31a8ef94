package accept

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// A Crowd keeps connections within bounds: of each address, and of all. One too many takes the
// place of the one that is idle for longest, so who holds connections without need keeps nobody
// out, and who uses them keeps them. It is safe for concurrent use.
type Crowd struct {
	// Most connections, of all and of one address (see Network), or of one of whoever EnterOf is told.
	Most, MostOfAddress int

	mu      sync.Mutex
	members map[*Member]struct{}
	each    map[any]int // members of one
}

// A Member is a connection of a Crowd.
type Member struct {
	net.Conn
	Remote netip.AddrPort // of the other end; zero when that has none

	of   any
	idle func() (since time.Time, idle bool)
}

// Enter takes a connection in, with what tells since when it has nothing to do. It returns
// nil when there are too many, and none of them is idle. A connection that has to give way is closed.
func (c *Crowd) Enter(conn net.Conn, idle func() (since time.Time, idle bool)) *Member {
	return c.EnterOf(Network(Remote(conn).Addr()), conn, idle)
}

// EnterOf is Enter for a connection that counts as one of somebody who is not known by an address.
func (c *Crowd) EnterOf(who any, conn net.Conn, idle func() (since time.Time, idle bool)) *Member {
	m := &Member{Conn: conn, Remote: Remote(conn), of: who, idle: idle}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil {
		c.members, c.each = map[*Member]struct{}{}, map[any]int{}
	}
	ofOne := c.each[who] >= c.MostOfAddress
	if ofOne || len(c.members) >= c.Most {
		victim := c.idlest(func(o *Member) bool { return !ofOne || o.of == who })
		if victim == nil {
			return nil
		}
		c.remove(victim)
		victim.Close()
	}
	c.members[m] = struct{}{}
	c.each[who]++
	return m
}

// Remote returns the address of the other end; zero when it has none.
func Remote(conn net.Conn) netip.AddrPort { return address(conn.RemoteAddr()) }

// Network returns what an address counts as where each has a share: itself, but of IPv6 its /64, of which a single machine may
// have all addresses.
func Network(a netip.Addr) netip.Addr {
	if a = a.Unmap(); !a.Is6() {
		return a
	}
	p, _ := a.Prefix(64) // of IPv6 there is always one
	return p.Addr()
}

// Local returns the address of this end; zero when it has none.
func Local(conn net.Conn) netip.AddrPort { return address(conn.LocalAddr()) }

func address(a net.Addr) netip.AddrPort {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
}

// idlest returns who has had nothing to do for longest.
func (c *Crowd) idlest(among func(*Member) bool) (idlest *Member) {
	var since time.Time
	for m := range c.members {
		if at, idle := m.idle(); idle && among(m) && (idlest == nil || at.Before(since)) {
			idlest, since = m, at
		}
	}
	return idlest
}

func (c *Crowd) remove(m *Member) {
	if _, ok := c.members[m]; !ok {
		return
	}
	delete(c.members, m)
	if c.each[m.of]--; c.each[m.of] == 0 {
		delete(c.each, m.of)
	}
}

// Leave lets a member go, which may have had to give way before. It closes nothing.
func (c *Crowd) Leave(m *Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(m)
}

// Members returns how many there are.
func (c *Crowd) Members() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.members)
}

// Each calls f for all members.
func (c *Crowd) Each(f func(*Member)) {
	c.mu.Lock()
	list := make([]*Member, 0, len(c.members))
	for m := range c.members {
		list = append(list, m)
	}
	c.mu.Unlock()
	for _, m := range list {
		f(m)
	}
}
