package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CgroupDirs are the directories of the cgroups that a process is in, by
// hierarchy: the name of a version 1 hierarchy is its controllers as the kernel
// lists them, that of version 2 is empty. Hierarchies that are not mounted here are
// left out.
func CgroupDirs(pid int) (map[string]string, error) {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("find the cgroups of process %d: %w", pid, err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("find where cgroups are mounted: %w", err)
	}
	return cgroupDirs(string(groups), string(mounts)), nil
}

// cgroupMount is a hierarchy's place in the file system: root is the cgroup that
// is seen there.
type cgroupMount struct{ root, dir string }

func cgroupDirs(groups, mountinfo string) map[string]string {
	mounts := cgroupMounts(mountinfo)
	dirs := map[string]string{}
	for line := range strings.Lines(groups) {
		// 4:memory:/a/b
		part := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(part) != 3 {
			continue
		}
		m, ok := mounts[part[1]]
		if !ok {
			continue
		}
		below, err := filepath.Rel(m.root, part[2])
		if err != nil || below == ".." || strings.HasPrefix(below, "../") {
			continue
		}
		dirs[part[1]] = filepath.Join(m.dir, below)
	}
	return dirs
}

// cgroupMounts finds the mounts, by the name that /proc/PID/cgroup has for the
// hierarchy. A named hierarchy is called name=NAME there and in its options.
func cgroupMounts(mountinfo string) map[string]cgroupMount {
	mounts := map[string]cgroupMount{}
	for line := range strings.Lines(mountinfo) {
		before, after, ok := strings.Cut(line, " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(kind) < 3 {
			continue
		}
		m := cgroupMount{root: unescapeMount(mount[3]), dir: unescapeMount(mount[4])}
		switch kind[0] {
		case "cgroup2":
			mounts[""] = m
		case "cgroup":
			mounts[hierarchyName(kind[2])] = m
		}
	}
	return mounts
}

// hierarchyName is the controllers among the options of a version 1 mount.
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
