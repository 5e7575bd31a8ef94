package shim

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// deletedBytes returns how much a stopped tree holds in files that have no name any more:
// CRIU puts their contents into the image itself.
func deletedBytes(tree []linux.Stat) (total int64, err error) {
	counted := make(map[linux.FileID]bool)
	for _, p := range tree {
		links, err := deletedOf(p.PID)
		if err != nil && !linux.Gone(err) {
			return 0, err
		}
		for _, link := range links {
			var st unix.Stat_t
			if unix.Stat(link, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 0 {
				continue
			}
			if id := linux.FileIDOf(&st); !counted[id] {
				counted[id] = true
				total += st.Blocks * 512
			}
		}
	}
	return total, nil
}

// deletedOf returns links to what a process has open or mapped that was deleted.
func deletedOf(pid int) (links []string, err error) {
	open, err := procs.Descriptors(pid)
	if err != nil {
		return nil, err
	}
	for _, d := range open {
		if deletedFile(d.Target) {
			links = append(links, fmt.Sprintf("/proc/%d/fd/%d", pid, d.FD))
		}
	}
	type file struct {
		dev   string
		inode uint64
	}
	listed := make(map[file]bool)
	for m, err := range procs.Maps(pid) {
		if err != nil {
			return nil, err
		}
		if is := (file{m.Dev, m.Inode}); deletedFile(m.Path) && !listed[is] {
			listed[is] = true
			links = append(links, procs.Mapped(pid, m))
		}
	}
	return links, nil
}

// deletedFile tells from a path as the kernel shows it whether a file was deleted. Memory
// that only looks like one comes through the page server.
func deletedFile(path string) bool {
	return strings.HasSuffix(path, " (deleted)") && !strings.HasPrefix(path, "/memfd:") && !strings.HasPrefix(path, "/SYSV") && !strings.HasPrefix(path, "/dev/zero ")
}
