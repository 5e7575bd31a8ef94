package peer

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"headrace/internal/testkit"
)

const token = "a token that is long enough"

// open opens the port of a node with a token; those of further lines are accepted of others. However busy the machine is, strangers have time.
func open(t testing.TB, token string, l Limits, register func(*Port)) *Port {
	t.Helper()
	tokens := strings.Split(token, "\n")
	s, err := NewSecret(tokens[0], tokens[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	l.Handshake = cmp.Or(l.Handshake, time.Hour)
	p := New(s, l, slog.New(slog.NewTextHandler(t.Output(), nil)))
	if register != nil {
		register(p)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(listener) }()
	testkit.Await(t, "the port to be open", func() bool { return p.Addr() != nil })
	t.Cleanup(func() {
		p.Close()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return p
}

// echo answers requests, and streams of the protocol "echo".
func echo(p *Port) {
	p.Handle("/echo", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	l := p.Stream("echo")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
			}()
		}
	}()
}

// again tries until nobody says that a node that is there has not answered in time: on a busy machine it may take that long to shake hands.
func again[T any](try func() (T, error)) (got T, err error) {
	for got, err = try(); errors.Is(err, errMute); {
		got, err = try()
	}
	return got, err
}

// dial connects to a node that is there.
func dial(t *testing.T, from, to *Port) (net.Conn, error) {
	return again(func() (net.Conn, error) { return from.Dial(t.Context(), to.Addr().String(), "echo") })
}

func post(from, to *Port, body string) (string, error) {
	r, err := again(func() (*http.Response, error) {
		return from.Client().Post("https://"+to.Addr().String()+"/echo", "", strings.NewReader(body))
	})
	if err != nil {
		return "", err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	return string(b), err
}

// TestNodes: nodes reach each other's handlers and streams.
func TestNodes(t *testing.T) {
	a, b := open(t, token, Limits{}, echo), open(t, token, Limits{}, echo)
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			if got, err := post(a, b, fmt.Sprint("hello ", i)); err != nil || got != fmt.Sprint("hello ", i) {
				t.Errorf("%q, %v", got, err)
			}
		})
		all.Go(func() {
			c, err := dial(t, a, b)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			got := make([]byte, 5)
			if _, err := c.Write([]byte("hello")); err != nil {
				t.Error(err)
			}
			if _, err := io.ReadFull(c, got); err != nil || string(got) != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	all.Wait()
	if n := b.crowds.nodes.Members(); n < 1 {
		t.Errorf("%d connections of nodes", n)
	}
	if _, err := a.Dial(t.Context(), b.Addr().String(), "nothing"); err == nil {
		t.Error("a protocol that there is not was spoken")
	}
}

// TestTokenIsChanged: nodes with the old and the new token reach each other if each accepts what the other one shows.
func TestTokenIsChanged(t *testing.T) {
	const next = "the next token, long enough"
	before, first := open(t, token, Limits{}, echo), open(t, token+"\n"+next, Limits{}, echo)
	second, after := open(t, next+"\n"+token, Limits{}, echo), open(t, next, Limits{}, echo)
	for _, pair := range [][2]*Port{{before, first}, {first, second}, {second, after}} {
		for _, from := range []int{0, 1} {
			if got, err := post(pair[from], pair[1-from], "hello"); err != nil || got != "hello" {
				t.Errorf("%q, %v", got, err)
			}
		}
	}
	if _, err := post(before, after, "hello"); !errors.Is(err, ErrStranger) {
		t.Errorf("of another token: %v", err)
	}
	if _, err := NewSecret(token, "short"); err == nil {
		t.Error("a short one is accepted")
	}
}

// postAgain posts until there is an answer, or until three times in a row there is none while ports that nothing is the matter with do answer: on a busy
// machine any connection may take too long.
func postAgain(from, to *Port, other [2]*Port) (got string, err error) {
	for wrong := 0; wrong < 3; {
		if got, err = post(from, to, "hello"); err == nil {
			break
		}
		if _, busy := post(other[0], other[1], "hello"); busy == nil {
			wrong++
		}
	}
	return got, err
}

// TestStalledBodies: requests whose handlers do not read them keep no others up.
func TestStalledBodies(t *testing.T) {
	release := make(chan struct{})
	a, b := open(t, token, Limits{}, echo), open(t, token, Limits{}, func(p *Port) {
		echo(p)
		p.Handle("/stall", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			<-release
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		}))
	})
	other := [2]*Port{open(t, token, Limits{}, nil), open(t, token, Limits{}, echo)}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			r, err := again(func() (*http.Response, error) {
				return a.Bulk().Post("https://"+b.Addr().String()+"/stall", "", io.LimitReader(zeros{}, 4<<20))
			})
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Body.Close()
			if got, err := io.ReadAll(r.Body); string(got) != "4194304" {
				t.Errorf("%s, %v", got, err)
			}
		})
	}
	for range 100 {
		if got, err := postAgain(a, b, other); err != nil || got != "hello" {
			t.Errorf("%q, %v", got, err)
			break
		}
	}
	close(release)
	all.Wait()
}

// TestBulkKeepsNothing: each request of Bulk has a connection of its own, also when another one has just ended.
func TestBulkKeepsNothing(t *testing.T) {
	a, b := open(t, token, Limits{}, nil), open(t, token, Limits{}, func(p *Port) {
		p.Handle("/from", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr, " ", r.Proto) }))
	})
	from := func(c *http.Client) string {
		r, err := again(func() (*http.Response, error) { return c.Get("https://" + b.Addr().String() + "/from") })
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		got, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(got)
	}
	if one, two := from(a.Bulk()), from(a.Bulk()); one == two || !strings.HasSuffix(one, "HTTP/1.1") || !strings.HasSuffix(two, "HTTP/1.1") {
		t.Errorf("from %s, then from %s", one, two)
	}
	if one, two := from(a.Client()), from(a.Client()); one != two || !strings.HasSuffix(one, "HTTP/2.0") {
		t.Errorf("from %s, then from %s", one, two)
	}
}

// TestUnheard: what comes to no connection was heard by nobody, whether nothing is there, or what is there says nothing; what comes to one may have been.
func TestUnheard(t *testing.T) {
	p := open(t, token, Limits{}, func(p *Port) {
		p.Handle("/cut", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	})
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel takes connections
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	for address, want := range map[string]bool{mute.Addr().String(): true, testkit.Nobody(t): true, p.Addr().String(): false} {
		for name, c := range map[string]*http.Client{"short": p.Client(), "bulk": p.Bulk()} {
			ask := func() (*http.Response, error) { return c.Get("https://" + address + "/cut") }
			_, err := ask()
			if !want {
				_, err = again(ask)
			}
			if err == nil || errors.Is(err, ErrUnheard) != want || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v, which is unheard: %v", name, err, !want)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Dial(ctx, mute.Addr().String(), "echo"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// TestShortTokens: what could be guessed is refused.
func TestShortTokens(t *testing.T) {
	if _, err := NewSecret("fifteen bytes.."); err == nil {
		t.Error("a short token is taken")
	}
}

// TestOtherTokens: nodes of another file system come to nothing, and are told why.
func TestOtherTokens(t *testing.T) {
	a, b := open(t, token, Limits{}, echo), open(t, "another token, long enough", Limits{}, func(p *Port) {
		p.Handle("/echo", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a stranger's request is answered") }))
		p.Stream("echo")
	})
	if _, err := post(a, b, "x"); !errors.Is(err, ErrStranger) {
		t.Error(err)
	}
	if _, err := dial(t, a, b); !errors.Is(err, ErrStranger) {
		t.Error(err)
	}
}

// patience is how long what must happen may take.
const patience = 2 * time.Minute

// heard returns what is said to somebody who shakes hands as it likes.
func heard(t *testing.T, p *Port, c *tls.Config, what []byte) []byte {
	t.Helper()
	nc, err := tls.Dial("tcp", p.Addr().String(), c)
	if err != nil {
		return nil
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	nc.Write(what)
	got, err := io.ReadAll(nc)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("who is no node is kept")
	}
	return got
}

// TestStrangers: who has no token, or another, sends nothing that anybody reads. One who has the public key has nothing.
func TestStrangers(t *testing.T) {
	p := open(t, token, Limits{}, func(p *Port) {
		p.Handle("/", http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a stranger's request is answered") }))
		l := p.Stream("echo")
		go func() {
			if _, err := l.Accept(); err == nil {
				t.Error("a stranger's stream is taken")
			}
		}()
	})
	other, err := NewSecret("another token, long enough")
	if err != nil {
		t.Fatal(err)
	}
	ours, err := NewSecret(token)
	if err != nil {
		t.Fatal(err)
	}
	stolen := tls.Certificate{Certificate: ours.certificate.Certificate, PrivateKey: other.certificate.PrivateKey}
	plain := func(protocol string, certificates ...tls.Certificate) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, NextProtos: []string{protocol}, Certificates: certificates}
	}
	old := plain("echo", ours.certificate)
	old.MaxVersion = tls.VersionTLS12
	preface := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
	for name, c := range map[string]struct {
		config *tls.Config
		what   []byte
	}{
		"no certificate":               {plain("h2"), preface},
		"no certificate, a stream":     {plain("echo"), []byte("hrquorum1\nxxxxxxxxxxxxxxxx")},
		"another token":                {plain("h2", other.certificate), preface},
		"another token, a stream":      {plain("echo", other.certificate), []byte("hrquorum1\n")},
		"our certificate, not the key": {plain("echo", stolen), []byte("hello")},
		"an old version":               {old, []byte("hello")},
		"no protocol":                  {&tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{ours.certificate}}, []byte("hello")},
	} {
		if got := heard(t, p, c.config, c.what); bytes.Contains(got, []byte("hello")) || len(got) > 0 {
			t.Errorf("%s: %q", name, got)
		}
	}
	for name, what := range map[string][]byte{
		"garbage":       bytes.Repeat([]byte{0xde, 0xad, 0xbe, 0xef}, 1<<18),
		"HTTP":          []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"a node's raft": []byte("hrquorum1\n\x10\x00\x00\x00\x00\x00\x00\x00"),
		"Hadoop RPC":    []byte("hrpc\x09\x00\x00"),
		// A record of a handshake whose message says that it has 16 MB.
		"a large message": append([]byte{22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff}, make([]byte, 0x4000-4)...),
		"nothing":         nil,
	} {
		nc, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		go nc.Write(what)
		if what == nil {
			nc.(*net.TCPConn).CloseWrite()
		}
		nc.SetReadDeadline(time.Now().Add(patience))
		if got, err := io.ReadAll(nc); len(got) > 20 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		nc.Close()
	}
}

// idlers are strangers who say nothing.
func idlers(t *testing.T, p *Port, n int) (all []net.Conn) {
	t.Helper()
	for range n {
		nc, err := net.Dial("tcp", p.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		all = append(all, nc)
	}
	return all
}

// TestIdleStrangers: 500 who say nothing keep no node out.
func TestIdleStrangers(t *testing.T) {
	p := open(t, token, Limits{}, echo)
	q := open(t, token, Limits{}, nil)
	c, err := dial(t, q, p) // before them
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	idlers(t, p, 500)
	if got, err := post(q, p, "hello"); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if n := p.crowds.strangers.Members(); n > 64 {
		t.Errorf("%d strangers of one address", n)
	}
	c.SetDeadline(time.Now().Add(patience))
	got := make([]byte, 2)
	c.Write([]byte("hi"))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != "hi" {
		t.Errorf("a node has lost its connection to strangers: %q, %v", got, err)
	}
}

// TestStrangersHaveATime: who says nothing is gone after it.
func TestStrangersHaveATime(t *testing.T) {
	p := open(t, token, Limits{Handshake: 50 * time.Millisecond}, nil)
	for _, nc := range idlers(t, p, 20) {
		nc.SetReadDeadline(time.Now().Add(patience))
		if _, err := nc.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("a stranger who says nothing is kept: %v", err)
		}
	}
	testkit.Await(t, "all strangers to be forgotten", func() bool { return p.crowds.strangers.Members() == 0 })
}

// TestSilentNodes: one connection of a node too many takes the place of one that is silent, and none of one that is not.
func TestSilentNodes(t *testing.T) {
	p := open(t, token, Limits{AddressNodes: 2}, echo)
	q := open(t, token, Limits{}, nil)
	come := func() net.Conn {
		c, err := dial(t, q, p)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	answers := func(c net.Conn) bool {
		c.SetDeadline(time.Now().Add(patience))
		c.Write([]byte("x"))
		_, err := c.Read(make([]byte, 1))
		return err == nil
	}
	a, b := come(), come()
	if !answers(a) || !answers(b) {
		t.Fatal("no answer")
	}
	if c := come(); answers(c) {
		t.Error("there are three")
	}
	p.mu.Lock()
	for c := range p.conns {
		if c.RemoteAddr().String() == a.LocalAddr().String() {
			c.active.Store(time.Now().Add(-2 * silentTime).UnixNano())
		}
	}
	p.mu.Unlock()
	if c := come(); !answers(c) || !answers(b) || answers(a) {
		t.Error("the silent one was to give way, and no other")
	}
}

// TestClose: the end waits for handlers, and those who wait for an answer hear of it.
func TestClose(t *testing.T) {
	began, over := make(chan bool), false
	s, err := NewSecret(token)
	if err != nil {
		t.Fatal(err)
	}
	p := New(s, Limits{}, nil)
	p.Handle("/echo", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(began)
		<-r.Context().Done()
		over = true
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(l) }()
	testkit.Await(t, "the port to be open", func() bool { return p.Addr() != nil })
	q := open(t, token, Limits{}, nil)
	failed := make(chan error, 1)
	go func() { _, err := post(q, p, "x"); failed <- err }()
	<-began
	p.Close()
	if !over {
		t.Error("a handler still runs")
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	<-failed // who waited hears of it, by an error unless the handler's end was quicker
	p.Close()
}

// TestCloseOfAHangingHandler: the end does not wait for ever for a handler that hears of nothing.
func TestCloseOfAHangingHandler(t *testing.T) {
	began, hang, over := make(chan struct{}), make(chan struct{}), make(chan struct{})
	p := open(t, token, Limits{End: time.Millisecond}, func(p *Port) {
		p.Handle("/echo", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			defer close(over)
			close(began)
			<-hang
		}))
	})
	q := open(t, token, Limits{}, nil)
	failed := make(chan error, 1)
	go func() { _, err := post(q, p, "x"); failed <- err }()
	<-began
	p.Close()
	select {
	case <-over:
		t.Error("the handler has ended")
	default:
	}
	if err := <-failed; err == nil {
		t.Error("who waited got an answer")
	}
	close(hang)
	<-over
}
