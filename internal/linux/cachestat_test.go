package linux

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCachedPages(t *testing.T) {
	if err := ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	page := int64(os.Getpagesize())
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 10*page+1)); err != nil { // dirty pages stay
		t.Fatal(err)
	}
	for _, c := range []struct{ off, length, want int64 }{
		{0, 10*page + 1, 11}, {0, 1, 1}, {page - 1, 2, 2}, {page, page, 1}, {0, 0, 0}, {page, -1, 0}, {100 * page, page, 0},
	} {
		if n, err := CachedPages(int(f.Fd()), c.off, c.length); n != c.want || err != nil {
			t.Errorf("[%d, +%d): %d, %v, want %d", c.off, c.length, n, err, c.want)
		}
	}
	fd, err := unix.Open(f.Name(), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := CachedPages(fd, 0, 1); !errors.Is(err, unix.EBADF) {
		t.Errorf("an O_PATH descriptor: %v", err)
	}
}

func TestMissingError(t *testing.T) {
	err := error(&MissingError{Feature: "cachestat(2)", Need: "Linux 6.5 or newer", Err: unix.ENOSYS})
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, unix.ENOSYS) {
		t.Errorf("%v is neither unsupported nor what the kernel said", err)
	}
}
