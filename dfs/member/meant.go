package member

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"connectrpc.com/connect"

	"headrace/ring"
	"headrace/wire/wireconnect"
)

// Headers by which a request says whom it is meant for.
const (
	poolHeader = "Headrace-Pool"
	nodeHeader = "Headrace-Node"
)

// meant is whom a message is for: the node of a name, of the file system that has a pool. All that nodes say to each other names it, and who is
// somebody else refuses: an address may be that of another node by now, or of another file system with the same token.
type meant struct{ pool, node string }

func (a meant) hello() string { return a.pool + " " + a.node }

func (a meant) set(h http.Header) {
	h.Set(poolHeader, a.pool)
	h.Set(nodeHeader, a.node)
}

// naming is a node of this file system. Before Start nothing is known of that.
func (m *Circle) naming(node string) meant {
	if !m.started.Load() {
		return meant{node: node}
	}
	return meant{m.system.Pool, node}
}

// meaning has a client say whom it means.
func (m *Circle) meaning(node string) connect.ClientOption {
	return connect.WithInterceptors(connect.UnaryInterceptorFunc(func(next connect.UnaryFunc) connect.UnaryFunc {
		return func(ctx context.Context, q connect.AnyRequest) (connect.AnyResponse, error) {
			m.naming(node).set(q.Header())
			return next(ctx, q)
		}
	}))
}

// welcome looks at whom a stream of messages is meant for.
func (m *Circle) welcome(hello string, from net.Addr) error {
	pool, node, _ := strings.Cut(hello, " ")
	if err := m.check(meant{pool, node}, from.String()); err != nil {
		return fmt.Errorf("%s", err.Message())
	}
	return nil
}

// asked looks at whom a request is meant for. Who joins need know nobody, and who beats may know no more than an address.
func (m *Circle) asked(r *http.Request) *connect.Error {
	to := meant{r.Header.Get(poolHeader), r.Header.Get(nodeHeader)}
	joins := r.URL.Path == wireconnect.RingServiceJoinProcedure
	if joins && to.pool == "" {
		to.pool = m.system.Pool
	}
	if (joins || r.URL.Path == wireconnect.RingServiceBeatProcedure) && to.node == "" {
		to.node = m.self.Name
	}
	return m.check(to, r.RemoteAddr)
}

// check returns why this node is not meant, or nil. What a file system is asked that is another one is a failed precondition; a node that is elsewhere
// may be found later, and so is unavailable.
func (m *Circle) check(to meant, from string) *connect.Error {
	host, _, _ := net.SplitHostPort(from)
	switch {
	case to.pool == "": // who is joining may call before it knows; it calls again
		return connect.NewError(connect.CodeUnavailable, errors.New("the file system is not named"))
	case to.pool != m.system.Pool:
		m.tell(slog.LevelError, "asked "+to.hello(), "this node is taken for one of another file system, and refuses. If it has lost its directory, and is to be one of that again: "+
			"end it, empty its directory, and start it with --join and the address of another node; else give it another address or token",
			"by", host, "their", to.pool, "own", m.system.Pool)
		return connect.NewError(connect.CodeFailedPrecondition, fmt.Errorf("here is node %s of another file system, %s, and not node %.64s of %.64s; if that has lost its directory, "+
			"this one is to be ended, and started with an empty directory and --join", m.self.Name, m.system.Pool, to.node, to.pool))
	case to.node != m.self.Name:
		m.tell(slog.LevelWarn, "asked "+to.hello(), "this node is taken for another one, which was at this address before, and refuses. If that is lost for ever, drain and remove it",
			"by", host, "node", to.node)
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("here is node %s, and not node %.64s", m.self.Name, to.node))
	}
	return nil
}

// refuse answers a request that is meant for somebody else.
func refuse(w http.ResponseWriter, r *http.Request, err *connect.Error) {
	if r.URL.Path == webPath {
		http.Error(w, err.Message(), http.StatusMisdirectedRequest)
		return
	}
	connect.NewErrorWriter().Write(w, r, err)
}

// refused reports whether who was asked is not whoever was meant: nothing was done.
func refused(err error) bool {
	code := connect.CodeOf(err)
	return connect.IsWireError(err) && (code == connect.CodeUnavailable || code == connect.CodeFailedPrecondition)
}

// tell logs what happens again and again at its level once, until there is something else to be told of the same subject.
func (m *Circle) tell(level slog.Level, subject, text string, more ...any) {
	what := text + fmt.Sprint(more...)
	m.mu.Lock()
	switch {
	case level == slog.LevelDebug:
	case m.told[subject] == what:
		level = slog.LevelDebug
	default:
		if len(m.told) > 4*ring.MaxNodes { // addresses come and go
			clear(m.told)
		}
		m.told[subject] = what
	}
	m.mu.Unlock()
	m.Log.Log(m.ctx, level, text, more...)
}
