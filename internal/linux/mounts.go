package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Mount is one line of /proc/PID/mountinfo.
type Mount struct {
	ID           int    // as in statx(2)
	Dev          uint64 // as in stat(2)
	Root, Point  string // the directory of the file system that is seen, and where
	Type, Source string
	Options      string // of the file system, not of the mount
}

// Mounts lists what a process has mounted, the oldest first. The process is a
// number, "self" or "thread-self".
func (p ProcFS) Mounts(process string) ([]Mount, error) {
	text, err := os.ReadFile(p.path(process, "mountinfo"))
	return ParseMounts(string(text)), err
}

// ParseMounts reads the text of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
// Lines that make no sense are left out.
func ParseMounts(text string) []Mount {
	var all []Mount
	for line := range strings.Lines(text) {
		if m, ok := parseMount(line); ok {
			all = append(all, m)
		}
	}
	return all
}

func parseMount(line string) (Mount, bool) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), " ") // other blanks are written as they are
	// id parent major:minor root point options [optional ...] - type source super
	dash := 6
	for dash < len(f) && f[dash] != "-" {
		dash++
	}
	if len(f) < dash+3 {
		return Mount{}, false
	}
	id, err := strconv.Atoi(f[0])
	dev, good := ParseDev(f[2])
	if err != nil || id < 0 || !good {
		return Mount{}, false
	}
	return Mount{ID: id, Dev: dev, Root: Unescape(f[3]), Point: Unescape(f[4]), Type: Unescape(f[dash+1]),
		Source: Unescape(f[dash+2]), Options: Unescape(strings.Join(f[dash+3:], " "))}, true
}

// Mounted names the file system of an open file as it is mounted now: once it has been unmounted, it has another name for as long as the machine runs, also when the same one
// is mounted again. The same one may have several names. "": the kernel does not tell (before Linux 6.8, but for ext4, XFS and F2FS).
func Mounted(fd int) string {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID_UNIQUE, &x); err != nil {
		return ""
	}
	// Mounts are those of a namespace, and a service may have one of its own each time that it is started. Of these kinds there is a directory for each that is mounted anywhere,
	// and sysfs gives no inode number twice.
	if device, err := os.Readlink("/sys/dev/block/" + DeviceName(unix.Mkdev(x.Dev_major, x.Dev_minor))); err == nil {
		for _, kind := range []string{"ext4", "xfs", "f2fs"} {
			var d unix.Stat_t
			if unix.Stat(filepath.Join("/sys/fs", kind, filepath.Base(device)), &d) == nil {
				return fmt.Sprintf("%s %d", kind, d.Ino)
			}
		}
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return ""
	}
	return fmt.Sprintf("mount %d", x.Mnt_id)
}

// ParseDev reads a device's number as the kernel writes it: "254:0".
func ParseDev(s string) (uint64, bool) {
	before, after, ok := strings.Cut(s, ":")
	major, err1 := strconv.ParseUint(before, 10, 32)
	minor, err2 := strconv.ParseUint(after, 10, 32)
	if !ok || err1 != nil || err2 != nil {
		return 0, false
	}
	return unix.Mkdev(uint32(major), uint32(minor)), true
}

// Unescape puts back what the kernel writes as a backslash and three octal
// digits: blanks, tabs, newlines, backslashes and number signs.
func Unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// HasCgroups reports whether cgroups of version 1 with a controller, or with all of
// a hierarchy as Cgroups names it, are mounted there; for an empty name, those of
// version 2.
func (m Mount) HasCgroups(controller string) bool {
	if controller == "" {
		return m.Type == "cgroup2"
	}
	return m.Type == "cgroup" && strings.Contains(","+m.Options+",", ","+controller+",")
}

// MountedIn lists where something is mounted below a directory, the newest first.
func (p ProcFS) MountedIn(process, dir string) ([]string, error) {
	mounts, err := p.Mounts(process)
	var points []string
	for _, m := range slices.Backward(mounts) {
		if strings.HasPrefix(m.Point, dir+"/") {
			points = append(points, m.Point)
		}
	}
	return points, err
}
