package manager

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	g := &guard{want: sha256.Sum256([]byte(m.cfg.Token)), log: m.cfg.Log, counts: m.counts, patience: m.cfg.timing.send}
	mux := http.NewServeMux()
	path, api := wireconnect.NewManagerServiceHandler(&service{m}, connect.WithReadMaxBytes(maxRequest),
		connect.WithCompressMinBytes(math.MaxInt)) // it would take longer than the network of a cluster
	mux.Handle(path, g.protect(api))
	metrics := promhttp.HandlerFor(m.counts.registry(m.cluster), promhttp.HandlerOpts{})
	mux.Handle("GET /metrics", g.protectUnlessLocal(metrics))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte("ok\n"))
	})
	return m.withDeadlines(mux)
}

// guard lets in those who have the token. Safe for concurrent use.
type guard struct {
	want   [sha256.Size]byte
	log    *slog.Logger
	counts *counters
	// patience is how long a stranger may go on sending.
	patience time.Duration

	mu     sync.Mutex
	logged time.Time
	unsaid int // refused since then
}

// sayEvery is how often a line about strangers is written.
const sayEvery = 10 * time.Second

func (g *guard) protect(next http.Handler) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.knows(r) {
			next.ServeHTTP(w, r)
			return
		}
		g.refused(r)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.patience))
		w.Header().Set("Connection", "close")
		w.Header().Set("WWW-Authenticate", "Bearer")
		err := connect.NewError(connect.CodeUnauthenticated, errors.New("the token of the cluster is missing or wrong; see --token-file"))
		if !refuse.IsSupported(r) {
			http.Error(w, err.Message(), http.StatusUnauthorized)
			return
		}
		refuse.Write(w, r, err)
	})
}

// protectUnlessLocal asks only callers from other machines for the token.
func (g *guard) protectUnlessLocal(next http.Handler) http.Handler {
	protected := g.protect(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() {
			next.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// knows compares in constant time, whatever the length of what was sent.
func (g *guard) knows(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], g.want[:]) == 1
}

func (g *guard) refused(r *http.Request) {
	g.counts.strangers.Inc()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsaid++
	if now := time.Now(); g.logged.IsZero() || now.Sub(g.logged) >= sayEvery {
		g.log.Warn("a caller without the token was refused", "from", r.RemoteAddr, "times", g.unsaid)
		g.logged, g.unsaid = now, 0
	}
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

// hasCome is when the request of ctx has been read: its connection may be silent now.
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
