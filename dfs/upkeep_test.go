package dfs

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"
)

// TestNews: what fails again and again is told once a minute, what fails otherwise at once.
func TestNews(t *testing.T) {
	var n news
	now := time.Now()
	is := func(want bool, what, err string, after time.Duration) {
		t.Helper()
		if got := n.is(what, errors.New(err), now.Add(after)); got != want {
			t.Errorf("%s: %s after %v: %v", what, err, after, got)
		}
	}
	is(true, "delete at n1", "away", 0)
	is(false, "delete at n1", "away", time.Second)
	is(true, "delete at n2", "away", time.Second)
	is(true, "delete at n1", "full", 2*time.Second)
	is(true, "delete at n1", "away", 3*time.Second)
	is(true, "delete at n1", "away", 3*time.Second+oldNews)
	for i := range 2 * mostNews {
		n.is(fmt.Sprint(i), errors.New("away"), now)
	}
	if len(n.told) > mostNews {
		t.Errorf("%d are remembered", len(n.told))
	}
}

// TestClock: a clock that goes on was not set; one by which it is another time, but no time has passed, was.
func TestClock(t *testing.T) {
	began := time.Now()
	set := func(d time.Duration) time.Time { return began.Round(0).Add(d) } // has no time since the start
	for name, step := range map[string]struct {
		last, now time.Time
		want      time.Duration
	}{
		"at first":      {time.Time{}, began, 0},
		"it goes on":    {began, began.Add(time.Hour), 0},
		"by no machine": {set(0), set(time.Hour), 0},
	} {
		if got := (&lastLook{step.last}).since(step.now); got != step.want {
			t.Errorf("%s: %v, want %v", name, got, step.want)
		}
	}
}

// TestOwnAddresses: of a closed connection from an address of this machine nobody can be asked, so that nobody is believed.
func TestOwnAddresses(t *testing.T) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, a := range all {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(p.Addr(), 0).String())
		if err != nil {
			t.Logf("%v: %v", p, err)
			continue
		}
		tried++
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		near, far := c.LocalAddr().(*net.TCPAddr).AddrPort(), l.Addr().(*net.TCPAddr).AddrPort()
		c.Close()
		if err := (&Callers{}).Prove("anybody", near, far); err == nil {
			t.Errorf("from %v anybody is believed", near)
		}
		l.Close()
	}
	if tried == 0 {
		t.Error("there is no address to try")
	}
	if err := (&Callers{}).Prove("anybody", netip.MustParseAddrPort("192.0.2.1:4000"), netip.MustParseAddrPort("192.0.2.2:8020")); err != nil {
		t.Errorf("a caller of another machine: %v", err)
	}
}
