package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func serveHello(t *testing.T, socket string) {
	t.Helper()
	l, err := Listen(socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hello")
	})}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
}

func get(socket string) (string, error) {
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, BaseURL, nil)
	if err != nil {
		return "", err
	}
	client := NewHTTPClient(socket)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func TestSocketPathsOfAnyLength(t *testing.T) {
	for _, n := range []int{0, 107, 108, 400} {
		dir := t.TempDir()
		for len(SocketPath(dir)) < n {
			left := n - len(SocketPath(dir)) - 1
			if left < 1 {
				dir = dir[:len(dir)-1]
				left = 1
			}
			dir = filepath.Join(dir, strings.Repeat("x", min(left, 100)))
		}
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		socket := SocketPath(dir)
		serveHello(t, socket)
		if got, err := get(socket); err != nil || got != "hello" {
			t.Errorf("path of %d bytes: %q, %v", len(socket), got, err)
		}
		if _, err := Listen(socket); err == nil {
			t.Errorf("path of %d bytes: a second listener got the same socket", len(socket))
		}
	}
}

func TestNoDaemon(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	l, err := Listen(stale)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	long := filepath.Join(dir, strings.Repeat("y", 150), SocketName)
	for _, socket := range []string{stale, SocketPath(dir), long} {
		_, err := get(socket)
		var none *NoDaemonError
		if !errors.As(err, &none) || none.Socket != socket {
			t.Errorf("%s: got %v, want a NoDaemonError", socket, err)
		}
	}
}

func TestStateDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv(StateDirEnv, "")
	t.Chdir(home)

	if got, err := UserStateDir(); err != nil || got != home+"/.local/state/headrace" {
		t.Errorf("without XDG_STATE_HOME: %q, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "relative")
	if got, err := UserStateDir(); err != nil || got != home+"/.local/state/headrace" {
		t.Errorf("with a relative XDG_STATE_HOME: %q, %v", got, err)
	}
	t.Setenv("XDG_STATE_HOME", "/state")
	if got, err := UserStateDir(); err != nil || got != "/state/headrace" {
		t.Errorf("with XDG_STATE_HOME: %q, %v", got, err)
	}
	t.Setenv(StateDirEnv, "from-env")
	for _, find := range []func(string) (string, error){StateDirForDaemon, StateDirForClient} {
		if got, err := find(""); err != nil || got != filepath.Join(home, "from-env") {
			t.Errorf("with the variable: %q, %v", got, err)
		}
		if got, err := find("/flag"); err != nil || got != "/flag" {
			t.Errorf("with the flag: %q, %v", got, err)
		}
	}
	t.Setenv(StateDirEnv, "")
	t.Setenv("XDG_STATE_HOME", "")
	t.Setenv("HOME", "")
	if got, err := UserStateDir(); err == nil {
		t.Errorf("without HOME: %q", got)
	}
}
