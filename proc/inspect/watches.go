package inspect

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// inode names a file as fdinfo does, with the kernel's own form of the device.
type inode struct{ dev, ino uint64 }

// deletedFile returns a deleted file that is open and watched with inotify, if
// there is one. CRIU makes such a file anew, and cannot watch the new one: the
// watch is silent then, or the restore fails.
func deletedFile(open []linux.Descriptor) (*Loss, error) {
	var watched map[inode]bool
	for _, d := range open {
		if !strings.HasSuffix(d.Target, " (deleted)") {
			continue
		}
		if watched == nil {
			var err error
			if watched, err = watches(open); err != nil {
				return nil, err
			}
		}
		if len(watched) == 0 {
			return nil, nil
		}
		var st unix.Stat_t
		if err := unix.Stat(fmt.Sprintf("/proc/%d/fd/%d", d.PID, d.FD), &st); err != nil {
			return nil, err
		}
		if watched[inode{kernelDev(uint64(st.Dev)), st.Ino}] {
			return &Loss{Has: fmt.Sprintf("an inotify watch on a file that is deleted, %s", strings.TrimSuffix(d.Target, " (deleted)"))}, nil
		}
	}
	return nil, nil
}

func kernelDev(dev uint64) uint64 { return uint64(unix.Major(dev))<<20 | uint64(unix.Minor(dev)) }

// watches returns the files that the inotify descriptors among these watch.
func watches(open []linux.Descriptor) (map[inode]bool, error) {
	set := make(map[inode]bool)
	for _, d := range open {
		if !d.Is("inotify") {
			continue
		}
		f, err := os.Open(fmt.Sprintf("/proc/%d/fdinfo/%d", d.PID, d.FD))
		if err != nil {
			return nil, err
		}
		for sc := bufio.NewScanner(f); sc.Scan(); {
			var wd, ino, dev uint64
			if n, _ := fmt.Sscanf(sc.Text(), "inotify wd:%x ino:%x sdev:%x", &wd, &ino, &dev); n == 3 {
				set[inode{dev, ino}] = true
			}
		}
		f.Close()
	}
	return set, nil
}
