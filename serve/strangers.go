package serve

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/internal/accounts"
	"headrace/internal/budget"
	"headrace/internal/linux"
)

// Strangers serves connections of TCP, and bounds those on which nobody has shown the token
// yet: how many there are, of all other machines, of each, and of each user of this one, and how
// long each may take. One too many takes the place of the one that came first. Nobody can take
// the share of root and of the user that the daemon runs as, nor what is left to those who have
// shown the token, which Token tells.
type Strangers struct {
	listener *accept.Listener
	patience time.Duration
	// The connections from other machines, of users of this one, and of root and our own user.
	remote, local, own accept.Crowd
	// owner is linux.TCPOwner.
	owner func(near, far netip.AddrPort) (uint32, error)
}

// NewStrangers bounds the strangers who come to l. Most are of all other machines, a sixteenth of
// them of one; of users of this machine there are a quarter as many, and as many of root and our own.
// Each has patience from when it is accepted until a request with the token has come, or until it
// has an answer without one.
func NewStrangers(l *accept.Listener, most int, patience time.Duration) *Strangers {
	some := max(1, most/4)
	return &Strangers{
		listener: l, patience: patience, owner: linux.TCPOwner,
		remote: accept.Crowd{Most: most, MostOfAddress: max(1, most/16)},
		local:  accept.Crowd{Most: some, MostOfAddress: max(1, some/4)},
		own:    accept.Crowd{Most: some, MostOfAddress: some},
	}
}

// Serve has a server serve them, with TLS if there is a configuration.
func (l *Strangers) Serve(s *http.Server, config *tls.Config) error {
	s.ConnContext = withStranger
	if config == nil {
		return s.Serve(l)
	}
	return s.Serve(tls.NewListener(l, config))
}

// Accept returns the next connection, whose caller is a stranger.
func (l *Strangers) Accept() (net.Conn, error) {
	for {
		conn, err := l.listener.Accept()
		if err != nil {
			return nil, err
		}
		crowd, who := l.crowdOf(conn)
		c := &stranger{Conn: conn, crowd: crowd}
		came := time.Now()
		if c.member = crowd.EnterOf(who, conn, func() (time.Time, bool) { return came, true }); c.member == nil {
			conn.Close()
			continue
		}
		c.late = time.AfterFunc(l.patience, func() { conn.Close() })
		return c, nil
	}
}

// crowdOf tells in which crowd a connection counts, and as whose. On this machine one user may have
// many addresses.
func (l *Strangers) crowdOf(conn net.Conn) (*accept.Crowd, any) {
	remote := accept.Remote(conn)
	if !remote.Addr().IsLoopback() {
		return &l.remote, accept.Network(remote.Addr())
	}
	uid, err := l.owner(remote, accept.Local(conn))
	switch {
	case err != nil: // it has gone, or the kernel does not say
		return &l.local, nil
	case budget.Privileged(uid):
		return &l.own, uid
	default:
		payer, _ := accounts.Here.PayerOf(uid)
		return &l.local, payer
	}
}

// Close ends the listener, and none of the connections.
func (l *Strangers) Close() error { return l.listener.Close() }

// Addr returns where it listens.
func (l *Strangers) Addr() net.Addr { return l.listener.Addr() }

// stranger is a connection on which nobody has shown the token yet. What closes it when it has to
// give way, or is late, is below it: its own Close uses the crowd.
type stranger struct {
	net.Conn
	crowd  *accept.Crowd
	member *accept.Member
	late   *time.Timer
	once   sync.Once
}

// leave ends its being a stranger.
func (c *stranger) leave() {
	c.once.Do(func() {
		c.late.Stop()
		c.crowd.Leave(c.member)
	})
}

// Close ends the connection.
func (c *stranger) Close() error {
	c.leave()
	return c.Conn.Close()
}

type strangerKey struct{}

// withStranger is an http.Server.ConnContext.
func withStranger(ctx context.Context, conn net.Conn) context.Context {
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if c, ok := conn.(*stranger); ok {
		return context.WithValue(ctx, strangerKey{}, c)
	}
	return ctx
}

// known notes that whoever has sent a request of this context has shown the token.
func known(ctx context.Context) {
	if c, ok := ctx.Value(strangerKey{}).(*stranger); ok {
		c.leave()
	}
}
