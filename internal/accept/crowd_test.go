package accept

import (
	"net"
	"testing"
	"time"
)

// addressed is a connection from somewhere.
type addressed struct {
	net.Conn
	from   string
	closed bool
}

func (a *addressed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(a.from), Port: 7} }
func (a *addressed) Close() error         { a.closed = true; return nil }

func TestCrowd(t *testing.T) {
	c := &Crowd{Most: 3, MostOfAddress: 2}
	enter := func(from string, since int64) (*addressed, *Member) {
		conn := &addressed{from: from}
		return conn, c.Enter(conn, func() (time.Time, bool) { return time.Unix(since, 0), since > 0 })
	}
	const busy = 0
	a1, _ := enter("10.0.0.1", 5)
	a2, m2 := enter("10.0.0.1", 3)
	b1, mb := enter("10.0.0.2", 1)
	// One more of an address takes the place of the idlest of that address.
	a3, _ := enter("10.0.0.1", busy)
	if a1.closed || !a2.closed || b1.closed || a3.closed {
		t.Errorf("closed: %v %v %v %v", a1.closed, a2.closed, b1.closed, a3.closed)
	}
	c.Leave(m2) // which has left already
	// One more of all takes that of the idlest of all.
	c1, m := enter("10.0.0.3", busy)
	if !b1.closed || c1.closed || m == nil || m.Remote.String() != "10.0.0.3:7" {
		t.Errorf("closed: %v %v; %v", b1.closed, c1.closed, m)
	}
	c.Leave(mb)
	if _, m := enter("10.0.0.4", busy); m == nil || !a1.closed {
		t.Error("the last idle one does not give way")
	}
	if conn, m := enter("10.0.0.5", busy); m != nil || conn.closed {
		t.Error("entered where all are busy")
	}
	if n := c.Members(); n != 3 || len(c.each) != 3 {
		t.Errorf("%d members of %d addresses", n, len(c.each))
	}
	// Who is named is bounded like an address.
	who := &Crowd{Most: 3, MostOfAddress: 1}
	busyNow := func() (time.Time, bool) { return time.Time{}, false }
	if a, b := who.EnterOf(7, &addressed{from: "10.0.0.1"}, busyNow), who.EnterOf(7, &addressed{from: "10.0.0.2"}, busyNow); a == nil || b != nil {
		t.Errorf("one has entered as two: %v, %v", a, b)
	}
	if m := who.EnterOf(8, &addressed{from: "10.0.0.1"}, busyNow); m == nil {
		t.Error("another one does not enter from the same address")
	}
	// Of IPv6 all addresses of one machine are one.
	v6 := &Crowd{Most: 9, MostOfAddress: 1}
	for _, from := range []string{"2001:db8::1", "2001:db8:0:1::1", "10.0.0.1", "10.0.0.2"} {
		if m := v6.Enter(&addressed{from: from}, busyNow); m == nil {
			t.Errorf("%s has not entered", from)
		}
	}
	for _, from := range []string{"2001:db8::ffff:1", "2001:db8:0:1:7::", "::ffff:10.0.0.1"} {
		if m := v6.Enter(&addressed{from: from}, busyNow); m != nil {
			t.Errorf("%s has entered as another one", from)
		}
	}
	c.Each(c.Leave)
	if n := c.Members(); n != 0 || len(c.each) != 0 {
		t.Errorf("%d members of %d addresses are left", n, len(c.each))
	}
}
