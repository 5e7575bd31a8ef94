package statedir

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Lock makes sure that one daemon has the state directory, as long as the file is open. It waits a moment for the lock
// of a daemon that is gone. The error says who has it.
func Lock(dir string) (*os.File, error) {
	path := filepath.Join(dir, "lock")
	f, err := linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
	// A daemon that was killed while it started a program has left it to a child that is about to be that program.
	for late := time.Now().Add(lockTime); errors.Is(err, linux.ErrLocked) && leftBehind(path) && time.Now().Before(late); {
		time.Sleep(10 * time.Millisecond)
		f, err = linux.LockFile(path, os.O_CREATE, unix.LOCK_EX)
	}
	if errors.Is(err, linux.ErrLocked) {
		pid, _ := os.ReadFile(path)
		return nil, fmt.Errorf("another daemon (pid %s) has the state directory %s; end it first, or choose another with --state-dir",
			bytes.TrimSpace(pid), dir)
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

// lockTime is how long a lock may outlive the daemon that had it.
const lockTime = 5 * time.Second

// leftBehind reports whether the daemon that a lock names is gone.
func leftBehind(path string) bool {
	text, err := os.ReadFile(path)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	return err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
