package needs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

var procs linux.ProcFS

// Files are what the processes of a stopped task need at the same paths. The paths are
// absolute, as the processes see them, sorted and each named once.
type Files struct {
	// Mapped are the files that they have mapped: programs and libraries.
	Mapped []string
	// Open are the regular files, directories and FIFOs that they have open, and
	// their working and root directories.
	Open []string
	// Writing are those of Open that are open for writing, or mapped shared and
	// writable. They must go along: other
	// machines do not have what was written here.
	Writing []string
}

// Observe looks at the processes of a task; those that have ended meanwhile need
// nothing. Files that were deleted are in the images (CRIU's ghost files) and left out,
// as are those of the kernel's own file systems.
func Observe(pids []int) (Files, error) {
	sets := [3]map[string]bool{{}, {}, {}}
	for _, pid := range pids {
		if err := observe(pid, sets); err != nil && !linux.Gone(err) {
			return Files{}, fmt.Errorf("files of process %d: %w", pid, err)
		}
	}
	return Files{sorted(sets[0]), sorted(sets[1]), sorted(sets[2])}, nil
}

func sorted(set map[string]bool) []string {
	list := make([]string, 0, len(set))
	for s := range set {
		list = append(list, s)
	}
	slices.Sort(list)
	return list
}

func observe(pid int, sets [3]map[string]bool) error {
	for m, err := range procs.Maps(pid) {
		if err != nil {
			return err
		}
		if realFile(m.Path) {
			sets[0][m.Path] = true
			if m.Writable() && m.Shared() {
				sets[2][m.Path] = true
			}
		}
	}
	for _, link := range []string{"cwd", "root"} {
		p, err := os.Readlink(fmt.Sprintf("/proc/%d/%s", pid, link))
		if err != nil {
			return err
		}
		if p != "/" {
			sets[1][p] = true
		}
	}
	return observeOpen(pid, sets)
}

func observeOpen(pid int, sets [3]map[string]bool) error {
	open, err := procs.Descriptors(pid)
	if err != nil {
		return err
	}
	for _, d := range open {
		var st unix.Stat_t
		link := fmt.Sprintf("/proc/%d/fd/%d", pid, d.FD)
		if !filepath.IsAbs(d.Target) || unix.Stat(link, &st) != nil || st.Nlink == 0 || !realFile(d.Target) {
			continue
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO:
		default:
			continue
		}
		sets[1][d.Target] = true
		writing, err := procs.ForWriting(d)
		if err != nil {
			return err
		}
		if writing && st.Mode&unix.S_IFMT == unix.S_IFREG {
			sets[2][d.Target] = true
		}
	}
	return nil
}

// realFile leaves out what is not at its path: deleted, or made by the kernel.
func realFile(path string) bool {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, " (deleted)") {
		return false
	}
	for _, p := range []string{"/proc/", "/sys/", "/memfd:", "/anon_hugepage", "/SYSV", "/dev/zero", "/dev/null", "/[aio]"} {
		if strings.HasPrefix(path, p) {
			return false
		}
	}
	return true
}
