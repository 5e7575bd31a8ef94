package solo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"connectrpc.com/connect"
	"golang.org/x/sys/unix"
)

// caller is who is at the other end of the socket, according to the kernel.
type caller struct{ uid, gid uint32 }

type callerKey struct{}

// viewer is what the caller may see.
func (c caller) viewer() viewer {
	return viewer{uid: c.uid, all: c.uid == 0 || c.uid == uint32(os.Geteuid())}
}

func peer(conn *net.UnixConn) (caller, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return caller{}, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, credErr); err != nil {
		return caller{}, fmt.Errorf("find out who is calling: %w", err)
	}
	return caller{uid: cred.Uid, gid: cred.Gid}, nil
}

// Limits on connections, for each user and for all together. The daemon's own
// user and root have a part that others cannot take.
const (
	maxConnsPerUser = 256
	maxConnsOthers  = 768
)

// peerListener accepts connections, finds out who is at the other end and
// bounds how many there are.
type peerListener struct {
	*net.UnixListener
	mu     sync.Mutex
	conns  map[uint32]int
	others int
}

type peerConn struct {
	net.Conn
	caller caller
	once   sync.Once
	gone   func()
}

func (c *peerConn) Close() error {
	c.once.Do(c.gone)
	return c.Conn.Close()
}

// Accept returns the next connection that is within the limits; others are
// closed.
func (l *peerListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		who, err := peer(conn)
		if err != nil || !l.admit(who) {
			conn.Close()
			continue
		}
		return &peerConn{Conn: conn, caller: who, gone: func() { l.leave(who) }}, nil
	}
}

func (l *peerListener) admit(who caller) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	other := !who.viewer().all
	if l.conns[who.uid] >= maxConnsPerUser || other && l.others >= maxConnsOthers {
		return false
	}
	l.conns[who.uid]++
	if other {
		l.others++
	}
	return true
}

func (l *peerListener) leave(who caller) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[who.uid]--; l.conns[who.uid] == 0 {
		delete(l.conns, who.uid)
	}
	if !who.viewer().all {
		l.others--
	}
}

func withCaller(ctx context.Context, conn net.Conn) context.Context {
	if c, ok := conn.(*peerConn); ok {
		return context.WithValue(ctx, callerKey{}, c.caller)
	}
	return ctx
}

// callerOf is the caller of a request, if it may ask anything at all.
func callerOf(ctx context.Context) (caller, error) {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return caller{}, connect.NewError(connect.CodeUnauthenticated, errors.New("it is not known who is calling"))
	}
	if euid := uint32(os.Geteuid()); euid != 0 && c.uid != euid && c.uid != 0 {
		return caller{}, connect.NewError(connect.CodePermissionDenied,
			fmt.Errorf("this daemon belongs to user %d and serves nobody else; start your own with: headrace solo", euid))
	}
	return c, nil
}
