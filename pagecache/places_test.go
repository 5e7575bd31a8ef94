package pagecache

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// diskDir makes a directory for files that can leave memory.
func diskDir(t testing.TB) string {
	t.Helper()
	for _, parent := range []string{os.TempDir(), "/var/tmp", "."} {
		var st unix.Statfs_t
		if err := unix.Statfs(parent, &st); err != nil || st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
			continue
		}
		dir, err := os.MkdirTemp(parent, "pagecache-test-")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	t.Skip("neither the temporary directory nor /var/tmp nor the working directory is on a disk")
	return ""
}

// A place is a file system to try.
type place struct {
	name string
	make func(t testing.TB) string
	// counted: the events of its files are seen.
	counted bool
	// slow places are tried less.
	slow bool
	// mended: whether events are seen turns out only in the end.
	mended bool
	// below is where the files are that have the pages, if it is not there.
	below func(name string) string
}

func places() []place {
	all := []place{
		{name: "disk", make: diskDir, counted: true},
		{name: "tmpfs", make: tmpfsDir},
		{name: "overlay", slow: true, make: overlayDir, below: func(name string) string { return strings.Replace(name, "/merged/", "/upper/", 1) }},
		{name: "fuse", slow: true, make: func(t testing.TB) string { return fuseDir(t, "fuse") }, counted: true},
		{name: "fuse that passes through", slow: true, make: func(t testing.TB) string { return fuseDir(t, "fuse-pass") }, mended: true,
			below: func(name string) string { return strings.Replace(name, "/seen/", "/disk/", 1) }},
		{name: "btrfs", slow: true, make: func(t testing.TB) string { return imageDir(t, "btrfs", "mkfs.btrfs", "-q") }, counted: true},
		{name: "xfs", slow: true, make: func(t testing.TB) string { return imageDir(t, "xfs", "mkfs.xfs", "-q") }, counted: true},
	}
	if testing.Short() {
		all = slices.DeleteFunc(all, func(p place) bool { return p.slow })
	}
	return all
}

// mount mounts something until the test has ended.
func mount(t testing.TB, source, dir, fstype, options string) {
	t.Helper()
	if err := unix.Mount(source, dir, fstype, 0, options); err != nil {
		t.Skipf("%s cannot be mounted: %v", fstype, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func tmpfsDir(t testing.TB) string {
	dir := t.TempDir()
	mount(t, "tmpfs", dir, "tmpfs", "size=512m")
	return dir
}

func overlayDir(t testing.TB) string {
	disk := diskDir(t)
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(disk, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	dir := filepath.Join(disk, "merged")
	mount(t, "overlay", dir, "overlay", "lowerdir="+disk+"/lower,upperdir="+disk+"/upper,workdir="+disk+"/work")
	return dir
}

// imageDir makes a file system in a file.
func imageDir(t testing.TB, fstype, mkfs string, args ...string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	image := filepath.Join(diskDir(t), "image")
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(512 << 20); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath(mkfs); err != nil {
		t.Skip(err)
	}
	if out, err := exec.Command(mkfs, append(args, image)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	dir := t.TempDir()
	// The loop device goes with the mount.
	if out, err := exec.Command("mount", "-t", fstype, "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("%s cannot be mounted: %v\n%s", fstype, err, out)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// newMethod makes a cache that is closed with the test, which is skipped where
// the method is not to be had.
func newMethod(t testing.TB, c Config) *cache {
	t.Helper()
	pc, err := newCache(c, loadCounters)
	skipMissing(t, err)
	t.Cleanup(func() {
		if err := pc.Close(); err != nil {
			t.Error(err)
		}
	})
	return pc
}

// refreshOnly is Refresh without the comparison of counters with the kernel. It
// asks for the sizes of all files or of none but those whose pages have changed.
func (c *cache) refreshOnly(t testing.TB, sizes bool) {
	t.Helper()
	c.mu.Lock()
	files := append([]*file(nil), c.list...)
	c.mu.Unlock()
	for _, f := range files {
		if err := f.refresh(sizes); err != nil {
			t.Fatal(err)
		}
	}
}

func (c *cache) mustRefresh(t testing.TB) {
	t.Helper()
	if err := c.Refresh(context.Background()); err != nil {
		t.Fatal(err)
	}
}
