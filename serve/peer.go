package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"headrace/internal/accept"
	"headrace/internal/accounts"
	"headrace/internal/budget"
	"headrace/internal/linux"
)

const (
	// maxRefused is how many connections beyond the limits are told why at a time,
	// within refusalTime; more are closed without a word.
	maxRefused  = 128
	refusalTime = 2 * time.Second
)

// Peers accepts connections on a unix socket, finds out who is at the other end and
// bounds how many there are.
type Peers struct {
	*accept.Listener
	conns   *budget.Budget
	refused chan struct{} // has an element for each that is being told
}

// NewPeers lets in perUser connections of each user, and of all but root and
// the daemon's own user three times as many.
func NewPeers(l *accept.Listener, perUser int) *Peers {
	return &Peers{
		Listener: l, conns: budget.New("open connections", int64(perUser), 3*int64(perUser)),
		refused: make(chan struct{}, maxRefused),
	}
}

// Peer is a connection of somebody known.
type Peer struct {
	*net.UnixConn
	Caller Caller
	// Refusal is all that it is told; nil: it is served.
	Refusal error
	// subordinate: its user may be a number that another one has processes with, and no user. See Doubt.
	subordinate bool
	once        sync.Once
	gone        func()
}

// Close ends the connection, which does not count any more.
func (c *Peer) Close() error {
	c.once.Do(c.gone)
	return c.UnixConn.Close()
}

// Accept returns the next connection that is within the limits, or that is to be
// told that it is not.
func (l *Peers) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		unix := conn.(*net.UnixConn)
		cred, err := linux.PeerCredentials(unix)
		if err != nil {
			conn.Close()
			continue
		}
		who := Caller{UID: cred.Uid, GID: cred.Gid, PID: int(cred.Pid)}
		if !l.Reserve.Filled() && !budget.Privileged(who.UID) {
			conn.Close() // what is lent is not for telling why
			l.Reserve.Filled()
			continue
		}
		c := &Peer{UnixConn: unix, Caller: who}
		payer := who.UID
		if !budget.Privileged(payer) {
			payer, c.subordinate = accounts.Here.PayerOf(payer)
		}
		if c.Refusal = l.conns.Take(payer, 1); c.Refusal == nil {
			c.gone = func() { l.conns.Give(payer, 1) }
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

// Doubt says why the caller is not served although there is room; nil: it is. Who may have processes with 65,536 numbers
// beside their own would be as many users, each with limits and a share of its own. It may block, as accounts do.
func (c *Peer) Doubt() error {
	if !c.subordinate {
		return nil
	}
	_, err := accounts.Here.UserOf(c.Caller.UID)
	if errors.Is(err, accounts.ErrUnknown) {
		return fmt.Errorf("%w: user %d has no account and is a subordinate id of a user (/etc/subuid); call as that user, outside of the user namespace", ErrDenied, c.Caller.UID)
	}
	return err
}

type peerKey struct{}

// withPeer returns an http.Server.ConnContext.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*Peer); ok {
		return context.WithValue(WithCaller(ctx, c.Caller), peerKey{}, c)
	}
	return ctx
}
