package statedir

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// TestLockLeftBehind: a daemon waits for the lock of one that is gone, which a child of it still has, and not for one that is there.
func TestLockLeftBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	held, err := linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	name := func(pid int) {
		if err := os.WriteFile(path, fmt.Appendln(nil, pid), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name(os.Getpid())
	if f, err := Lock(dir); err == nil || !strings.Contains(err.Error(), "another daemon") {
		t.Errorf("beside a daemon: %v, %v", f, err)
	}
	name(gone.Process.Pid)
	time.AfterFunc(100*time.Millisecond, func() { held.Close() }) // the time of an exec
	f, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
