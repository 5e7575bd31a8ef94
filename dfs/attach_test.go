package dfs

import (
	"errors"
	"testing"

	"headrace/block"
	"headrace/internal/testkit"
)

// TestDiskComesBack: a node goes on without a disk that is unmounted, and has its blocks again when it is mounted, without a restart.
func TestDiskComesBack(t *testing.T) {
	mounted, mount, detach, _ := testkit.ComingDisk(t)
	mount()
	n := open(t, Config{Dir: t.TempDir(), Disks: []string{mounted}, ScrubRate: 1 << 30})
	b := write(t, n, "/a", "what is on it")
	detach()
	testkit.Await(t, "the disk to be out", func() bool { return errors.Is(n.Blocks.Volumes()[0].Cause, block.ErrNotMounted) })
	if _, err := n.Blocks.Stat(int64(b.ID)); !errors.Is(err, block.ErrOut) {
		t.Error(err)
	}
	if n.Room().Capacity != 0 {
		t.Errorf("%+v", n.Room())
	}
	mount()
	testkit.Await(t, "the disk to be in use, and what it has to be read", func() bool {
		i, err := n.Blocks.Stat(int64(b.ID))
		return err == nil && !i.Suspect && !i.Damaged
	})
	if n.Room().Blocks != 1 {
		t.Errorf("%+v", n.Room())
	}
	closeNode(t, n)
}
