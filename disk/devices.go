package disk

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Devices finds devices. The zero value works; it remembers what it found until
// something is mounted or unmounted. It must not be copied once it is used. Its
// methods may be called from any goroutine.
type Devices struct {
	// Sys and Proc are where sysfs and procfs are; empty means /sys and /proc.
	Sys, Proc string

	mu     sync.Mutex
	watch  *os.File       // the mount table, to be told when it changes
	mounts []linux.Mount  // nil: to be read
	found  map[int]Device // by the id of the mount
	// changes counts how often found was forgotten.
	changes int
}

// Of returns the device that f is on; for a block device, that device itself. It is no
// error when little is known of a device: Device.Note tells.
func (d *Devices) Of(f *os.File) (Device, error) {
	st, err := statx(f)
	if err != nil {
		return Device{}, &os.PathError{Op: "find the device of", Path: f.Name(), Err: err}
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return d.numbered(ID(unix.Mkdev(st.Rdev_major, st.Rdev_minor))), nil
	}
	mount := 0
	if st.Mask&unix.STATX_MNT_ID != 0 {
		mount = int(st.Mnt_id)
	}
	dev, mounted := d.at(ID(unix.Mkdev(st.Dev_major, st.Dev_minor)), mount)
	if !mounted {
		// Memory files of the kernel's own (memfd) are mounted nowhere.
		if kind := memoryFile(f); kind != "" {
			dev.FSType, dev.Memory, dev.Rotational, dev.Note = kind, true, false, ""
		}
	}
	return dev, nil
}

// at returns the device of a file with the given number of its device and, unless the
// kernel does not say, the id of its mount.
func (d *Devices) at(id ID, mount int) (dev Device, mounted bool) {
	known, mounts, changes := d.lookup(mount)
	if known.Name != "" {
		return known, true
	}
	m, exact, ok := mountOf(mounts, mount, id)
	if !ok {
		dev = d.numbered(id)
		dev.Note = cmp.Or(dev.Note, "on a file system that is not mounted here")
		return dev, false
	}
	dev = d.mounted(m)
	// Without its mount the number may come to mean another device unnoticed.
	if exact {
		d.remember(mount, dev, changes)
	}
	return dev, true
}

// mountOf finds the mount with the given id, otherwise the last one of the
// device, a whole file system rather than a part of it. exact tells which.
func mountOf(all []linux.Mount, id int, dev ID) (m linux.Mount, exact, ok bool) {
	for _, c := range all {
		switch {
		case id > 0 && c.ID == id:
			return c, true, true
		case ID(c.Dev) == dev && (!ok || c.Root == "/" || m.Root != "/"):
			m, ok = c, true
		}
	}
	return m, false, ok
}

// Disks lists the whole disks of this machine by their number, each with one of
// the file systems on it if any is mounted. Those without a medium are left out
// (a loop device without a file), and so is what is not a block device.
func (d *Devices) Disks() ([]Device, error) {
	sys := sysfs(cmp.Or(d.Sys, "/sys"))
	blocks, err := sys.all()
	if err != nil {
		return nil, fmt.Errorf("list the disks: %w", err)
	}
	_, mounts, _ := d.lookup(0)
	on := map[ID]linux.Mount{}
	for _, m := range mounts {
		b, err := sys.whole(ID(m.Dev))
		if _, ok := on[b.id]; err == nil && !ok {
			on[b.id] = m
		}
	}
	var all []Device
	for _, b := range blocks {
		dev := d.numbered(b.id)
		dev.Mount, dev.FSType = on[b.id].Point, on[b.id].Type
		all = append(all, dev)
	}
	return all, nil
}

// statx asks for what is known without asking a server.
func statx(f *os.File) (st unix.Statx_t, err error) {
	cerr := control(f, func(fd int) {
		err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
	})
	return st, cmp.Or(cerr, err)
}

// memoryFile returns the type of f's file system if it is in memory, else empty.
func memoryFile(f *os.File) (kind string) {
	control(f, func(fd int) {
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) == nil {
			kind = memoryType(int64(st.Type))
		}
	})
	return kind
}

// control calls do with the descriptor of f, which stays open meanwhile. The only
// error is os.ErrClosed.
func control(f *os.File, do func(fd int)) error {
	conn, err := f.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { do(int(fd)) })
	}
	if err != nil {
		return os.ErrClosed
	}
	return nil
}

// mounted returns the device of a mounted file system. Its number is not always the
// one that its files have: in btrfs and overlay there are several.
func (d *Devices) mounted(m linux.Mount) Device {
	id := ID(m.Dev)
	dev := Device{ID: id, Name: id.String(), Memory: true}
	switch m.Type {
	case "tmpfs", "ramfs", "devtmpfs", "hugetlbfs":
	default:
		dev = d.numbered(id)
		dev.Note = cmp.Or(dev.Note, anonymousNote(m))
	}
	dev.Mount, dev.FSType = m.Point, m.Type
	return dev
}

// anonymousNote says what is not known about a file system without a block
// device.
func anonymousNote(m linux.Mount) string {
	switch m.Type {
	case "btrfs":
		return fmt.Sprintf("btrfs does not say which disks a file is on (one of them: %s)", m.Source)
	case "overlay":
		return "overlay does not say which file system a file is on"
	}
	return ""
}

// numbered tells about the device of a number, without a file system.
func (d *Devices) numbered(id ID) Device {
	sys := sysfs(cmp.Or(d.Sys, "/sys"))
	b, err := sys.whole(id)
	if err != nil {
		dev := Device{ID: id, Name: id.String(), Rotational: true}
		if !errors.Is(err, errNoBlock) {
			dev.Note = err.Error()
		}
		return dev
	}
	dev := Device{ID: b.id, Name: b.name}
	dev.Rotational, dev.Note = sys.rotational(b, 0)
	return dev
}

// lookup returns the device if it is remembered, else the mounts.
func (d *Devices) lookup(mount int) (Device, []linux.Mount, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Once would do, but for a table that changes while it is read.
	for range 3 {
		if d.changed() {
			d.found, d.mounts = map[int]Device{}, nil
			d.changes++
		}
		if d.mounts != nil {
			break
		}
		d.mounts, _ = linux.ProcFS(d.Proc).Mounts("self") // what is missing then is in the note
	}
	return d.found[mount], d.mounts, d.changes
}

// changed reports whether the mount table has changed since the last call. The
// kernel marks that on a descriptor of it as an error to be polled for (proc(5)).
func (d *Devices) changed() bool {
	if d.watch == nil {
		// Not by os.Open: the runtime would poll it too, and take the mark away.
		fd, err := unix.Open(filepath.Join(cmp.Or(d.Proc, "/proc"), "self/mountinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			d.watch = os.NewFile(uintptr(fd), "mountinfo")
		}
		return true
	}
	yes := true
	control(d.watch, func(fd int) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLPRI}}
		n, err := unix.Poll(p, 0)
		yes = err != nil || n > 0 && p[0].Revents&(unix.POLLPRI|unix.POLLERR) != 0
	})
	return yes
}

// remember keeps what was found, unless the mounts have changed meanwhile.
func (d *Devices) remember(mount int, dev Device, changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if changes == d.changes {
		d.found[mount] = dev
	}
}
