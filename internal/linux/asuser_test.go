package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAsUserRights opens files as users who may and may not, from many
// goroutines at once, while the process itself keeps its rights.
func TestAsUserRights(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	dir := t.TempDir()
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if fi, err := os.Stat(d); err == nil && fi.Mode()&0o001 == 0 && d != os.TempDir() {
			os.Chmod(d, 0o755)
		}
	}
	secret, shared, group := filepath.Join(dir, "secret"), filepath.Join(dir, "shared"), filepath.Join(dir, "group")
	for p, mode := range map[string]os.FileMode{secret: 0o600, shared: 0o644, group: 0o640} {
		if err := os.WriteFile(p, []byte("x"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(group, 0, 4321); err != nil {
		t.Fatal(err)
	}
	open := func(c Credentials, p string) error {
		return AsUser(c, func() error {
			f, err := os.Open(p)
			if err == nil {
				f.Close()
			}
			return err
		})
	}
	user, member := Credentials{UID: 12345, GID: 12345}, Credentials{UID: 12346, GID: 12346, Groups: []uint32{4321}}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				if err := open(user, secret); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("a stranger opened the owner's file: %v", err)
				}
				if err := open(user, shared); err != nil {
					t.Error(err)
				}
				if err := open(user, group); !errors.Is(err, fs.ErrPermission) {
					t.Errorf("a stranger opened the group's file: %v", err)
				}
				if err := open(member, group); err != nil {
					t.Errorf("a member of the group: %v", err)
				}
				if err := open(Credentials{}, secret); err != nil {
					t.Errorf("root: %v", err)
				}
				if f, err := os.Open(secret); err != nil {
					t.Errorf("the process lost its rights: %v", err)
				} else {
					f.Close()
				}
			}
		})
	}
	wg.Wait()
	entries, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		st, err := os.ReadFile("/proc/self/task/" + e.Name() + "/status")
		if err != nil {
			continue
		}
		if got := fsUID(string(st)); got != "0" {
			t.Errorf("thread %s keeps the identity %s", e.Name(), got)
		}
	}
}

func fsUID(status string) string {
	for line := range strings.Lines(status) {
		if f := strings.Fields(line); len(f) == 5 && f[0] == "Uid:" {
			return f[4]
		}
	}
	return "?"
}

func TestAsUserNeedsRoot(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may act as anybody")
	}
	if err := AsUser(Credentials{UID: 0}, func() error { return nil }); err == nil {
		t.Error("an ordinary user acted as root")
	}
	called := false
	if err := AsUser(Credentials{UID: uint32(unix.Geteuid())}, func() error { called = true; return nil }); err != nil || !called {
		t.Error("a user cannot act as itself", err)
	}
}
