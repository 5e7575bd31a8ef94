package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// serve runs a supervisor's side in a directory with a path too long for a
// socket address.
func serve(t *testing.T, h Handler) string {
	t.Helper()
	return serveWith(t, NewServer(h))
}

func serveWith(t *testing.T, s *Server) string {
	t.Helper()
	dir := t.TempDir() + "/" + strings.Repeat("long", 40)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go s.Serve(context.Background(), l)
	return dir
}

// shortOf is a listener of a kernel that is short of something, again and again.
type shortOf struct {
	net.Listener
	errs []error
}

func (l *shortOf) Accept() (net.Conn, error) {
	if len(l.errs) > 0 {
		err := l.errs[0]
		l.errs = l.errs[1:]
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", err)}
	}
	return l.Listener.Accept()
}

// TestAcceptGoesOn: a supervisor, and its task with it, does not end because a connection
// could not be accepted.
func TestAcceptGoesOn(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	s := NewServer(func(context.Context, string, json.RawMessage) (any, error) { return nil, nil })
	go func() {
		ended <- s.Serve(context.Background(), &shortOf{l, []error{unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOBUFS}})
	}()
	c, err := Dial(t.Context(), ".")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Call(t.Context(), "ping", nil, nil); err != nil {
		t.Error(err)
	}
	l.Close()
	if err := <-ended; err != nil {
		t.Errorf("it ended: %v", err)
	}
}

func TestCalls(t *testing.T) {
	block := make(chan struct{})
	dir := serve(t, func(_ context.Context, op string, args json.RawMessage) (any, error) {
		switch op {
		case "double":
			var n int
			if err := json.Unmarshal(args, &n); err != nil {
				return nil, err
			}
			return 2 * n, nil
		case "slow":
			<-block
			return "slow", nil
		case "typed":
			return nil, &Error{Kind: "state", Text: "wrong"}
		}
		return nil, fmt.Errorf("unknown %q", op)
	})
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	slow := make(chan string, 1)
	go func() {
		var s string
		c.Call(context.Background(), "slow", nil, &s)
		slow <- s
	}()
	var wg sync.WaitGroup
	for i := range 50 { // a slow operation holds nobody up
		wg.Go(func() {
			var got int
			if err := c.Call(t.Context(), "double", i, &got); err != nil || got != 2*i {
				t.Errorf("double %d: %d, %v", i, got, err)
			}
		})
	}
	wg.Wait()
	close(block)
	if s := <-slow; s != "slow" {
		t.Errorf("slow call: %q", s)
	}
	var e *Error
	if err := c.Call(t.Context(), "typed", nil, nil); !errors.As(err, &e) || e.Kind != "state" || e.Text != "wrong" {
		t.Errorf("typed error: %v", err)
	}
	if err := c.Call(t.Context(), "double", "x", nil); err == nil {
		t.Error("bad arguments were accepted")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	late := errors.New("it is too late")
	cancel(late)
	c.Close()
	<-c.Done()
	if err := c.Call(ctx, "double", 1, nil); err != late { // it does not even try to send
		t.Errorf("cancelled call: %v", err)
	}
	if err := c.Call(t.Context(), "double", 1, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("call after close: %v", err)
	}
}

// TestAnswerAtTheEnd: an answer that is there counts, whatever has ended meanwhile.
func TestAnswerAtTheEnd(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	closed := make(chan struct{})
	close(closed)
	for range 100 { // of several that are ready select takes any
		answer := make(chan response, 1)
		answer <- response{ID: 7}
		c := &Client{done: closed}
		if r, err := c.await(ended, answer); r.ID != 7 || err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
	}
}

// TestFull: a supervisor that stands still takes in no more requests at some time. Whoever asks then is held up no longer than
// he says, and what was taken in, a part of a request too, is answered when it goes on.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	l, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Dial(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	silent := errors.New("it does not answer")
	sent, asked := 0, 0
	for full := false; !full; asked++ {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 20*time.Millisecond, silent)
		if err := c.Call(ctx, "echo", strings.Repeat("x", 300_000), nil); err != silent {
			t.Fatal("nobody reads:", err)
		}
		cancel()
		c.mu.Lock()
		full, sent = len(c.waiting) <= asked, len(c.waiting)
		c.mu.Unlock()
	}
	answered := make(chan error, 1)
	go func() { answered <- c.Call(t.Context(), "echo", "the last", nil) }()
	var taken atomic.Int32
	go NewServer(func(_ context.Context, _ string, args json.RawMessage) (any, error) {
		taken.Add(1)
		return args, nil
	}).serveConn(t.Context(), conn)
	if err := <-answered; err != nil {
		t.Error(err)
	}
	for deadline := time.Now().Add(time.Minute); int(taken.Load()) <= sent && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := int(taken.Load()); n != sent+1 {
		t.Errorf("%d requests have come, want %d and the last", n, sent)
	}
}

func TestSocketIsOwnerOnly(t *testing.T) {
	dir := serve(t, func(context.Context, string, json.RawMessage) (any, error) { return nil, nil })
	st, err := os.Stat(dir + "/" + SocketName)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

type pipe struct {
	strings.Builder
	in *strings.Reader
}

func (p *pipe) Read(b []byte) (int, error) { return p.in.Read(b) }
func (p *pipe) Close() error               { return nil }

func FuzzServe(f *testing.F) {
	f.Add(`{"id":1,"op":"x","args":{"a":[1,2]}}` + "\n" + `{"id":2}`)
	f.Add(`{"id":-1}` + "\n[]\n")
	f.Fuzz(func(t *testing.T, in string) {
		p := &pipe{in: strings.NewReader(in)}
		NewServer(func(_ context.Context, op string, args json.RawMessage) (any, error) {
			return args, nil
		}).serveConn(context.Background(), p)
	})
}

// What has been done is said before the process may end.
func TestDrain(t *testing.T) {
	begun, block := make(chan struct{}), make(chan struct{})
	s := NewServer(func(_ context.Context, op string, _ json.RawMessage) (any, error) {
		close(begun)
		<-block
		return op, nil
	})
	c, err := Dial(t.Context(), serveWith(t, s))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make(chan error, 1)
	go func() { got <- c.Call(context.Background(), "restore", nil, nil) }()
	<-begun
	if s.Drain(10 * time.Millisecond) {
		t.Error("drained while a request was being carried out")
	}
	close(block)
	if err := <-got; err != nil {
		t.Error("the answer:", err)
	}
	if !NewServer(nil).Drain(time.Minute) {
		t.Error("not drained without a request")
	}
}
