package manager

import (
	"context"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"headrace/serve"
	"headrace/wire/wireconnect"
)

const (
	// maxRequest is the largest message that is read, in bytes.
	maxRequest = 32 << 20
	// requestTime is how long a request may take, the longest wait included.
	requestTime = maxWait + time.Minute
)

// handler serves the protocol, the metrics and whether the manager is there.
func (m *Manager) handler() http.Handler {
	token := serve.NewToken(m.cfg.Token, m.cfg.timing.send, m.cfg.Log, m.counts.strangers.Inc)
	mux := http.NewServeMux()
	path, api := wireconnect.NewManagerServiceHandler(&service{m}, connect.WithReadMaxBytes(maxRequest),
		connect.WithCompressMinBytes(math.MaxInt)) // it would take longer than the network of a cluster
	mux.Handle(path, token.Protect(api))
	path, api = wireconnect.NewInputServiceHandler(m.inputs, connect.WithReadMaxBytes(maxRequest), connect.WithCompressMinBytes(math.MaxInt))
	mux.Handle(path, token.Protect(api))
	mux.Handle("GET /metrics", token.ProtectUnlessLocal(serve.Metrics(append(m.counts.collectors(m.cluster), m.inputs.Metrics())...)))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close") // who shows no token is not to hold connections that wait
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok\n"))
	})
	return m.withDeadlines(mux)
}

type controllerKey struct{}

// withDeadlines bounds how long requests may take, but for Join, which sets its own
// once it has been read.
func (m *Manager) withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if r.URL.Path == wireconnect.ManagerServiceJoinProcedure {
			c.SetReadDeadline(time.Now().Add(m.cfg.timing.send))
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), controllerKey{}, c)))
			return
		}
		until := time.Now().Add(requestTime)
		c.SetReadDeadline(until)
		c.SetWriteDeadline(until)
		next.ServeHTTP(w, r)
	})
}

// hasCome returns when the request of ctx has been read: its connection may be silent now.
func hasCome(ctx context.Context) {
	if c, ok := ctx.Value(controllerKey{}).(*http.ResponseController); ok {
		c.SetReadDeadline(time.Time{})
	}
}

// sendBy bounds how long the next message of the stream of ctx may take to be accepted.
func sendBy(ctx context.Context, d time.Duration) {
	if c, ok := ctx.Value(controllerKey{}).(*http.ResponseController); ok {
		c.SetWriteDeadline(time.Now().Add(d))
	}
}
