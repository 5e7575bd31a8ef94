package yarn

import (
	"io"
	"net"
	"strings"
	"testing"

	"headrace/internal/testkit"
)

// What is said both ways arrives and is counted, and a relay that is closed leaves nobody
// waiting.
func TestRelayCounts(t *testing.T) {
	echo := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
	r := startRelay(must(net.Listen("tcp", "127.0.0.1:0"))(t), func() (net.Conn, error) { return net.Dial("tcp", echo.Addr().String()) })
	c := must(net.Dial("tcp", r.listener.Addr().String()))(t)
	text := strings.Repeat("0123456789", 10_000)
	go io.WriteString(c, text)
	got := make([]byte, len(text))
	must(io.ReadFull(c, got))(t)
	if string(got) != text {
		t.Error("what comes back is not what was said")
	}
	if n := r.bytes.Load(); n != 2*int64(len(text)) {
		t.Errorf("%d bytes are counted, want %d", n, 2*len(text))
	}
	must(0, r.close())(t)
	if n, err := c.Read(got); err == nil {
		t.Errorf("the relay is closed, and %d bytes come", n)
	}
	if _, err := net.Dial("tcp", r.listener.Addr().String()); err == nil {
		t.Error("the relay is closed, and listens")
	}
	must(0, r.close())(t)
}

// Without anybody behind it, a relay ends the connections that it gets.
func TestRelayToNobody(t *testing.T) {
	nobody := testkit.Nobody(t)
	r := startRelay(must(net.Listen("tcp", "127.0.0.1:0"))(t), func() (net.Conn, error) { return net.Dial("tcp", nobody) })
	defer r.close()
	c := must(net.Dial("tcp", r.listener.Addr().String()))(t)
	if n, err := c.Read(make([]byte, 1)); err == nil {
		t.Errorf("%d bytes come from nobody", n)
	}
}
