package dfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/block"
	"headrace/internal/testkit"
)

// TestDiskComesBack: a node goes on without a disk that is unmounted, and has its blocks again when it is mounted, without a restart.
func TestDiskComesBack(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a disk that comes and goes needs the right to mount: run it as root")
	}
	dir := t.TempDir()
	disk, mounted := filepath.Join(dir, "disk"), filepath.Join(dir, "mounted")
	if err := errors.Join(os.Mkdir(disk, 0o700), os.Mkdir(mounted, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(disk, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Skip("a disk that comes and goes needs the right to mount:", err)
	}
	t.Cleanup(func() { unix.Unmount(mounted, unix.MNT_DETACH) })
	n := open(t, Config{Dir: filepath.Join(dir, "node"), Disks: []string{mounted}, ScrubRate: 1 << 30})
	b := write(t, n, "/a", "what is on it")
	if err := unix.Unmount(mounted, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the disk to be out", func() bool { return errors.Is(n.Blocks.Volumes()[0].Cause, block.ErrNotMounted) })
	if _, err := n.Blocks.Stat(int64(b.ID)); !errors.Is(err, block.ErrOut) {
		t.Error(err)
	}
	if n.Room().Capacity != 0 {
		t.Errorf("%+v", n.Room())
	}
	if err := unix.Mount(disk, mounted, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	testkit.Await(t, "the disk to be in use, and what it has to be read", func() bool {
		i, err := n.Blocks.Stat(int64(b.ID))
		return err == nil && !i.Suspect && !i.Damaged
	})
	if n.Room().Blocks != 1 {
		t.Errorf("%+v", n.Room())
	}
	closeNode(t, n)
}
