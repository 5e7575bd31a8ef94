package statedir

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// said is a log that does something when something is said.
type said struct {
	slog.Handler
	do func(message string)
}

func (s said) Handle(_ context.Context, r slog.Record) error {
	s.do(r.Message)
	return nil
}

// TestLock: a daemon waits for the lock of one that ends, says so once, and is refused if that does not end.
func TestLock(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	hold := func() *os.File {
		t.Helper()
		held, err := linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	if err := os.WriteFile(path, []byte("4711\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var held *os.File
	messages := 0
	log := func(then func()) *slog.Logger {
		return slog.New(said{slog.NewTextHandler(t.Output(), nil), func(message string) {
			if messages++; !strings.Contains(message, "waiting for its end") {
				t.Error(message)
			}
			then()
		}})
	}
	synctest.Test(t, func(t *testing.T) {
		held = hold()
		f, err := Lock(t.Context(), dir, log(func() {}))
		if err == nil || !strings.Contains(err.Error(), "another daemon (pid 4711) has the state directory") || messages != 1 {
			t.Errorf("beside a daemon that stays: %v, %v, and %d messages", f, err, messages)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if f, err := Lock(ctx, dir, log(cancel)); !errors.Is(err, context.Canceled) {
			t.Errorf("told to end meanwhile: %v, %v", f, err)
		}
		f, err = Lock(t.Context(), dir, log(func() { held.Close() }))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	})
	if pid, err := os.ReadFile(path); err != nil || string(pid) != fmt.Sprintf("%d\n", os.Getpid()) {
		t.Errorf("the lock names %q, %v", pid, err)
	}
}
