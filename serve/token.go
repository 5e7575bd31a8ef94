package serve

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
)

// Token lets in those who have it. Safe for concurrent use.
type Token struct {
	want  [][sha256.Size]byte
	log   *slog.Logger
	count func()
	// patience is how long a stranger may go on sending.
	patience time.Duration

	mu     sync.Mutex
	logged time.Time
	unsaid int // refused since then
}

// sayEvery is how often a line about strangers is written.
const sayEvery = 10 * time.Second

// NewToken lets in callers who present one of the tokens. refused is called for each other one,
// who may go on sending for as long as patience.
func NewToken(tokens []string, patience time.Duration, log *slog.Logger, refused func()) *Token {
	g := &Token{log: log, count: refused, patience: patience}
	for _, token := range tokens {
		g.want = append(g.want, sha256.Sum256([]byte(token)))
	}
	return g
}

// Protect asks all callers for the token.
func (g *Token) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if g.knows(r) {
			known(r.Context())
			next.ServeHTTP(w, r)
			return
		}
		g.refused(r)
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(g.patience))
		w.Header().Set("Connection", "close")
		w.Header().Set("WWW-Authenticate", "Bearer")
		err := connect.NewError(connect.CodeUnauthenticated, errors.New("the token of the cluster is missing or wrong; see --token-file"))
		if !refuser.IsSupported(r) {
			http.Error(w, err.Message(), http.StatusUnauthorized)
			return
		}
		refuser.Write(w, r, err)
	})
}

// ProtectUnlessLocal asks only callers from other machines for the token. Who does not show it has one
// answer on a connection.
func (g *Token) ProtectUnlessLocal(next http.Handler) http.Handler {
	protected := g.Protect(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if ip := net.ParseIP(host); err == nil && ip != nil && ip.IsLoopback() && !g.knows(r) {
			w.Header().Set("Connection", "close")
			next.ServeHTTP(w, r)
			return
		}
		protected.ServeHTTP(w, r)
	})
}

// knows compares in constant time, whatever the length of what was sent.
func (g *Token) knows(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	same := 0
	for _, want := range g.want {
		same |= subtle.ConstantTimeCompare(got[:], want[:])
	}
	return strings.EqualFold(scheme, "Bearer") && same == 1
}

func (g *Token) refused(r *http.Request) {
	g.count()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsaid++
	if now := time.Now(); g.logged.IsZero() || now.Sub(g.logged) >= sayEvery {
		g.log.Warn("a caller without the token was refused", "from", r.RemoteAddr, "times", g.unsaid)
		g.logged, g.unsaid = now, 0
	}
}
