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
	table, err := linux.ProcFS("").Mounts("self")
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range ourMounts(table) {
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

// ourMounts finds them among all.
func ourMounts(all []linux.Mount) []mounted {
	var out []mounted
	for _, m := range all {
		if m.Type != "fuse."+fsName {
			continue
		}
		pid, start, ok := strings.Cut(strings.TrimPrefix(m.Source, fsName+"-"), "-")
		p, err1 := strconv.Atoi(pid)
		s, err2 := strconv.ParseInt(start, 10, 64)
		if ok && err1 == nil && err2 == nil {
			out = append(out, mounted{point: m.Point, pid: p, start: time.Duration(s)})
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
