package wire

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"time"

	"headrace/internal/linux"
)

// SocketName is the daemon's socket inside its state directory.
const SocketName = "headrace.sock"

// BaseURL goes with NewHTTPClient; the host in it means nothing.
const BaseURL = "http://headrace"

const dialTimeout = 10 * time.Second

// SocketPath returns the daemon's socket for a state directory.
func SocketPath(stateDir string) string { return filepath.Join(stateDir, SocketName) }

// NewHTTPClient serves the generated clients, which take it and BaseURL. Every
// connection it makes goes to socket, which may be longer than the kernel's
// limit for socket paths. It sets no time limit on requests. It is safe for
// concurrent use.
func NewHTTPClient(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dial(ctx, socket)
		},
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
	}}
}

func dial(ctx context.Context, socket string) (net.Conn, error) {
	path, release, err := linux.SocketPath(socket)
	if err == nil {
		defer release()
		d := net.Dialer{Timeout: dialTimeout}
		var conn net.Conn
		if conn, err = d.DialContext(ctx, "unix", path); err == nil {
			return conn, nil
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOTDIR):
		return nil, &NoDaemonError{Socket: socket, Err: err}
	case errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("connect to the daemon at %s: permission denied: it belongs to another user", socket)
	}
	return nil, fmt.Errorf("connect to the daemon at %s: %w", socket, err)
}

// Listen makes a unix socket at path, which may be longer than the kernel's
// limit for socket paths; it fails with EADDRINUSE when the file is there.
// Closing the listener leaves the file: removing it is the caller's business.
func Listen(path string) (*net.UnixListener, error) {
	short, release, err := linux.SocketPath(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	defer release()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: short, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	return l, nil
}
