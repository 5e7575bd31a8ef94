package shim

import (
	"bufio"
	"fmt"
	"os"
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
			if id := (linux.FileID{Dev: uint64(st.Dev), Ino: st.Ino}); !counted[id] {
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
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	listed := make(map[string]bool) // device and inode
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		// from-to rights offset device inode path
		fields := strings.Fields(sc.Text())
		if len(fields) < 6 || listed[fields[3]+" "+fields[4]] || !deletedFile(strings.Join(fields[5:], " ")) {
			continue
		}
		listed[fields[3]+" "+fields[4]] = true
		from, to, _ := strings.Cut(fields[0], "-")
		links = append(links, fmt.Sprintf("/proc/%d/map_files/%s-%s", pid, strings.TrimLeft(from, "0"), strings.TrimLeft(to, "0")))
	}
	return links, sc.Err()
}

// deletedFile tells from a path as the kernel shows it whether a file was deleted. Memory
// that only looks like one comes through the page server.
func deletedFile(path string) bool {
	return strings.HasSuffix(path, " (deleted)") && !strings.HasPrefix(path, "/memfd:") && !strings.HasPrefix(path, "/SYSV") && !strings.HasPrefix(path, "/dev/zero ")
}
