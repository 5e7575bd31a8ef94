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
	// Most connections, of all addresses and of one.
	Most, MostOfAddress int

	mu      sync.Mutex
	members map[*Member]struct{}
	address map[netip.Addr]int // members
}

// A Member is a connection of a Crowd.
type Member struct {
	net.Conn
	Remote netip.AddrPort // of the other end; zero when that has none

	idle func() (since time.Time, idle bool)
}

// Enter takes a connection in, with what tells since when it has nothing to do. It returns
// nil when there are too many, and none of them is idle. A connection that has to give way is closed.
func (c *Crowd) Enter(conn net.Conn, idle func() (since time.Time, idle bool)) *Member {
	m := &Member{Conn: conn, idle: idle}
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		m.Remote = netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members == nil {
		c.members, c.address = map[*Member]struct{}{}, map[netip.Addr]int{}
	}
	ofAddress := c.address[m.Remote.Addr()] >= c.MostOfAddress
	if ofAddress || len(c.members) >= c.Most {
		victim := c.idlest(func(o *Member) bool { return !ofAddress || o.Remote.Addr() == m.Remote.Addr() })
		if victim == nil {
			return nil
		}
		c.remove(victim)
		victim.Close()
	}
	c.members[m] = struct{}{}
	c.address[m.Remote.Addr()]++
	return m
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
	if c.address[m.Remote.Addr()]--; c.address[m.Remote.Addr()] == 0 {
		delete(c.address, m.Remote.Addr())
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
