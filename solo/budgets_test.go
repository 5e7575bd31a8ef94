package solo

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"headrace/policy"
	"headrace/wire"
)

// TestBudgetsAreConfigured: what a user may take of the daemon is what its
// configuration says.
func TestBudgetsAreConfigured(t *testing.T) {
	b := newBed(t, policy.Cost)
	b.cfg.UserConnections, b.cfg.UserRequestBytes, b.cfg.RequestBytes = 3, 20<<20, 50<<20
	b.start()
	for range b.cfg.UserConnections {
		conn, err := net.Dial("unix", b.daemon.Socket())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	res, err := wire.NewHTTPClient(b.daemon.Socket()).Post(wire.BaseURL+"/x", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a user has more connections than the configuration allows: %s", res.Status)
	}
	bytes := newFront(nil, &b.daemon.cfg).Bytes
	for _, uid := range []uint32{4001, 4002} {
		if err := bytes.Take(uid, 20<<20); err != nil {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	if bytes.Take(4001, 1) == nil || bytes.Take(4003, 10<<20+1) == nil {
		t.Error("more bytes of requests are kept than the configuration allows")
	}
}
