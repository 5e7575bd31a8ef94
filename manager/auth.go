package manager

import (
	"context"
	"math"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"headrace/manager/inputs"
	"headrace/serve"
	"headrace/wire"
	"headrace/wire/wireconnect"
)

// maxRequest is the largest message that is read, in bytes.
const maxRequest = 32 << 20

// handler serves the protocol, the metrics and whether the manager is there.
func (m *Manager) handler() http.Handler {
	token := serve.NewToken(append([]string{m.cfg.Token}, m.cfg.AcceptedTokens...), m.cfg.timing.send, m.cfg.Log, m.counts.strangers.Inc)
	mux := http.NewServeMux()
	path, api := wireconnect.NewManagerServiceHandler(&service{m}, connect.WithReadMaxBytes(maxRequest),
		connect.WithCompressMinBytes(math.MaxInt)) // it would take longer than the network of a cluster
	mux.Handle(path, token.Protect(api))
	path, api = wireconnect.NewInputServiceHandler(patient{m.inputs, m.inputs, m.cfg.timing.request}, connect.WithReadMaxBytes(maxRequest), connect.WithCompressMinBytes(math.MaxInt))
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

// withDeadlines bounds how long requests may take, but for Join and those that file systems are asked for, which
// set their own once they have been read.
func (m *Manager) withDeadlines(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, now := http.NewResponseController(w), time.Now()
		own := r.WithContext(context.WithValue(r.Context(), controllerKey{}, c))
		switch r.URL.Path {
		case wireconnect.ManagerServiceJoinProcedure:
			c.SetReadDeadline(now.Add(m.cfg.timing.send))
			next.ServeHTTP(w, own)
		case wireconnect.InputServiceWarmProcedure, wireconnect.InputServiceCoolProcedure, wireconnect.InputServiceCachedInputsProcedure:
			c.SetReadDeadline(now.Add(m.cfg.timing.request))
			next.ServeHTTP(w, own)
		default:
			c.SetReadDeadline(now.Add(m.cfg.timing.request))
			c.SetWriteDeadline(now.Add(m.cfg.timing.request))
			next.ServeHTTP(w, r)
		}
	})
}

// patient lets requests take as long as it takes to ask a file system for many thousands of files, and to wait until it is
// their turn: the caller may leave at any time. The answer must be taken in time.
type patient struct {
	wireconnect.InputServiceHandler
	inputs *inputs.Inputs
	time   time.Duration
}

// Warm implements InputServiceHandler.
func (p patient) Warm(ctx context.Context, q *wire.WarmInputsRequest) (*wire.InputsStatus, error) {
	hasCome(ctx)
	defer sendBy(ctx, p.time)
	return p.inputs.Warm(ctx, q)
}

// Cool implements InputServiceHandler.
func (p patient) Cool(ctx context.Context, q *wire.CoolInputsRequest) (*wire.CoolInputsResponse, error) {
	hasCome(ctx)
	defer sendBy(ctx, p.time)
	return p.inputs.Cool(ctx, q)
}

// CachedInputs implements InputServiceHandler.
func (p patient) CachedInputs(ctx context.Context, q *wire.CachedInputsRequest, out *connect.ServerStream[wire.CachedInputsChunk]) error {
	hasCome(ctx)
	parts, done, err := p.inputs.Cached(ctx, q)
	sendBy(ctx, p.time)
	if err != nil {
		return err
	}
	defer done()
	return inputs.Send(parts, out)
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
