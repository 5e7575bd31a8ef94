package serve

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"headrace/internal/accept"
	"headrace/internal/testkit"
)

const strangersPatience = 2 * time.Minute

// posing is a listener whose connections come from where they are said to come.
type posing struct {
	net.Listener
	from chan string
}

type posed struct {
	net.Conn
	from string
}

func (l *posing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &posed{conn, <-l.from}, nil
}

func (c *posed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(c.from), 7))
}

// port is a server that asks for a token.
type port struct {
	t     *testing.T
	from  chan string
	owner atomic.Uint32 // of whoever comes from this machine
	at    string
}

func newPort(t *testing.T, most int, patience time.Duration) *port {
	t.Helper()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &port{t: t, from: make(chan string, 100), at: socket.Addr().String()}
	l := NewStrangers(&accept.Listener{Listener: &posing{socket, p.from}}, most, patience)
	l.owner = func(netip.AddrPort, netip.AddrPort) (uint32, error) { return p.owner.Load(), nil }
	token := NewToken([]string{"the token"}, time.Minute, slog.New(slog.DiscardHandler), func() {})
	s := Server(token.ProtectUnlessLocal(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })), context.Background(), 4096)
	s.ReadHeaderTimeout = 0 // what is tried here is what else ends connections
	over := make(chan error, 1)
	go func() { over <- l.Serve(s, nil) }()
	t.Cleanup(func() {
		s.Close()
		if err := <-over; !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return p
}

// dial makes a connection that seems to come from somewhere, and sends something.
func (p *port) dial(from, what string) net.Conn {
	p.t.Helper()
	p.from <- from
	conn, err := net.Dial("tcp", p.at)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	io.WriteString(conn, what)
	return conn
}

// asks has a request with a token answered, and returns whether the connection stays.
func (p *port) asks(conn net.Conn, token string) (status int, stays bool) {
	p.t.Helper()
	status, stays, err := p.ask(conn, token)
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	return status, stays
}

func (p *port) ask(conn net.Conn, token string) (status int, stays bool, err error) {
	conn.SetDeadline(time.Now().Add(strangersPatience))
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, false, err
	}
	io.Copy(io.Discard, res.Body)
	return res.StatusCode, !res.Close, nil
}

func (p *port) ends(what string, conn net.Conn) {
	p.t.Helper()
	conn.SetReadDeadline(time.Now().Add(strangersPatience))
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("%s: it is still open", what)
	}
}

func (p *port) open(what string, conn net.Conn) {
	p.t.Helper()
	conn.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if _, err := conn.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Errorf("%s: it was closed: %v", what, err)
	}
}

// TestStrangersGiveWay: who shows no token has a place until others of its address or user want it. Who has
// shown it keeps the connection, and so does our own user, whoever else comes.
func TestStrangersGiveWay(t *testing.T) {
	p := newPort(t, 32, time.Hour) // two of an address, two of a user, eight of our own
	member := p.dial("10.0.0.1", "")
	if status, stays := p.asks(member, "the token"); status != 200 || !stays {
		t.Fatalf("with the token: %d, it stays: %v", status, stays)
	}
	first, second := p.dial("10.0.0.1", ""), p.dial("10.0.0.1", "GET / HT")
	other := p.dial("10.0.0.2", "")
	p.dial("10.0.0.1", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	p.ends("the first of three of an address", first)
	p.open("the second", second)
	p.open("one of another address", other)
	p.open("the member", member)
	if status, stays := p.asks(member, "the token"); status != 200 || !stays {
		t.Errorf("the member asks again: %d, it stays: %v", status, stays)
	}
	if status, stays := p.asks(p.dial("10.0.0.1", ""), "another one"); status != 401 || stays {
		t.Errorf("with another token: %d, it stays: %v", status, stays)
	}
	p.ends("the second, when one more came", second)
	near := p.dial("2001:db8::1", "")
	far := p.dial("2001:db8:0:1::1", "")
	p.dial("2001:db8::2", "")
	p.dial("2001:db8::3", "")
	p.ends("the first of three of a network of IPv6", near)
	p.open("one of another network", far)

	p.owner.Store(uint32(os.Geteuid()))
	own := p.dial("127.0.0.1", "")
	if status, stays := p.asks(p.dial("127.0.0.1", ""), ""); status != 200 || stays {
		t.Errorf("our own user without a token: %d, it stays: %v", status, stays)
	}
	p.owner.Store(uint32(os.Geteuid()) + 12345)
	a, b := p.dial("127.0.0.1", ""), p.dial("127.0.0.2", "")
	p.dial("127.0.0.3", "")
	p.ends("the first of three of a user of this machine", a)
	p.open("the second", b)
	p.open("one of our own user", own)
}

// TestStrangersAreLate: who shows no token in time is closed, whatever it sends instead.
func TestStrangersAreLate(t *testing.T) {
	p := newPort(t, 1000, 5*time.Second)
	var member net.Conn
	testkit.Await(t, "a member", func() bool { // on a busy machine it may itself be late
		member = p.dial("10.0.0.1", "")
		status, _, err := p.ask(member, "the token")
		return err == nil && status == 200
	})
	all := map[string]net.Conn{}
	for what, sends := range map[string]string{
		"silence": "", "half a header": "GET / HTTP/1.1\r\nHost:", "the beginning of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
		"half a request": "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", "the beginning of TLS": "\x16\x03\x01",
	} {
		all[what] = p.dial("10.0.0.1", sends)
	}
	for what, conn := range all {
		p.ends(what, conn)
	}
	if status, stays := p.asks(member, "the token"); status != 200 || !stays { // its time would be over by now
		t.Errorf("the member asks again: %d, it stays: %v", status, stays)
	}
}
