package ipc

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"headrace/hdfs/pb"
	"headrace/internal/testkit"
)

func TestMain(m *testing.M) { testkit.M{M: m}.Run() }

// TestCall: a handler is told who calls, and which call it is.
func TestCall(t *testing.T) {
	calls := make(chan Call, 1)
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		calls <- *c
		return sized(ctx, c, q)
	})
	s.Impersonate = func(_ context.Context, u User, from netip.Addr) error {
		if u != (User{"anna", "hive"}) || !from.IsLoopback() {
			return fmt.Errorf("%v may not", u)
		}
		return nil
	}
	address := start(t, s)
	for _, o := range []Options{{User: User{Name: "anna"}}, {User: User{"anna", "hive"}}, {User: User{Name: "bob"}, Negotiate: true}} {
		c := dial(t, address, o)
		wantLength(t, c, "/a/file")
		got := <-calls
		got.Request, got.large = nil, large{}
		want := Call{Protocol: clientProtocol, Version: 1, Method: "getFileInfo", Client: c.ID(), ID: 1, User: o.User, Remote: got.Remote, Local: netip.MustParseAddrPort(address)}
		if !reflect.DeepEqual(got, want) || !got.Remote.Addr().IsLoopback() {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	// A call that comes again, by another connection.
	c := dial(t, address, Options{ID: ClientID{7}})
	if err := c.Retry(t.Context(), 41, 3, "getFileInfo", &pb.GetFileInfoRequestProto{Src: proto.String("/")}, &pb.GetFileInfoResponseProto{}); err != nil {
		t.Error(err)
	}
	if got := <-calls; got.ID != 41 || got.Retry != 3 || got.Client != (ClientID{7}) {
		t.Errorf("%+v", got)
	}
	evil := dial(t, address, Options{User: User{"root", "eve"}})
	_, err := lengthOf(t.Context(), evil, "/")
	wantClass(t, err, ClassUnauthorized, "may not")
}

func TestNobodyActsForOthers(t *testing.T) {
	c := dial(t, start(t, serving(sized)), Options{User: User{"root", "eve"}})
	_, err := lengthOf(t.Context(), c, "/")
	wantClass(t, err, ClassUnauthorized, "User: eve is not allowed to impersonate root")
}

// TestUnproved: a connection that is not proved is good for the protocol that it was begun for.
func TestUnproved(t *testing.T) {
	const lengths = "org.example.Lengths"
	s := serving(sized)
	s.Protocols[lengths] = s.Protocols[clientProtocol]
	s.Unproved = map[string]bool{lengths: true}
	s.Prove = func(user string, _, _ netip.AddrPort) error { return fmt.Errorf("nobody is %s", user) }
	address := start(t, s)
	_, err := lengthOf(t.Context(), dial(t, address, Options{}), "/")
	wantClass(t, err, ClassAccess, "nobody is anna")
	c := dial(t, address, Options{Protocol: lengths, User: User{Name: "block 7"}})
	wantLength(t, c, "/a/file")
	c.o.Protocol = clientProtocol
	_, err = lengthOf(t.Context(), c, "/a/file")
	wantClass(t, err, ClassAccess, lengths)
}

func TestErrors(t *testing.T) {
	address := start(t, serving(func(_ context.Context, _ *Call, q proto.Message) (proto.Message, error) {
		switch p := q.(*pb.GetFileInfoRequestProto).GetSrc(); p {
		case "/thrown":
			return nil, fmt.Errorf("wrapped: %w", Throw("java.io.FileNotFoundException", "%s is not there", p))
		case "/plain":
			return nil, errors.New("the disk is away")
		case "/panic":
			panic("oh")
		case "/other":
			return &pb.MkdirsResponseProto{Result: proto.Bool(true)}, nil
		case "/incomplete":
			return &pb.GetFileInfoResponseProto{Fs: &pb.HdfsFileStatusProto{}}, nil
		case "/nothing":
			return nil, nil
		case "/fatal":
			return nil, &Exception{Class: ClassAccess, Message: "out", Fatal: true}
		}
		return size(1), nil
	}))
	c := dial(t, address, Options{})
	for path, want := range map[string][2]string{
		"/thrown": {"java.io.FileNotFoundException", "/thrown is not there"}, "/plain": {ClassIO, "the disk is away"},
		"/panic": {"java.lang.RuntimeException", "internal error in getFileInfo"}, "/other": {ClassServer, "MkdirsResponseProto"},
		"/nothing": {ClassServer, "nil"}, "/incomplete": {ClassServer, "required"},
	} {
		_, err := lengthOf(t.Context(), c, path)
		wantClass(t, err, want[0], want[1])
	}
	err := c.Call(t.Context(), "fly", &pb.GetFileInfoRequestProto{Src: proto.String("/")}, &pb.GetFileInfoResponseProto{})
	wantClass(t, err, ClassNoMethod, "fly")
	if e := (*Exception)(nil); !errors.As(err, &e) || e.Code != pb.RpcResponseHeaderProto_ERROR_NO_SUCH_METHOD {
		t.Errorf("code of %v", err)
	}
	err = c.Call(t.Context(), "getFileInfo", &pb.MkdirsResponseProto{Result: proto.Bool(true)}, &pb.GetFileInfoResponseProto{})
	wantClass(t, err, ClassServer, "getFileInfo")
	wantNoLength(t, c)

	other := dial(t, address, Options{Protocol: "org.example.Other"})
	_, err = lengthOf(t.Context(), other, "/")
	wantClass(t, err, ClassNoProtocol, "org.example.Other")

	_, err = lengthOf(t.Context(), c, "/fatal")
	wantClass(t, err, ClassAccess, "out")
	if _, err = lengthOf(t.Context(), c, "/"); err == nil {
		t.Error("the connection goes on")
	}
}

// wantNoLength: after all these errors the connection still answers.
func wantNoLength(t *testing.T, c *Client) {
	t.Helper()
	if n, err := lengthOf(t.Context(), c, "/"); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
}

// TestCallsRunBesideEachOther: one call waits until all the others of its connection are answered.
func TestCallsRunBesideEachOther(t *testing.T) {
	slow := make(chan struct{})
	address := start(t, serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		if q.(*pb.GetFileInfoRequestProto).GetSrc() == "/slow" {
			select {
			case <-slow:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return sized(ctx, c, q)
	}))
	c := dial(t, address, Options{})
	var wg sync.WaitGroup
	wg.Go(func() { wantLength(t, c, "/slow") })
	for i := range 100 {
		wantLength(t, c, "/"+strings.Repeat("x", i))
	}
	close(slow)
	wg.Wait()
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				wantLength(t, c, "/"+strings.Repeat("x", i*100))
			}
		})
	}
	wg.Wait()
}

// TestEnd: with its connection the context of a call ends; and a caller hears of the end.
func TestEnd(t *testing.T) {
	begun, ended := make(chan struct{}), make(chan error)
	s := serving(func(ctx context.Context, _ *Call, _ proto.Message) (proto.Message, error) {
		close(begun)
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	})
	c := dial(t, start(t, s), Options{})
	heard := make(chan error)
	go func() { _, err := lengthOf(t.Context(), c, "/"); heard <- err }()
	<-begun
	c.Close()
	if err := <-heard; err == nil {
		t.Error("an answer after the end")
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestShutdown: what has begun is answered, then everything ends.
func TestShutdown(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	s := serving(func(ctx context.Context, c *Call, q proto.Message) (proto.Message, error) {
		if q.(*pb.GetFileInfoRequestProto).GetSrc() == "/slow" {
			close(begun)
			select {
			case <-proceed:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return sized(ctx, c, q)
	})
	address := start(t, s)
	c, idle := dial(t, address, Options{}), dial(t, address, Options{})
	wantLength(t, idle, "/")
	heard := make(chan error)
	go func() { _, err := lengthOf(t.Context(), c, "/slow"); heard <- err }()
	<-begun
	down := make(chan error)
	go func() { down <- s.Shutdown(t.Context()) }()
	<-idle.ended
	if _, err := Dial(t.Context(), address, Options{}); err == nil {
		if _, err := lengthOf(t.Context(), c, "/"); err == nil {
			t.Error("a call after Shutdown")
		}
	}
	select {
	case err := <-down:
		t.Fatalf("down before the answer: %v", err)
	default:
	}
	close(proceed)
	if err := <-heard; err != nil {
		t.Error(err)
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
}

// TestShutdownTooSlow: a call that does not end is ended.
func TestShutdownTooSlow(t *testing.T) {
	begun := make(chan struct{})
	s := serving(func(ctx context.Context, _ *Call, _ proto.Message) (proto.Message, error) {
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	c := dial(t, start(t, s), Options{})
	go lengthOf(t.Context(), c, "/")
	<-begun
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
