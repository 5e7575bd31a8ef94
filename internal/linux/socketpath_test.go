package linux

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSocketPath(t *testing.T) {
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for n := 100; n <= 120; n++ {
		// A path of just n bytes.
		sub := filepath.Join(dir, strings.Repeat("d", n-len(dir)-len("//s")))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(sub, "s")
		if len(path) != n {
			t.Fatalf("%s has %d bytes, want %d", path, len(path), n)
		}
		short, release, err := SocketPath(path)
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", short)
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if _, err := os.Stat(path); err != nil {
			t.Errorf("%d bytes: the socket is elsewhere: %v", n, err)
		}
		l.Close()
		release()
	}
	if _, _, err := SocketPath(filepath.Join(dir, "none", strings.Repeat("x", 200))); !os.IsNotExist(err) {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// Whoever may go through a directory, but not read it, reaches a socket in it by a
// long path too.
func TestSocketPathOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sub := filepath.Join(dir, strings.Repeat("d", 120))
	if err := errors.Join(os.Mkdir(sub, 0o711), os.Chmod(dir, 0o711)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(sub, "s")
	short, release, err := SocketPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	l, err := net.Listen("unix", short)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	err = AsUser(Credentials{UID: 12345, GID: 12345}, func() error {
		short, release, err := SocketPath(path)
		if err != nil {
			return err
		}
		defer release()
		conn, err := net.Dial("unix", short)
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		t.Error(err)
	}
}
