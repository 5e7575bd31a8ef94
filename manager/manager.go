package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/accept"
	"headrace/internal/linux"
	"headrace/manager/inputs"
	"headrace/policy"
	"headrace/serve"
)

// MinToken is how many bytes a token has at least.
const MinToken = 16

// Config is what a manager is told. Listen and Token must be set.
type Config struct {
	// Listen is host:port; port 0 means a free one.
	Listen string
	// Token is what every caller has to present, or one of AcceptedTokens: so it is changed while some have the old one.
	Token          string
	AcceptedTokens []string
	// Cert and Key are files in PEM for TLS; both or none.
	Cert, Key string
	// Policy decides how containers give way.
	Policy policy.Config
	// Network is the bandwidth between machines, in bytes per second; 0: 100 MB/s.
	Network float64
	// Inputs are the file systems whose files are warmed.
	Inputs inputs.Config
	// Drain has all containers go on, and none give way, until a caller ends that.
	Drain bool
	// Version is shown to callers.
	Version string
	// Log gets structured messages; nil: none.
	Log *slog.Logger

	timing timing
}

// timing is how long things last; tests make it shorter.
type timing struct {
	// alive is how often a stream shows that it is alive; send is how long a node may
	// take to accept a message, or to send that it joins.
	alive, send time.Duration
	// request is how long a request may take, the longest wait included, but for those that file systems are asked for: of these,
	// to come in, and to be taken when it is answered.
	request time.Duration
	// prove is how long a connection may have shown no token.
	prove time.Duration
	// away is how long a node may be without a stream, silent how long without a report.
	away, silent time.Duration
	// forget is when a node is forgotten that is away.
	forget time.Duration
	// look is how often all this is looked at.
	look time.Duration
	// gather is how long a caller of Containers waits for more after a change.
	gather time.Duration
	// claim is for how long room that was made counts as taken though nobody has come.
	claim time.Duration
	// patience is how long an order may take beyond ten times what is expected, busy how much longer if its node is at
	// something with the container meanwhile; unasked is how long a node may be at something that was not ordered from here.
	patience, busy, unasked time.Duration
	// spare is for how long a mechanism is not tried again that has failed.
	spare time.Duration
	// settle is how long after the start of the manager nodes may still be coming back.
	settle time.Duration
	// doubt is how long a scheduler is told to wait for a container that cannot be told
	// anything, remember how long such a one, and one that has ended, is remembered.
	doubt, remember time.Duration
	// fresh is how long it counts what an application has told of a container's progress.
	fresh time.Duration
	// weigh is how long a container that a user has suspended stays, until its memory has been measured, and how often
	// there is looked for room for another in its place.
	weigh time.Duration
}

var usualTiming = timing{
	alive: 3 * time.Second, send: 10 * time.Second, request: maxWait + time.Minute, prove: 10 * time.Second,
	away: 5 * time.Second, silent: 10 * time.Second, forget: time.Hour,
	look: 250 * time.Millisecond, gather: 3 * time.Millisecond,
	claim: 10 * time.Second, patience: time.Minute, busy: 10 * time.Minute, unasked: time.Hour, spare: time.Minute, settle: 8 * time.Second,
	doubt: 20 * time.Second, remember: 5 * time.Minute, fresh: 20 * time.Second,
	weigh: 3 * time.Second,
}

// Manager serves ManagerService.
type Manager struct {
	cfg     Config
	tls     *tls.Config
	cluster *cluster
	inputs  *inputs.Inputs
	counts  *counters
	ready   chan struct{}
	addr    net.Addr // valid once ready
	// stopping ends everything that waits.
	stopping chan struct{}
}

// New checks a configuration and reads the certificate.
func New(cfg Config) (*Manager, error) {
	if _, _, err := net.SplitHostPort(cfg.Listen); err != nil {
		return nil, fmt.Errorf("listen on %q: %w; give HOST:PORT, such as 127.0.0.1:7411", cfg.Listen, err)
	}
	if len(cfg.Token) < MinToken {
		return nil, fmt.Errorf("the token has %d bytes; it must have at least %d", len(cfg.Token), MinToken)
	}
	if err := cfg.Policy.Validate(); err != nil {
		return nil, err
	}
	if cfg.Policy.Policy == "" {
		cfg.Policy.Policy = policy.Cost
	}
	if cfg.Network <= 0 {
		cfg.Network = 100e6
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.timing == (timing{}) {
		cfg.timing = usualTiming
	}
	m := &Manager{cfg: cfg, counts: newCounters(), ready: make(chan struct{}), stopping: make(chan struct{})}
	switch {
	case (cfg.Cert == "") != (cfg.Key == ""):
		return nil, errors.New("a certificate and its key go together; give both or none")
	case cfg.Cert != "":
		pair, err := tls.LoadX509KeyPair(cfg.Cert, cfg.Key)
		if err != nil {
			return nil, fmt.Errorf("read the certificate %s and its key %s: %w", cfg.Cert, cfg.Key, err)
		}
		m.tls = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
	}
	m.cluster = newCluster(&m.cfg, m.counts)
	cfg.Inputs.Log = cfg.Log
	var err error
	if m.inputs, err = inputs.New(cfg.Inputs); err != nil {
		return nil, err
	}
	return m, nil
}

// Ready returns what is closed when the manager answers.
func (m *Manager) Ready() <-chan struct{} { return m.ready }

// Addr returns where the manager answers; it is valid once it is ready.
func (m *Manager) Addr() net.Addr { return m.addr }

// Run serves until ctx ends, which is no error, or serving is impossible. It may be
// called once.
func (m *Manager) Run(ctx context.Context) error {
	// Nodes give the token to whoever has the port.
	tcp, err := linux.ListenKept(m.cfg.Listen)
	if err != nil {
		return fmt.Errorf("serve the cluster: %w; choose another address with --listen", err)
	}
	m.addr = tcp.Addr()
	strangers := serve.NewStrangers(&accept.Listener{Listener: tcp, Name: "the cluster", Log: m.cfg.Log}, mostStrangers(), m.cfg.timing.prove)
	base, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := serve.Server(m.handler(), base, 64<<10)
	server.ErrorLog = slog.NewLogLogger(m.cfg.Log.Handler(), slog.LevelDebug)
	var work sync.WaitGroup
	work.Go(func() { m.cluster.watch(m.stopping) })
	work.Go(func() { m.inputs.Watch(m.stopping) })
	over := make(chan struct{})
	work.Go(func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		close(m.stopping)
		m.shutDown(server, cancel)
	})
	m.announce()
	close(m.ready)
	err = strangers.Serve(server, m.tls)
	close(over)
	work.Wait()
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the cluster: %w", err)
	}
	return nil
}

// shutDown lets requests that are being answered finish, but not for long.
func (m *Manager) shutDown(server *http.Server, cancel context.CancelFunc) {
	soon, done := context.WithTimeout(context.Background(), 2*time.Second)
	defer done()
	if server.Shutdown(soon) != nil {
		cancel()
		server.Close()
	}
}

func (m *Manager) announce() {
	m.cfg.Log.Info("the manager is up", "address", m.addr.String(), "tls", m.tls != nil, "policy", m.cfg.Policy.Policy, "version", m.cfg.Version)
	if host, ok := m.addr.(*net.TCPAddr); ok && m.tls == nil && !host.IP.IsLoopback() {
		m.cfg.Log.Warn("the token crosses the network unencrypted; --tls-cert and --tls-key protect it")
	}
}

// mostStrangers is how many connections from other machines may have shown no token: enough for all nodes
// of a large cluster that come at once, and a quarter of what this process may have open, so that the
// others are left to those who have.
func mostStrangers() int {
	const enough = 4096
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return enough
	}
	return int(min(enough, limit.Cur/4))
}
