package reopen

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/testkit"
)

// What the kernel shows to whoever is asked for by its opener does not come back opened by root.
func TestFilesOfTheKernelForAnotherUser(t *testing.T) {
	const r, w = unix.R_OK, unix.W_OK
	for _, c := range []struct {
		name   string
		fs     int64
		access uint32
		own    bool
		want   bool
	}{
		{"/sys/fs/cgroup/user.slice/x/cgroup.procs", unix.CGROUP2_SUPER_MAGIC, w, false, true},
		{"/sys/fs/cgroup/user.slice/x/cgroup.procs", unix.CGROUP2_SUPER_MAGIC, r | w, false, true},
		{"/sys/fs/cgroup/user.slice/x/cpu.max", unix.CGROUP2_SUPER_MAGIC, r, false, false},
		{"/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", unix.CGROUP_SUPER_MAGIC, r, false, false},
		{"/sys/fs/cgroup/cpu/x/tasks", unix.CGROUP_SUPER_MAGIC, w, false, true},
		{"/proc/kallsyms", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/kallsyms", unix.PROC_SUPER_MAGIC, 0, false, false},
		{"/proc/modules", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/iomem", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/meminfo", unix.PROC_SUPER_MAGIC, r, false, false},
		{"/proc/sys/kernel/hostname", unix.PROC_SUPER_MAGIC, r, false, false},
		{"/proc/sys/kernel/hostname", unix.PROC_SUPER_MAGIC, w, false, true},
		{"/proc/pressure/memory", unix.PROC_SUPER_MAGIC, r | w, false, true},
		{"/home/alice/proc/meminfo", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/1/maps", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/1001/maps", unix.PROC_SUPER_MAGIC, r, true, false},
		{"/proc/1001/comm", unix.PROC_SUPER_MAGIC, r | w, true, false},
		{"/proc/1001/pagemap", unix.PROC_SUPER_MAGIC, r, true, true},
		{"/proc/1001/task/1002/stack", unix.PROC_SUPER_MAGIC, r, true, true},
		{"/sys/devices/system/cpu/online", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/devices/pci0000:00/0000:00:00.0/config", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/module/ext4/sections/.text", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/module/ext4/parameters/x", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/module/ext4/parameters/x", unix.SYSFS_MAGIC, w, false, true},
		{"/sys/module/ext4/parameters/x/config", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/statistics/rx_bytes", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/devices/pci0000:00/0000:00:03.0/virtio0/net/eth0/device/config", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/devices/pci0000:00/0000:00:03.0/rom", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/stat", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/devices/pci0000:00/0000:00:04.0/virtio1/block/vda/vda1/stat", unix.SYSFS_MAGIC, r, false, false},
		{"/sys/devices/pci0000:00/0000:00:04.0/block/config", unix.SYSFS_MAGIC, r, false, true},
		{"/sys/devices/platform/coretemp.0/hwmon/hwmon1/temp1_input", unix.SYSFS_MAGIC, r, false, false},
		{"/proc/locks", unix.PROC_SUPER_MAGIC, r, false, false},
		{"/proc/sysvipc/shm", unix.PROC_SUPER_MAGIC, r, false, false},
		{"/proc/keys", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/ioports", unix.PROC_SUPER_MAGIC, r, false, true},
		{"/proc/1001/uid_map", unix.PROC_SUPER_MAGIC, r, true, false},
		{"/proc/1001/uid_map", unix.PROC_SUPER_MAGIC, r | w, true, true},
		{"/proc/1001/setgroups", unix.PROC_SUPER_MAGIC, w, true, true},
		{"/sys/kernel/tracing/trace", unix.TRACEFS_MAGIC, r, false, true},
		{"/sys/fs/bpf/x", unix.BPF_FS_MAGIC, r, false, true},
		{"/home/alice/kallsyms", unix.EXT4_SUPER_MAGIC, r | w, false, false},
	} {
		id := linux.FileIdentity{FS: c.fs, Type: unix.S_IFREG}
		if got := moreToRoot(id, c.name, c.access, c.own); got != c.want {
			t.Errorf("%s (access %d): %v", c.name, c.access, got)
		}
		id.Type = unix.S_IFDIR
		if moreToRoot(id, c.name, c.access, c.own) {
			t.Errorf("a directory, %s, is more to root", c.name)
		}
	}
	dump := newDump(t)
	dump.path(1, "/proc/kallsyms", 0, 3)
	shown := dump.finish()
	rec := &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, "/proc/kallsyms")}}
	if err := Rehearse(shown.Path(), Options{User: alice, InitPID: testInit, Record: rec, SameBoot: true}); !errors.Is(err, ErrMoreToRoot) {
		t.Errorf("another user's: %v", err)
	}
	if err := Rehearse(shown.Path(), Options{InitPID: testInit, Record: rec, SameBoot: true}); err != nil {
		t.Errorf("root's own: %v", err)
	}
}

// What the server of a file does not let root open could never be restored: the rehearsal says so.
func TestServerThatRefusesRoot(t *testing.T) {
	path, squash := testkit.SquashedFile(t)
	dump := newDump(t)
	dump.path(1, path, unix.O_RDWR|unix.O_APPEND, 3)
	shown := dump.finish()
	o := Options{User: alice, InitPID: testInit, Record: &Record{Files: map[uint64]linux.FileIdentity{1: identify(t, path)}}, SameBoot: true}
	before := testkit.Descriptors(t)
	if err := Rehearse(shown.Path(), o); err != nil {
		t.Errorf("while root may open it: %v", err)
	}
	squash()
	if err := linux.AsUser(alice, func() error {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err == nil {
			err = f.Close()
		}
		return err
	}); err != nil {
		t.Fatal("the user may not open it either:", err)
	}
	if err := Rehearse(shown.Path(), o); err == nil || !strings.Contains(err.Error(), path+", which the task had open: a restore opens it as root") {
		t.Errorf("when root may not open it: %v", err)
	}
	if after := testkit.Descriptors(t); after != before {
		t.Errorf("%d descriptors were left open", after-before)
	}
	dump = newDump(t)
	dump.path(1, path, unix.O_PATH, 3)
	if err := Rehearse(dump.finish().Path(), o); err != nil {
		t.Errorf("that has only its name: %v", err)
	}
}
