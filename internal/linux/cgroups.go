package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// CgroupDirs returns the directories of the cgroups that a process is in, by
// hierarchy: the name of a version 1 hierarchy is its controllers as the kernel
// lists them, that of version 2 is empty. Hierarchies that are not mounted here are
// left out.
func CgroupDirs(pid int) (map[string]string, error) {
	groups, err := ProcFS("").Cgroups(strconv.Itoa(pid))
	if err != nil {
		return nil, fmt.Errorf("find the cgroups of process %d: %w", pid, err)
	}
	mounts, err := ProcFS("").Mounts("self")
	if err != nil {
		return nil, fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	return cgroupDirs(groups, mounts), nil
}

// Cgroups are the paths of the cgroups that a process is in, by hierarchy, as
// CgroupDirs names them.
type Cgroups map[string]string

// Cgroups reads those of a process: a number or "self".
func (p ProcFS) Cgroups(process string) (Cgroups, error) {
	text, err := os.ReadFile(p.path(process, "cgroup"))
	return ParseCgroups(string(text)), err
}

// ParseCgroups reads the text of /proc/PID/cgroup.
func ParseCgroups(text string) Cgroups {
	groups := Cgroups{}
	for line := range strings.Lines(text) {
		// 4:memory:/a/b
		if part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3); len(part) == 3 {
			groups[part[1]] = part[2]
		}
	}
	return groups
}

// Of returns the path in the hierarchy of version 1 that has a controller, or, for an
// empty name, in version 2. It is empty if there is none.
func (c Cgroups) Of(controller string) string {
	for name, path := range c {
		if slices.Contains(strings.Split(name, ","), controller) {
			return path
		}
	}
	return ""
}

func cgroupDirs(groups Cgroups, mounts []Mount) map[string]string {
	mounted := cgroupMounts(mounts)
	dirs := map[string]string{}
	for name, path := range groups {
		m, ok := mounted[name]
		if !ok {
			continue
		}
		below, err := filepath.Rel(m.Root, path)
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue
		}
		dirs[name] = filepath.Join(m.Point, below)
	}
	return dirs
}

// cgroupMounts finds the mounts, by the name that /proc/PID/cgroup has for the
// hierarchy. A named hierarchy is called name=NAME there and in its options.
func cgroupMounts(mounts []Mount) map[string]Mount {
	found := map[string]Mount{}
	for _, m := range mounts {
		switch m.Type {
		case "cgroup2":
			found[""] = m
		case "cgroup":
			found[hierarchyName(m.Options)] = m
		}
	}
	return found
}

// hierarchyName returns the controllers among the options of a version 1 mount.
func hierarchyName(options string) string {
	var names []string
	for o := range strings.SplitSeq(options, ",") {
		switch o {
		case "rw", "ro", "xattr", "noprefix", "clone_children", "none", "cpuset_v2_mode", "all":
			continue
		}
		if strings.Contains(o, "=") && !strings.HasPrefix(o, "name=") {
			continue
		}
		names = append(names, o)
	}
	return strings.Join(names, ",")
}
