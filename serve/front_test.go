package serve

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"

	"headrace/internal/budget"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// TestTooMuchForNow: a client can tell what is refused for now from what is refused for good, of streams and of
// other calls.
func TestTooMuchForNow(t *testing.T) {
	f := &Front{
		Next: http.NotFoundHandler(), Followed: map[string]bool{wireconnect.TaskServiceWatchProcedure: true},
		Requests: budget.New("requests", 1, 1), Follows: budget.New("streams", 0, 0), Bytes: budget.New("bytes", 1<<20, 1<<20), MaxRequest: 1 << 20,
	}
	s := httptest.NewUnstartedServer(f)
	s.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, &Peer{})
	}
	s.Start()
	defer s.Close()
	client := wireconnect.NewTaskServiceClient(s.Client(), s.URL)
	refused := func(what string, err error) {
		t.Helper()
		if e := new(connect.Error); !errors.As(err, &e) || e.Code() != connect.CodeResourceExhausted || e.Meta().Get("Retry-After") != "1" {
			t.Errorf("%s: %v", what, err)
		}
	}
	stream, err := client.Watch(t.Context(), &wire.WatchRequest{})
	if err == nil {
		if stream.Receive() {
			t.Error("a stream beyond the limit has begun")
		}
		err = stream.Err()
		stream.Close()
	}
	refused("a stream", err)
	f.Requests = budget.New("requests", 0, 0)
	_, err = client.Kill(t.Context(), &wire.VerbRequest{})
	refused("a call", err)
}
