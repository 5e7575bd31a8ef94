package disktest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/disk"
)

// Tree is a sysfs and a mount table of the test's own.
type Tree struct {
	t         testing.TB
	sys, proc string
}

// NewTree returns one without devices and mounts.
func NewTree(t testing.TB) *Tree {
	t.Helper()
	dir := t.TempDir()
	tree := &Tree{t: t, sys: filepath.Join(dir, "sys"), proc: filepath.Join(dir, "proc")}
	tree.must(os.MkdirAll(filepath.Join(tree.sys, "dev/block"), 0o755))
	tree.write(filepath.Join(tree.proc, "self/mountinfo"), "")
	return tree
}

func (tr *Tree) must(err error) {
	tr.t.Helper()
	if err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *Tree) write(path, text string) {
	tr.t.Helper()
	tr.must(os.MkdirAll(filepath.Dir(path), 0o755))
	tr.must(os.WriteFile(path, []byte(text), 0o644))
}

// Set writes a file of a device or partition, as "queue/rotational".
func (tr *Tree) Set(device, file, text string) {
	tr.t.Helper()
	tr.write(filepath.Join(tr.sys, "devices", device, file), text+"\n")
}

// Disk adds a disk that says of itself that it seeks, or not.
func (tr *Tree) Disk(name string, id disk.ID, rotational bool) {
	tr.t.Helper()
	says := "0"
	if rotational {
		says = "1"
	}
	tr.Set(name, "queue/rotational", says)
	tr.Set(name, "size", "2048")
	tr.number(name, id)
}

// Partition adds a partition; its name is that of the disk, a slash and its own.
func (tr *Tree) Partition(name string, id disk.ID) {
	tr.t.Helper()
	tr.Set(name, "partition", "1")
	tr.number(name, id)
}

func (tr *Tree) number(name string, id disk.ID) {
	tr.t.Helper()
	tr.Set(name, "dev", id.String())
	tr.must(os.Symlink(filepath.Join("../../devices", name), filepath.Join(tr.sys, "dev/block", id.String())))
}

// Mount adds a line of the mount table, with blanks escaped by the caller.
func (tr *Tree) Mount(mount int, id disk.ID, root, point, fsType, source string) {
	tr.t.Helper()
	f, err := os.OpenFile(filepath.Join(tr.proc, "self/mountinfo"), os.O_APPEND|os.O_WRONLY, 0)
	tr.must(err)
	_, err = fmt.Fprintf(f, "%d 1 %v %s %s rw,relatime - %s %s rw\n", mount, id, root, point, fsType, source)
	tr.must(err)
	tr.must(f.Close())
}

// Devices finds the devices of the tree, and no others.
func (tr *Tree) Devices() *disk.Devices { return &disk.Devices{Sys: tr.sys, Proc: tr.proc} }

// Devices returns Devices for which the file system of dir is on a disk called
// "test", also where it is in memory.
func Devices(t testing.TB, dir string, rotational bool) *disk.Devices {
	t.Helper()
	tr := NewTree(t)
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		t.Fatal(&os.PathError{Op: "stat", Path: dir, Err: err})
	}
	id := disk.ID(st.Dev)
	tr.Disk("test", id, rotational)
	tr.Mount(1<<30, id, "/", dir, "ext4", "/dev/test")
	return tr.Devices()
}

// Sys returns the directory of the sysfs.
func (tr *Tree) Sys() string { return tr.sys }
