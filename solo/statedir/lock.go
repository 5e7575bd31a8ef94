package statedir

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// lockTime is how long a daemon waits for the lock: twice as long as one that was told to end lets its operations take.
const lockTime = 10 * time.Second

// Lock makes sure that one daemon has the state directory, as long as the file is open. It waits for the lock a while,
// which it logs. The error says who has it.
func Lock(ctx context.Context, dir string, log *slog.Logger) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
	if errors.Is(err, linux.ErrLocked) {
		log.Info("another daemon has the state directory: waiting for its end", "pid", string(holder(path)), "at most", lockTime)
	}
	// One that ends may not have done so yet. One that was killed while it started a program has left the lock to a child
	// that is about to be that program.
	for late := time.Now().Add(lockTime); errors.Is(err, linux.ErrLocked) && time.Now().Before(late); {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		time.Sleep(10 * time.Millisecond)
		f, err = linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
	}
	if errors.Is(err, linux.ErrLocked) {
		return nil, fmt.Errorf("another daemon (pid %s) has the state directory %s; end it first, or choose another with --state-dir", holder(path), dir)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the state directory: %w", err)
	}
	if err = f.Truncate(0); err == nil {
		_, err = fmt.Fprintf(f, "%d\n", os.Getpid())
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the state directory %s: %w", dir, err)
	}
	return f, nil
}

// holder returns the pid of the daemon that has a lock, as that has written it.
func holder(path string) []byte {
	pid, _ := os.ReadFile(path)
	return bytes.TrimSpace(pid)
}
