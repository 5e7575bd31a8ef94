package slowdisk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// Sweep unmounts the modelled disks whose server is gone, and removes the
// directories that Start had made for them. All of them are tried.
func Sweep() error {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range ourMounts(string(table)) {
		if m.alive() {
			continue
		}
		errs = append(errs, detach(m.point), removeMountDir(m.point))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what a modelled disk has left: %w", err)
	}
	return nil
}

// removeMountDir removes a directory that Start had made to mount a disk at.
func removeMountDir(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), fsName+"-") {
		return nil
	}
	if err := os.Remove(dir); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// detach unmounts a place, also when it is in use. It is no error if nothing is
// mounted there.
func detach(point string) error {
	err := unix.Unmount(point, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmount %s: %w", point, err)
	}
	return nil
}

// A mounted is one of our mounts, with its server.
type mounted struct {
	point string
	pid   int
	start time.Duration // after boot
}

// ourMounts finds them in the text of /proc/self/mountinfo.
func ourMounts(table string) []mounted {
	var out []mounted
	for line := range strings.Lines(table) {
		left, right, _ := strings.Cut(line, " - ")
		where, what := strings.Fields(left), strings.Fields(right)
		if len(where) < 5 || len(what) < 2 || what[0] != "fuse."+fsName {
			continue
		}
		pid, start, ok := strings.Cut(strings.TrimPrefix(what[1], fsName+"-"), "-")
		p, err1 := strconv.Atoi(pid)
		s, err2 := strconv.ParseInt(start, 10, 64)
		if ok && err1 == nil && err2 == nil {
			out = append(out, mounted{point: unescape(where[4]), pid: p, start: time.Duration(s)})
		}
	}
	return out
}

// alive reports whether the server runs. A file of a mount without one must not be
// touched to find out: it may take for ever.
func (m mounted) alive() bool {
	st, err := linux.ProcFS("").Stat(m.pid)
	return err == nil && st.Start == m.start && !linux.Dead(st.State)
}

// unescape puts back blanks and the like, which the kernel writes as a backslash
// and three octal digits.
func unescape(s string) string {
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
