package testkit

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// ComingDisk returns a directory, and what mounts a disk there and has it gone, with or without waiting for who has files of it open. Where that cannot be done the test is
// skipped.
func ComingDisk(t testing.TB) (dir string, mount, detach func(), unmount func() error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a disk that comes and goes needs the right to mount: run it as root")
	}
	parent := t.TempDir()
	disk := filepath.Join(parent, "disk")
	dir = filepath.Join(parent, "mounted")
	for _, d := range []string{disk, dir} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=64m"); err != nil {
		t.Skip("a disk that comes and goes needs the right to mount:", err)
	}
	t.Cleanup(func() { unix.Unmount(disk, unix.MNT_DETACH) })
	mount = func() {
		t.Helper()
		if err := unix.Mount(disk, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	detach = func() {
		t.Helper()
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir, mount, detach, func() error { return unix.Unmount(dir, 0) }
}

// ReadOnly lets nobody write what is in a directory, by its name, until the function is called that it returns. Where that cannot be done the test is skipped.
func ReadOnly(t testing.TB, dir string) (end func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("a directory that cannot be written any more needs the right to mount: run it as root")
	}
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skip("a directory that cannot be written any more needs the right to mount:", err)
	}
	end = sync.OnceFunc(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	t.Cleanup(end)
	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	return end
}
