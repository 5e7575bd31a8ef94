package linux

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLockFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if f, err := LockFile(path, 0, unix.LOCK_EX); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file that is not there: %v, %v", f, err)
	}
	for _, c := range []struct {
		first, second int
		want          error
	}{
		{unix.LOCK_EX, unix.LOCK_EX, ErrLocked}, {unix.LOCK_EX, unix.LOCK_SH, ErrLocked},
		{unix.LOCK_SH, unix.LOCK_EX, ErrLocked}, {unix.LOCK_SH, unix.LOCK_SH, nil},
	} {
		first, err := LockFile(path, os.O_CREATE, c.first)
		if err != nil {
			t.Fatal(err)
		}
		second, err := LockFile(path, os.O_CREATE, c.second)
		if !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("%d after %d: %v, want %v", c.second, c.first, err, c.want)
		}
		second.Close()
		first.Close()
	}
}
