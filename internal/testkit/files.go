package testkit

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// OpenDir makes a directory that everybody may look into, until the test ends.
func OpenDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "hr-data-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// File makes a file of that many bytes that is on the disk and in memory.
func File(t testing.TB, dir, name string, size int, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, mode)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		t.Fatal(err)
	}
	return path
}

// ColdFile does as File, and takes the file out of memory.
func ColdFile(t testing.TB, dir, name string, size int, mode os.FileMode) string {
	t.Helper()
	path := File(t, dir, name, size, mode)
	DropFile(t, path)
	return path
}

// DropFile takes a file out of memory.
func DropFile(t testing.TB, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		t.Fatal(err)
	}
}
