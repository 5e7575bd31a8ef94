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

// Both ways agree about files that both can see.
func TestMappedPages(t *testing.T) {
	if err := ProbeCachestat(); err != nil {
		t.Skip(err)
	}
	page := int64(os.Getpagesize())
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := 2*mapPiece + 3*page + 5
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, off := range []int64{0, page, mapPiece - 1, 2 * mapPiece, size - 1} {
		if _, err := f.WriteAt([]byte("xx")[:min(2, size-off)], off); err != nil {
			t.Fatal(err)
		}
		for _, r := range [][2]int64{{0, size}, {0, 1 << 62}, {off, 1}, {page, mapPiece}, {mapPiece, mapPiece}, {size, 1}, {1 << 40, 1}, {0, 0}} {
			want, err := CachedPages(int(f.Fd()), r[0], r[1])
			if err != nil {
				t.Fatal(err)
			}
			if n, err := MappedPages(int(f.Fd()), r[0], r[1]); n != want || err != nil {
				t.Errorf("%d bytes at %d: %d, %v, want %d", r[1], r[0], n, err, want)
			}
		}
	}
}

// A sparse file may be so large that it would take hours to look for its pages.
func TestMappedPagesOfHugeFiles(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		size, off, length int64
		want              error
	}{
		{mapHoles, 0, 1 << 62, nil},
		{mapHoles + 1, 0, 1 << 62, unix.EFBIG},
		{1 << 42, 0, 1 << 62, unix.EFBIG},
		{1 << 42, 1 << 41, mapPiece, nil},
		{1 << 42, 1<<42 - 5, 1 << 62, nil},
		{1 << 42, 1 << 43, 1 << 62, nil},
	} {
		if err := f.Truncate(c.size); err != nil {
			t.Skip(err)
		}
		if n, err := MappedPages(int(f.Fd()), c.off, c.length); n != 0 || !errors.Is(err, c.want) {
			t.Errorf("%+v: %d, %v", c, n, err)
		}
	}
}

// A user who may not know is not told that all is in memory.
func TestMappedPagesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can take the place of another user")
	}
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/f", []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(dir + "/f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := MappedPages(int(f.Fd()), 0, 4); n != 1 || err != nil {
		t.Errorf("root: %d, %v", n, err)
	}
	err = AsUser(Credentials{UID: 65534, GID: 65534}, func() error {
		n, err := MappedPages(int(f.Fd()), 0, 4)
		if err == nil {
			t.Errorf("another user is told of %d pages", n)
		}
		return err
	})
	if !errors.Is(err, unix.EPERM) {
		t.Error(err)
	}
}

func TestMissingError(t *testing.T) {
	err := error(&MissingError{Feature: "cachestat(2)", Need: "Linux 6.5 or newer", Err: unix.ENOSYS})
	if !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, unix.ENOSYS) {
		t.Errorf("%v is neither unsupported nor what the kernel said", err)
	}
}
