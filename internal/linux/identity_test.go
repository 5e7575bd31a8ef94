package linux

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFileIdentityDiffers(t *testing.T) {
	file := FileIdentity{Dev: 8, Inode: 5, Type: unix.S_IFREG, UID: 1000, FS: unix.EXT4_SUPER_MAGIC, Handle: []byte{1, 2}, Birth: 77}
	device := FileIdentity{Dev: 6, Inode: 9, Type: unix.S_IFCHR, Rdev: unix.Mkdev(1, 3), FS: unix.TMPFS_MAGIC}
	status := FileIdentity{Dev: 4, Inode: 9, Type: unix.S_IFREG, FS: unix.PROC_SUPER_MAGIC}
	bare := FileIdentity{Dev: 8, Inode: 5, Type: unix.S_IFREG, FS: unix.NFS_SUPER_MAGIC}
	with := func(id FileIdentity, change func(*FileIdentity)) FileIdentity { change(&id); return id }
	for _, c := range []struct {
		what      string
		then, now FileIdentity
		sameBoot  bool
		want      string // empty: the same file
	}{
		{"itself", file, file, true, ""},
		{"after a reboot, with another device number", file, with(file, func(i *FileIdentity) { i.Dev = 9 }), false, ""},
		{"mounted again", file, with(file, func(i *FileIdentity) { i.Dev = 9 }), true, ""},
		{"another inode", file, with(file, func(i *FileIdentity) { i.Inode = 6 }), true, "another file is there now (inode 6, it was 5)"},
		{"the same inode number, later", file, with(file, func(i *FileIdentity) { i.Handle = []byte{1, 3} }), true, "made later"},
		{"another birth", file, with(file, func(i *FileIdentity) { i.Birth = 78 }), true, "made later"},
		{"another owner", file, with(file, func(i *FileIdentity) { i.UID = 0 }), true, "belonged to user 1000 and belongs to user 0"},
		{"a link", file, with(file, func(i *FileIdentity) { i.Type = unix.S_IFLNK }), true, "was a regular file and is a symbolic link"},
		{"another kind of file system", file, with(file, func(i *FileIdentity) { i.FS = unix.TMPFS_MAGIC }), true, "another kind"},
		{"no handle now", file, with(file, func(i *FileIdentity) { i.Handle = nil }), true, ""},
		{"no handle, another device", bare, with(bare, func(i *FileIdentity) { i.Dev = 9 }), true, "another file system"},
		{"no handle, another device after a reboot", bare, with(bare, func(i *FileIdentity) { i.Dev = 9 }), false, ""},
		{"a device, on another boot's file system", device, with(device, func(i *FileIdentity) { i.Inode, i.Dev = 80, 7 }), true, ""},
		{"another device", device, with(device, func(i *FileIdentity) { i.Rdev = unix.Mkdev(1, 5) }), true, "was device 1:3 and is device 1:5"},
		{"a file of the kernel's", status, with(status, func(i *FileIdentity) { i.Inode = 80 }), true, ""},
		{"a file in the place of one of the kernel's", status, with(status, func(i *FileIdentity) { i.FS = unix.EXT4_SUPER_MAGIC }), true, "another kind"},
	} {
		got := c.then.Differs(c.now, c.sameBoot)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	for id, want := range map[*FileIdentity]bool{&file: false, &device: false, &status: true, &bare: true} {
		if id.Weak() != want {
			t.Errorf("%+v: weak is %v", id, !want)
		}
	}
}

func identify(t *testing.T, path string) FileIdentity {
	t.Helper()
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	id, err := IdentifyFile(fd)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// A file that takes the inode number of a removed one is told from it.
func TestFileIdentityOutlivesInodeNumbers(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	seen := map[uint64]FileIdentity{}
	again := 0
	for range 50 {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		id := identify(t, path)
		if why := id.Differs(identify(t, path), true); why != "" {
			t.Fatalf("a file differs from itself: %s", why)
		}
		if before, used := seen[id.Inode]; used {
			again++
			if before.Differs(id, true) == "" {
				t.Fatalf("%+v was taken for %+v", id, before)
			}
		}
		seen[id.Inode] = id
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d of 50 files had the inode number of an earlier one", again)
}
