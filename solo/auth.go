package solo

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/internal/budget"
	"headrace/internal/linux"
	"headrace/serve"
)

func peer(conn *net.UnixConn) (serve.Caller, error) {
	cred, err := linux.PeerCredentials(conn)
	if err != nil {
		return serve.Caller{}, fmt.Errorf("find out who is calling: %w", err)
	}
	return serve.Caller{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}, nil
}

const (
	// maxRefused is how many connections beyond the limits are told why at a time,
	// within refusalTime; more are closed without a word.
	maxRefused  = 64
	refusalTime = 2 * time.Second
)

// peerListener accepts connections, finds out who is at the other end and
// bounds how many there are.
type peerListener struct {
	*accept.Listener
	conns   *budget.Budget
	refused chan struct{} // has an element for each that is being told
}

// newPeerListener lets in perUser connections of each user, and of all but root and
// the daemon's own user three times as many.
func newPeerListener(l *accept.Listener, perUser int) *peerListener {
	return &peerListener{
		Listener: l, conns: budget.New("open connections", int64(perUser), 3*int64(perUser)),
		refused: make(chan struct{}, maxRefused),
	}
}

// peerConn is a connection of somebody known.
type peerConn struct {
	*net.UnixConn
	caller serve.Caller
	// refusal is all that it is told; nil: it is served.
	refusal error
	once    sync.Once
	gone    func()
}

// Close ends the connection, which does not count any more.
func (c *peerConn) Close() error {
	c.once.Do(c.gone)
	return c.UnixConn.Close()
}

// Accept returns the next connection that is within the limits, or that is to be
// told that it is not.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		unix := conn.(*net.UnixConn)
		who, err := peer(unix)
		if err != nil {
			conn.Close()
			continue
		}
		if !l.Reserve.Filled() && !budget.Privileged(who.UID) {
			conn.Close() // what is lent is not for telling why
			l.Reserve.Filled()
			continue
		}
		c := &peerConn{UnixConn: unix, caller: who}
		if c.refusal = l.conns.Take(who.UID, 1); c.refusal == nil {
			c.gone = func() { l.conns.Give(who.UID, 1) }
			return c, nil
		}
		select {
		case l.refused <- struct{}{}:
			c.gone = func() { <-l.refused }
			time.AfterFunc(refusalTime, func() { c.Close() })
			return c, nil
		default:
			conn.Close()
		}
	}
}

type peerKey struct{}

func withCaller(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		return context.WithValue(serve.WithCaller(ctx, c.caller), peerKey{}, c)
	}
	return ctx
}
