package testkit

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// SilentFS mounts a file system that does not answer until fail is called, which makes it a failed one. Where that cannot be
// done the test is skipped.
func SilentFS(t testing.TB, dir string) (fail func()) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		t.Skip("a file system that does not answer needs FUSE:", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())
	if err := unix.Mount("silent", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		fuse.Close()
		t.Skip("a file system that does not answer needs the right to mount:", err)
	}
	t.Cleanup(func() {
		fuse.Close()
		unix.Unmount(dir, unix.MNT_DETACH)
	})
	return func() { fuse.Close() }
}
