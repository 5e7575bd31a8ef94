package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	"headrace/internal/budget"
)

// TestTooMuchForNow: a client can tell what is refused for now from what is refused for good, of streams and of
// other calls.
func TestTooMuchForNow(t *testing.T) {
	f := &Front{
		Next: http.NotFoundHandler(), Followed: map[string]bool{"/x/Watch": true},
		Requests: budget.New("requests", 1, 1), Follows: budget.New("streams", 0, 0), Bytes: budget.New("bytes", 1<<20, 1<<20), MaxRequest: 1 << 20,
	}
	s := httptest.NewUnstartedServer(f)
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, &Peer{})
	}
	s.Start()
	defer s.Close()
	client := func(procedure string) *connect.Client[emptypb.Empty, emptypb.Empty] {
		return connect.NewClient[emptypb.Empty, emptypb.Empty](s.Client(), s.URL+procedure)
	}
	refused := func(what string, err error) {
		t.Helper()
		if e := new(connect.Error); !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted || e.Meta().Get("Retry-After") != "1" {
			t.Errorf("%s: %v", what, err)
		}
	}
	stream, err := client("/x/Watch").CallServerStream(t.Context(), connect.NewRequest(&emptypb.Empty{}))
	if err == nil {
		if stream.Receive() {
			t.Error("a stream beyond the limit has begun")
		}
		err = stream.Err()
		stream.Close()
	}
	refused("a stream", err)
	f.Requests = budget.New("requests", 0, 0)
	_, err = client("/x/Kill").CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
	refused("a call", err)
}
