package serve

import (
	"context"
	"errors"
	"fmt"
	"os"

	"connectrpc.com/connect"

	"headrace/internal/accounts"
	"headrace/internal/budget"
	"headrace/internal/linux"
)

// Caller is who is at the other end of the socket, according to the kernel.
type Caller struct {
	UID, GID uint32
	// PID is the process that has connected, 0 where it cannot be seen.
	PID int
}

// Viewer is somebody who looks at what belongs to users.
type Viewer struct {
	UID uint32
	All bool // root and the daemon's own user see everything
}

// Everything is the view of the daemon itself.
var Everything = Viewer{All: true}

// Sees reports whether the viewer may know of what belongs to a user.
func (v Viewer) Sees(uid uint32) bool { return v.All || v.UID == uid }

// Viewer returns what the caller may see.
func (c Caller) Viewer() Viewer {
	return Viewer{UID: c.UID, All: budget.Privileged(c.UID)}
}

// Credentials returns what the caller's files are looked up and opened with. A
// daemon of an ordinary user acts as that user for everybody it serves. It may block, as
// accounts do, and fails as they do where groups cannot be known.
func (c Caller) Credentials() (linux.Credentials, error) {
	if euid := os.Geteuid(); euid != 0 {
		return linux.Credentials{UID: uint32(euid), GID: uint32(os.Getegid())}, nil
	}
	// An account that is not in the user database has no group but its own.
	cred := linux.Credentials{UID: c.UID, GID: c.GID, Groups: []uint32{c.GID}}
	if c.UID == 0 {
		return cred, nil
	}
	who, err := accounts.Here.UserOf(c.UID)
	if errors.Is(err, accounts.ErrUnknown) {
		return cred, nil
	}
	if err == nil {
		cred.Groups, err = accounts.Here.GroupsOf(who)
	}
	return cred, err
}

// UserName returns what people call a user, to be shown: the number of one without a name, or
// whose name is not known soon.
func UserName(uid uint32) string { return accounts.Here.Shown(uid) }

type callerKey struct{}

// WithCaller returns a context for requests of the caller.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// ErrNoCaller: a request came from nobody that WithCaller has named.
var ErrNoCaller = errors.New("it is not known who is calling")

// CallerOf returns the caller of a request that an Interceptor has let in.
func CallerOf(ctx context.Context) Caller {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		panic("serve: a request was let in by no Interceptor") // the zero Caller would be root
	}
	return c
}

// mayAsk tells why the caller of a request may not ask anything at all.
func mayAsk(ctx context.Context) error {
	c, ok := ctx.Value(callerKey{}).(Caller)
	if !ok {
		return connect.NewError(connect.CodeUnauthenticated, ErrNoCaller)
	}
	if euid := uint32(os.Geteuid()); euid != 0 && c.UID != euid && c.UID != 0 {
		return connect.NewError(connect.CodePermissionDenied,
			fmt.Errorf("this daemon belongs to user %d and serves nobody else; start your own with: headrace solo", euid))
	}
	return nil
}
