package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"headrace/dfs"
	"headrace/dfs/gateway"
	"headrace/meta"
)

// Config says what is served.
type Config struct {
	Node *dfs.Node
	// Groups returns the groups of a user; nil asks this machine.
	Groups func(user string) []string
	// Trust: see dfs.Callers.
	Trust bool
	// Host is the address by which clients reach this node, RPCPort and DataPort are those of HDFS's own protocols:
	// clients are told where blocks are.
	Host              string
	RPCPort, DataPort int
	// Connections are how many there may be, of all addresses and of one (default 1,024 and 512). One too many takes the place of the
	// one that is idle for longest.
	Connections, AddressConnections int
	// BodyTime is how long a client may take to send the next bytes (default 45 s: then its lease is still good), or to take an answer, SendTime how long
	// to take the next 256 KB of a file (default 8 min, as by data transfer: a reader may be slow).
	BodyTime, SendTime time.Duration
	// Pass has a request of a user answered by the node that leads the names, and reports whether it has: not when that is this
	// one. nil: it is.
	Pass func(w http.ResponseWriter, r *http.Request, user string) (answered bool, err error)
	// Gateway has what /, /metrics and /jmx tell; nil: they are not served.
	Gateway *gateway.Gateway
	Log     *slog.Logger
}

// A Server serves WebHDFS.
type Server struct {
	Config
	callers dfs.Callers
	http    http.Server
	cancel  context.CancelFunc
	took    *prometheus.HistogramVec
	others  http.Handler // all but WebHDFS

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // requests
}

const (
	mostHeader = 64 << 10         // bytes
	headerTime = 10 * time.Second // for a request to come in
	idleTime   = time.Minute      // between requests
)

// New returns a server. It serves once Serve is called.
func New(c Config) *Server {
	c.Connections = cmp.Or(c.Connections, 1024)
	c.AddressConnections = cmp.Or(c.AddressConnections, 512)
	c.BodyTime = cmp.Or(c.BodyTime, 45*time.Second)
	c.SendTime = cmp.Or(c.SendTime, 8*time.Minute)
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	s := &Server{Config: c, callers: dfs.Callers{Node: c.Node, Groups: c.Groups, Trust: c.Trust}, others: http.NotFoundHandler(), took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "headrace_dfs_web_seconds", Help: "Time to answer requests of WebHDFS, bytes included; those that another node has answered are not in it.",
		Buckets: []float64{.001, .003, .01, .03, .1, .3, 1, 3, 10, 30, 100},
	}, []string{"op"})}
	if c.Gateway != nil {
		s.others = s.pages()
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.http = http.Server{Handler: s, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, MaxHeaderBytes: mostHeader, ConnState: noteState, ConnContext: withConn,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(c.Log.Handler(), slog.LevelDebug)}
	return s
}

// Serve serves until Shutdown, or until the listener fails. It closes the listener.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(s.listener(l))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// drain is how long requests may take to be answered at the end.
const drain = 5 * time.Second

// Shutdown ends serving, and returns when nobody uses the node any more. Files that are being written are closed at what has come.
func (s *Server) Shutdown() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.Log.Info("requests were cut off", "err", err)
	}
	s.cancel()
	s.http.Close()
	s.running.Wait()
}

func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.running.Add(1)
	}
	return !s.closed
}

// prefix begins all paths.
const prefix = "/webhdfs/v1"

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.serve(w, r, "") }

// ServePassed answers a request that another node has passed on, which has found out that it is the user's. It is only for those who
// come by a way that clients have not.
func (s *Server) ServePassed(w http.ResponseWriter, r *http.Request, user string) {
	s.serve(w, r, user)
}

// serve answers a request of a user who is proved, unless that is empty.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, proved string) {
	if !s.begin() {
		http.Error(w, "the node is about to end", http.StatusServiceUnavailable)
		return
	}
	defer s.running.Done()
	defer answered(r)
	patience(w, s.BodyTime)
	if r.Body != http.NoBody {
		c := http.NewResponseController(w)
		c.SetReadDeadline(time.Now().Add(s.BodyTime)) // also for a body that nobody wants
		r = r.WithContext(r.Context())                // net/http looks at the body of its own request
		r.Body = body{r.Body, c, s.BodyTime}
	}
	path, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok || path != "" && path[0] != '/' {
		s.others.ServeHTTP(w, r)
		return
	}
	q := &request{Server: s, w: w, r: r, path: cmp.Or(path, "/"), proved: proved}
	answer, err := q.serve()
	switch patience(w, s.BodyTime); { // that may have taken long
	case err != nil:
		q.refuse(err)
	case answer != served:
		q.answer(answer)
	default:
		patience(w, s.SendTime) // the last bytes of a file are sent when this returns
	}
}

// request is one of a client.
type request struct {
	*Server
	params
	w    http.ResponseWriter
	r    *http.Request
	by   meta.Caller
	path string
	// proved is the user, as another node has found.
	proved string
}

// served is the answer of an operation that has answered itself.
var served any = new(byte)

// An operation answers with what becomes JSON, or nil when there is nothing to say.
type operation func(*request) (any, error)

// table has operations by their method and name.
type table map[string]operation

var tables = []table{look, change, data, refused}

const (
	classArgument     = "java.lang.IllegalArgumentException"
	classIO           = "java.io.IOException"
	classNotFound     = "java.io.FileNotFoundException"
	classUnsupported  = "java.lang.UnsupportedOperationException"
	classUnauthorized = "org.apache.hadoop.security.authorize.AuthorizationException"
	classAccess       = "org.apache.hadoop.security.AccessControlException"
	classHadoopArg    = "org.apache.hadoop.HadoopIllegalArgumentException"
	classStandby      = "org.apache.hadoop.ipc.StandbyException"
	classInvalidPath  = "org.apache.hadoop.fs.InvalidPathException"
)

// anonymous is who calls without a name (hadoop.http.staticuser.user).
const anonymous = "dr.who"

func (r *request) serve() (any, error) {
	if browser(r.r) {
		return nil, thrown(classUnauthorized, "WebHDFS is not for web pages: who calls is not proved here, so any page could do all")
	}
	if err := r.parse(r.r.URL.RawQuery); err != nil {
		return nil, err
	}
	if !utf8.ValidString(r.path) {
		return nil, thrown(classArgument, "the path is not UTF-8")
	}
	if len(r.path) > mostText {
		return nil, thrown(classIO, "the path has %d bytes, more than %d", len(r.path), mostText)
	}
	name := strings.ToUpper(r.text("op"))
	var run operation
	for _, t := range tables {
		if o := t[r.r.Method+" "+name]; o != nil {
			run = o
		}
	}
	switch {
	case run == nil && name == "":
		return nil, thrown(classUnsupported, "there is no op")
	case run == nil:
		return nil, thrown(classArgument, "Invalid value for webhdfs parameter \"op\": there is no %s of %.64q", r.r.Method, name)
	}
	user := cmp.Or(r.proved, r.text("user.name"), anonymous)
	if len(user) > meta.MostWho {
		return nil, thrown(classUnauthorized, "the name of a user has %d bytes, more than %d", len(user), meta.MostWho)
	}
	if as := r.text("doas"); as != "" && as != user {
		return nil, thrown(classUnauthorized, "User: %s is not allowed to impersonate %s", user, as)
	}
	if r.text("delegation") != "" {
		return nil, thrown(classAccess, "there are no delegation tokens here: say user.name")
	}
	if user != anonymous && r.proved == "" { // who may do no more than anybody
		near, _ := netip.ParseAddrPort(r.r.RemoteAddr)
		far, _ := netip.ParseAddrPort(fmt.Sprint(r.r.Context().Value(http.LocalAddrContextKey)))
		if err := r.callers.Prove(user, near, far); err != nil {
			return nil, thrown(classAccess, "%s", err)
		}
	}
	if r.Pass != nil && r.proved == "" {
		if answered, err := r.pass(user); answered || err != nil {
			return served, err
		}
	}
	r.by = r.callers.Of(user)
	defer func(began time.Time) { r.took.WithLabelValues(name).Observe(time.Since(began).Seconds()) }(time.Now())
	for _, p := range required[r.r.Method+" "+name] {
		if r.text(p) == "" {
			return nil, thrown(classArgument, "Required param %s for op: %s is null or empty", p, name)
		}
	}
	return run(r)
}

// required are the parameters without which an operation is refused (NamenodeWebHdfsMethods).
var required = map[string][]string{
	"PUT RENAME": {"destination"}, "PUT SETXATTR": {"xattr.name", "flag"}, "PUT REMOVEXATTR": {"xattr.name"}, "PUT MODIFYACLENTRIES": {"aclspec"},
	"PUT REMOVEACLENTRIES": {"aclspec"}, "PUT SETACL": {"aclspec"}, "POST CONCAT": {"sources"}, "POST TRUNCATE": {"newlength"}, "GET CHECKACCESS": {"fsaction"},
}

// pass has another node answer, if that one leads. Bytes get the same time as here.
func (r *request) pass(user string) (answered bool, err error) {
	answered, err = r.Pass(patientWriter{r.w, r.SendTime}, r.r.Clone(r.r.Context()), user)
	if err != nil && r.r.Context().Err() == nil {
		err = thrown(classStandby, "%s", err)
	}
	return answered, err
}

// patientWriter gives the client time to take each part of an answer.
type patientWriter struct {
	http.ResponseWriter
	each time.Duration
}

func (p patientWriter) Write(b []byte) (int, error) {
	patience(p.ResponseWriter, p.each)
	return p.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (p patientWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// browser reports whether a web page, or somebody by a browser, has made a request: HDFS tells them by the same (RestCsrfPreventionFilter).
func browser(r *http.Request) bool {
	agent := r.UserAgent()
	return r.Header.Get("Origin") != "" || strings.HasPrefix(agent, "Mozilla") || strings.HasPrefix(agent, "Opera")
}
