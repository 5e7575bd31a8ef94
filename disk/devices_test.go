package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"headrace/disk"
	"headrace/disk/disktest"
)

func id(major, minor uint32) disk.ID { return disk.ID(unix.Mkdev(major, minor)) }

func TestDevicesOfATree(t *testing.T) {
	tr := disktest.NewTree(t)
	tr.Disk("sda", id(8, 0), true)
	tr.Partition("sda/sda1", id(8, 1))
	tr.Disk("nvme0n1", id(259, 0), false)
	tr.Partition("nvme0n1/nvme0n1p2", id(259, 2))
	tr.Disk("cciss!c0d0", id(104, 0), true)
	tr.Disk("dm-0", id(253, 0), false)
	tr.Set("dm-0", "dm/name", "root")
	tr.Disk("mute", id(9, 0), false)
	tr.Set("mute", "queue/rotational", "perhaps")
	tr.Mount(20, id(8, 1), "/", "/data", "ext4", "/dev/sda1")
	tr.Mount(21, id(259, 2), "/sub", `/with\040blank`, "xfs", "/dev/nvme0n1p2")
	tr.Mount(22, id(104, 0), "/", "/old", "ext3", "/dev/cciss/c0d0")
	tr.Mount(23, id(253, 0), "/", "/", "ext4", "/dev/mapper/root")
	tr.Mount(24, id(9, 0), "/", "/mute", "ext4", "/dev/mute")
	tr.Mount(30, id(0, 40), "/", "/pool", "btrfs", "/dev/sdb")
	tr.Mount(31, id(0, 41), "/", "/merged", "overlay", "overlay")
	tr.Mount(32, id(0, 42), "/", "/remote", "fuse.sshfs", "me@host:")
	tr.Mount(33, id(0, 43), "/", "/home", "nfs4", "host:/home")
	for i, kind := range []string{"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"} {
		tr.Mount(40+i, id(0, 50+uint32(i)), "/", "/"+kind, kind, "none")
	}

	for _, c := range []struct {
		id    disk.ID
		mount int
		want  disk.Device
		note  string
	}{
		{id(8, 1), 20, disk.Device{ID: id(8, 0), Name: "sda", Mount: "/data", FSType: "ext4", Rotational: true}, ""},
		{id(8, 1), 0, disk.Device{ID: id(8, 0), Name: "sda", Mount: "/data", FSType: "ext4", Rotational: true}, ""},
		{id(259, 2), 21, disk.Device{ID: id(259, 0), Name: "nvme0n1", Mount: "/with blank", FSType: "xfs"}, ""},
		{id(104, 0), 22, disk.Device{ID: id(104, 0), Name: "cciss/c0d0", Mount: "/old", FSType: "ext3", Rotational: true}, ""},
		{id(253, 0), 23, disk.Device{ID: id(253, 0), Name: "dm-0", Mount: "/", FSType: "ext4"}, ""},
		{id(9, 0), 24, disk.Device{ID: id(9, 0), Name: "mute", Mount: "/mute", FSType: "ext4", Rotational: true}, "perhaps"},
		// Files of a btrfs volume have a number that is mounted nowhere.
		{id(0, 99), 30, disk.Device{ID: id(0, 40), Name: "0:40", Mount: "/pool", FSType: "btrfs", Rotational: true}, "/dev/sdb"},
		{id(0, 98), 31, disk.Device{ID: id(0, 41), Name: "0:41", Mount: "/merged", FSType: "overlay", Rotational: true}, "overlay does not say"},
		{id(0, 42), 32, disk.Device{ID: id(0, 42), Name: "0:42", Mount: "/remote", FSType: "fuse.sshfs", Rotational: true}, ""},
		{id(0, 43), 33, disk.Device{ID: id(0, 43), Name: "0:43", Mount: "/home", FSType: "nfs4", Rotational: true}, ""},
		{id(0, 50), 40, disk.Device{ID: id(0, 50), Name: "0:50", Mount: "/tmpfs", FSType: "tmpfs", Memory: true}, ""},
		{id(0, 51), 41, disk.Device{ID: id(0, 51), Name: "0:51", Mount: "/ramfs", FSType: "ramfs", Memory: true}, ""},
		{id(0, 52), 42, disk.Device{ID: id(0, 52), Name: "0:52", Mount: "/devtmpfs", FSType: "devtmpfs", Memory: true}, ""},
		{id(0, 53), 43, disk.Device{ID: id(0, 53), Name: "0:53", Mount: "/hugetlbfs", FSType: "hugetlbfs", Memory: true}, ""},
		// Not in the table: of another mount namespace, or unmounted lazily.
		{id(8, 0), 77, disk.Device{ID: id(8, 0), Name: "sda", Rotational: true}, "not mounted here"},
		{id(0, 97), 78, disk.Device{ID: id(0, 97), Name: "0:97", Rotational: true}, "not mounted here"},
	} {
		got, mounted := tr.Devices().At(c.id, c.mount)
		if strings.Contains(got.Note, c.note) && (got.Note == "") == (c.note == "") {
			c.want.Note = got.Note
		}
		if got != c.want || mounted != (got.Mount != "") {
			t.Errorf("device %v, mount %d:\n%+v, want\n%+v with a note of %q", c.id, c.mount, got, c.want, c.note)
		}
		if n := got.Extent(); got.Rotational != (n == 32<<20) || n < 8<<20 {
			t.Errorf("%s: extent of %d bytes", got.Name, n)
		}
	}
}

// A loop device seeks if the device of its file does, through other loop devices
// as well; one that is its own backing does no harm.
func TestLoopsAreLookedThrough(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil {
		t.Fatal(err)
	}
	for _, seeks := range []bool{true, false} {
		tr := disktest.NewTree(t)
		tr.Disk("below", disk.ID(st.Dev), seeks)
		tr.Disk("loop0", id(7, 0), !seeks)
		tr.Set("loop0", "loop/backing_file", file)
		if d, _ := tr.Devices().At(id(7, 0), 0); d.Rotational != seeks || d.Name != "loop0" || d.ID != id(7, 0) {
			t.Errorf("on a disk with %v: %+v", seeks, d)
		}
		tr.Disk("loop1", id(7, 1), seeks)
		tr.Set("loop1", "loop/backing_file", filepath.Join(dir, "gone (deleted)"))
		if d, _ := tr.Devices().At(id(7, 1), 0); d.Rotational != seeks || !strings.Contains(d.Note, "gone") {
			t.Errorf("with a file that is gone: %+v", d)
		}
	}
	for path, seeks := range map[string]bool{"/dev/shm": false, "/proc/version": true} {
		tr := disktest.NewTree(t)
		tr.Disk("loop0", id(7, 0), !seeks)
		tr.Set("loop0", "loop/backing_file", path)
		if d, _ := tr.Devices().At(id(7, 0), 0); d.Rotational != seeks {
			t.Errorf("on %s, which is not on a disk: %+v", path, d)
		}
	}
	tr := disktest.NewTree(t)
	tr.Disk("loop0", disk.ID(st.Dev), true)
	tr.Set("loop0", "loop/backing_file", file)
	if d, _ := tr.Devices().At(disk.ID(st.Dev), 0); !d.Rotational {
		t.Errorf("a loop device on itself: %+v", d)
	}
}

func TestDevicesWithoutSysfs(t *testing.T) {
	none := disk.Devices{Sys: t.TempDir(), Proc: t.TempDir()}
	for range 2 {
		d, mounted := none.At(id(8, 1), 1)
		if d.ID != id(8, 1) || d.Name != "8:1" || !d.Rotational || mounted || !strings.Contains(d.Note, "dev/block") {
			t.Errorf("%+v, %v", d, mounted)
		}
	}
	tr := disktest.NewTree(t)
	tr.Partition("sda/sda1", id(8, 1)) // of a disk without a number
	if d, _ := tr.Devices().At(id(8, 1), 1); d.ID != id(8, 1) || !strings.Contains(d.Note, "partition") {
		t.Errorf("%+v", d)
	}
	tr.Set("sda", "dev", "eight")
	if d, _ := tr.Devices().At(id(8, 1), 1); d.ID != id(8, 1) || !strings.Contains(d.Note, "eight") {
		t.Errorf("%+v", d)
	}
}

// create makes a file of some bytes and opens it.
func create(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	return f
}

// open opens what is there.
func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func of(t *testing.T, d *disk.Devices, f *os.File) disk.Device {
	t.Helper()
	dev, err := d.Of(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: %+v", f.Name(), dev)
	return dev
}

// The device of a file agrees with what /sys/block says.
func TestOwnDevice(t *testing.T) {
	var d disk.Devices
	f := create(t, filepath.Join(t.TempDir(), "file"))
	dev := of(t, &d, f)
	if again := of(t, &d, f); again != dev {
		t.Errorf("%+v became %+v", dev, again)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if dev.Mount == "" || dev.FSType == "" {
		t.Errorf("no mount: %+v", dev)
	}
	number, err := os.ReadFile(filepath.Join("/sys/block", strings.ReplaceAll(dev.Name, "/", "!"), "dev"))
	if err == nil && strings.TrimSpace(string(number)) != dev.ID.String() {
		t.Errorf("%s has the number %s, not %v", dev.Name, number, dev.ID)
	}
	if err != nil && dev.Name != dev.ID.String() {
		t.Errorf("%s is not in /sys/block: %v", dev.Name, err)
	}
	f.Close()
	if _, err := d.Of(f); !errors.Is(err, os.ErrClosed) || !strings.Contains(err.Error(), f.Name()) {
		t.Errorf("a closed file: %v", err)
	}
}

func TestMemoryFiles(t *testing.T) {
	var d disk.Devices
	fd, err := unix.MemfdCreate("disk-test", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), "memfd")
	defer f.Close()
	if dev := of(t, &d, f); !dev.Memory || dev.FSType != "tmpfs" || dev.Rotational || dev.Note != "" {
		t.Errorf("memfd: %+v", dev)
	}
	var st unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &st); err != nil || st.Type != unix.TMPFS_MAGIC {
		t.Skip("/dev/shm is not a tmpfs")
	}
	if dev := of(t, &d, open(t, "/dev/shm")); !dev.Memory || dev.FSType != "tmpfs" || dev.Mount != "/dev/shm" {
		t.Errorf("/dev/shm: %+v", dev)
	}
}

func TestLoopDevice(t *testing.T) {
	var d disk.Devices
	dir, node := disktest.Ext4(t, 8<<20)
	below := of(t, &d, open(t, t.TempDir()))
	var st unix.Stat_t
	if err := unix.Fstat(int(node.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	want := disk.Device{ID: disk.ID(st.Rdev), Name: filepath.Base(node.Name()), Rotational: below.Rotational}
	if got := of(t, &d, node); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	want.Mount, want.FSType = dir, "ext4"
	if got := of(t, &d, create(t, filepath.Join(dir, "file"))); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestPartition(t *testing.T) {
	node := disktest.Loop(t, disktest.Image(t, t.TempDir(), 4<<20))
	addPartition(t, node, 1<<20, 2<<20)
	part, err := os.Open(node.Name() + "p1")
	if err != nil {
		t.Skipf("/dev shows no partitions: %v", err)
	}
	defer part.Close()
	var d disk.Devices
	if whole, got := of(t, &d, node), of(t, &d, part); got != whole {
		t.Errorf("the partition is on %+v, the disk is %+v", got, whole)
	}
}

// addPartition makes the bytes [off, off+length) of a disk its first partition,
// without a table on it.
func addPartition(t *testing.T, node *os.File, off, length int64) {
	t.Helper()
	p := unix.BlkpgPartition{Start: off, Length: length, Pno: 1}
	arg := unix.BlkpgIoctlArg{Op: unix.BLKPG_ADD_PARTITION, Datalen: int32(unsafe.Sizeof(p)), Data: (*byte)(unsafe.Pointer(&p))}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, node.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		t.Skipf("no partition: %v", errno)
	}
	t.Cleanup(func() {
		arg.Op = unix.BLKPG_DEL_PARTITION
		unix.Syscall(unix.SYS_IOCTL, node.Fd(), unix.BLKPG, uintptr(unsafe.Pointer(&arg)))
	})
}

func TestDisks(t *testing.T) {
	tr := disktest.NewTree(t)
	tr.Disk("sdb", id(8, 16), false)
	tr.Disk("sda", id(8, 0), true)
	tr.Partition("sda/sda1", id(8, 1))
	tr.Partition("sda/sda2", id(8, 2))
	tr.Disk("loop0", id(7, 0), false)
	tr.Set("loop0", "size", "0")
	tr.Mount(20, id(0, 3), "/", "/proc", "proc", "proc")
	tr.Mount(21, id(8, 2), "/", "/", "ext4", "/dev/sda2")
	tr.Mount(22, id(8, 1), "/", "/boot", "vfat", "/dev/sda1")
	got, err := tr.Devices().Disks()
	want := []disk.Device{
		{ID: id(8, 0), Name: "sda", Mount: "/", FSType: "ext4", Rotational: true},
		{ID: id(8, 16), Name: "sdb"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	none := disk.Devices{Sys: t.TempDir()}
	if got, err := none.Disks(); err == nil {
		t.Errorf("without sysfs: %+v", got)
	}
	var here disk.Devices
	all, err := here.Disks()
	if err != nil {
		t.Fatal(err)
	}
	dev := of(t, &here, open(t, "/"))
	found := slices.ContainsFunc(all, func(d disk.Device) bool { return d.ID == dev.ID && d.Rotational == dev.Rotational })
	if block := dev.Name != dev.ID.String(); block != found {
		t.Errorf("the root is on %+v; the disks are %+v", dev, all)
	}
}

// Files of an overlay may have numbers of other devices. They are all on the
// overlay.
func TestOverlay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	lower, other := t.TempDir(), disktest.Mount(t, "none", "tmpfs", "")
	create(t, filepath.Join(lower, "low")).Close()
	create(t, filepath.Join(other, "middle")).Close()
	dir := disktest.Mount(t, "overlay", "overlay", "xino=off,lowerdir="+lower+":"+other)
	var d disk.Devices
	root := of(t, &d, open(t, dir))
	if root.FSType != "overlay" || root.Mount != dir || root.Note == "" {
		t.Errorf("%+v", root)
	}
	for _, name := range []string{"low", "middle"} {
		if got := of(t, &d, open(t, filepath.Join(dir, name))); got != root {
			t.Errorf("%s is on %+v, want %+v", name, got, root)
		}
	}
}

// What is remembered is forgotten when the mounts change.
func TestMountsThatChange(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	var d disk.Devices
	parent := disktest.Mount(t, "none", "tmpfs", "")
	if err := unix.Mount("", parent, "", unix.MS_PRIVATE, ""); err != nil {
		t.Skipf("a private mount: %v", err)
	}
	from, to := filepath.Join(parent, "from"), filepath.Join(parent, "to")
	for _, dir := range []string{from, to} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("none", from, "tmpfs", 0, ""); err != nil {
		t.Skipf("mount tmpfs: %v", err)
	}
	defer unix.Unmount(from, unix.MNT_DETACH)
	f := create(t, filepath.Join(from, "file"))
	before := of(t, &d, f)
	if err := unix.Mount(from, to, "", unix.MS_MOVE, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(to, unix.MNT_DETACH)
	after := of(t, &d, f)
	if before.Mount != from || after.Mount != to || before.ID != after.ID {
		t.Errorf("moved from %+v to %+v", before, after)
	}
	if err := unix.Unmount(to, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if got := of(t, &d, f); got.Mount != "" || got.ID != before.ID || !got.Memory || got.FSType != "tmpfs" {
		t.Errorf("not mounted any more: %+v", got)
	}
}

// A file in memory can be passed off as one on a disk.
func TestFakeDevices(t *testing.T) {
	f := open(t, "/dev/shm")
	for _, seeks := range []bool{true, false} {
		d := disktest.Devices(t, "/dev/shm", seeks)
		if dev := of(t, d, f); dev.Name != "test" || dev.Memory || dev.Rotational != seeks {
			t.Errorf("%+v", dev)
		}
	}
}

func BenchmarkOf(b *testing.B) {
	var d disk.Devices
	f, err := os.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		if _, err := d.Of(f); err != nil {
			b.Fatal(err)
		}
	}
}
