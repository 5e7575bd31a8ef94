package reopen

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// ErrMoreToRoot: a file of the kernel's is open that another user than root had opened, and root would open for a restore.
var ErrMoreToRoot = errors.New("the kernel lets whoever has such a file do what its opener may, and a restore would open it as root")

// HasMoreToRoot reports whether a process of a tree that stands still has something open that Rehearse would refuse with
// ErrMoreToRoot, as far as that is seen without images.
func HasMoreToRoot(d linux.Descriptor, of []linux.Stat) (bool, error) {
	if !strings.HasPrefix(d.Target, "/proc/") && !strings.HasPrefix(d.Target, "/sys/") {
		return false, nil
	}
	fields, err := linux.ProcFS("").FDInfo(d)
	if err != nil {
		return false, err
	}
	flags, err := strconv.ParseUint(fields["flags"], 8, 64)
	if err != nil {
		return false, fmt.Errorf("descriptor %d of process %d: %w", d.FD, d.PID, err)
	}
	id, err := identifyPath(fmt.Sprintf("/proc/%d/fd/%d", d.PID, d.FD))
	if linux.Gone(err) { // who can open it again will show
		return false, nil
	}
	if err != nil {
		return false, err
	}
	t := &tree{threads: map[int]int{}}
	for _, p := range of {
		t.threads[p.PID] = p.PID
	}
	own := t.ofTask(&path{name: d.Target, remap: -1})
	if _, _, numbered := processOf(d.Target); numbered && !own {
		return false, nil // a thread's, or none of the task
	}
	return moreToRoot(id, d.Target, access(flags), own), nil
}

// moreToRoot reports whether a file would be more to a task if root had opened it, and not its user: the kernel asks of some of its own
// files who has opened them, when they are read or written or once at open, and not who reads or writes. It does not say of
// which, so that only those pass that are known to show the same to everybody, and none that is open for writing. What is of the task's
// own processes below /proc (own) is theirs, but for what is hidden from them too.
//
// access is of unix.R_OK, W_OK and X_OK those that the opener needed; 0: as with O_PATH, it can only be opened again.
func moreToRoot(id linux.FileIdentity, name string, access uint32, own bool) bool {
	switch {
	case !id.OfKernel() || id.Type == unix.S_IFDIR || access == 0:
		return false
	case own:
		base := filepath.Base(name)
		return slices.Contains(hiddenOfOwn, base) || access&unix.W_OK != 0 && slices.Contains(mapsOfOwn, base)
	}
	return access&unix.W_OK != 0 || !sameForAll(id.FS, name)
}

// hiddenOfOwn are files of a process that show more of the kernel, and of where memory is, to what root has opened.
var hiddenOfOwn = []string{"pagemap", "stack", "seccomp_cache"}

// mapsOfOwn are files of a process by which whoever has opened them gives a user namespace users that are his.
var mapsOfOwn = []string{"uid_map", "gid_map", "projid_map", "setgroups"}

// sameForAll reports whether a file of the kernel's shows the same whoever has opened it: such as programs keep open to ask again.
// Others have addresses of the kernel (kallsyms, modules, iomem), what devices do not tell everybody, or keys.
func sameForAll(fs int64, name string) bool {
	switch fs {
	case unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return true
	case unix.PROC_SUPER_MAGIC:
		rest, ok := strings.CutPrefix(name, "/proc/")
		return ok && (slices.Contains(procForAll, rest) || slices.ContainsFunc(procDirsForAll, func(dir string) bool { return strings.HasPrefix(rest, dir) }))
	case unix.SYSFS_MAGIC:
		return slices.ContainsFunc(sysForAll, func(dir string) bool { return strings.HasPrefix(name, dir) }) || sysOfDevices.MatchString(name)
	}
	return false
}

var (
	procForAll = []string{
		"bootconfig", "buddyinfo", "cgroups", "cmdline", "config.gz", "consoles", "cpuinfo", "crypto", "devices", "diskstats", "dma",
		"execdomains", "fb", "filesystems", "interrupts", "loadavg", "locks", "mdstat", "meminfo", "misc", "partitions", "schedstat",
		"softirqs", "stat", "swaps", "tty/drivers", "tty/ldiscs", "uptime", "version", "version_signature", "vmstat", "zoneinfo",
	}
	procDirsForAll = []string{"sys/", "pressure/", "sysvipc/"}
	sysForAll      = []string{"/sys/devices/system/", "/sys/devices/virtual/", "/sys/kernel/mm/"}
	// sysOfDevices are attributes of other devices, and parameters of modules, that the kernel writes as text: that does
	// not know of who has opened the file, as the space of a device (config, resource0, rom) or the places of sections do.
	sysOfDevices = regexp.MustCompile(`^/sys/devices/.*/(net/[^/]+/(statistics/[^/]+|address|carrier|duplex|flags|ifindex|mtu|operstate|speed|tx_queue_len|type)|` +
		`block/[^/]+/([^/]+/)?(inflight|size|stat)|block/[^/]+/queue/[^/]+|hwmon/hwmon[0-9]+/[a-z]+[0-9]+_[a-z_]+|power_supply/[^/]+/[a-z_]+)$|` +
		`^/sys/module/[^/]+/parameters/[^/]+$`)
)

// openAsRoot opens, as CRIU will, what is on file systems whose server says who may open it: on many it is the user, and
// not root (NFS with root_squash, Kerberos). Nothing is read or written.
func (h *Opened) openAsRoot(o Options) error {
	for i, p := range h.paths {
		if !o.remote(p) {
			continue
		}
		err := tryOpen(fmt.Sprintf("/proc/self/fd/%d", h.files[i]), p.opening())
		if err != nil && err != unix.EAGAIN { // somebody has a lease on it, for which CRIU waits
			return refuse(p.name, fmt.Sprintf("a restore opens it as root, to whom its server says: %v", err),
				"let root have it (on NFS no_root_squash), or let the task keep it on another file system")
		}
	}
	return nil
}

func tryOpen(path string, flags int) error {
	for {
		fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err == nil {
			return unix.Close(fd)
		}
		if err != unix.EINTR {
			return err
		}
	}
}

// remote reports whether a server says who may open what the task has there.
func (o Options) remote(p *path) bool {
	then := o.Record.Files[p.id]
	return linux.Remote(then.FS) && (then.Type == unix.S_IFREG || then.Type == unix.S_IFDIR) && p.access() != 0
}

// opening returns with which access CRIU opens it.
func (p *path) opening() int {
	switch p.access() & (unix.R_OK | unix.W_OK) {
	case unix.R_OK | unix.W_OK:
		return unix.O_RDWR
	case unix.W_OK:
		return unix.O_WRONLY
	}
	return unix.O_RDONLY
}
