package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// hierarchy is one mounted cgroup hierarchy.
type hierarchy struct {
	dir         string // where it is mounted, as /proc/mounts names it
	v2          bool
	controllers []string // of a v1 hierarchy
}

// parseHierarchies reads the text of /proc/mounts.
func parseHierarchies(mounts string) []hierarchy {
	var found []hierarchy
	for line := range strings.Lines(mounts) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		switch fields[2] {
		case "cgroup":
			found = append(found, hierarchy{dir: fields[1], controllers: strings.Split(fields[3], ",")})
		case "cgroup2":
			found = append(found, hierarchy{dir: fields[1], v2: true})
		}
	}
	return found
}

// parseOwnCgroups reads the text of /proc/self/cgroup: the path of the process
// for each controller, and under "" the one in the v2 hierarchy.
func parseOwnCgroups(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || !strings.HasPrefix(parts[2], "/") {
			continue
		}
		for c := range strings.SplitSeq(parts[1], ",") {
			own[c] = parts[2]
		}
	}
	return own
}

// ownCgroup is the directory of this process's cgroup where a controller is, or
// "". For v2, controller is "" for any.
func (m machine) ownCgroup(controller string, v2 bool) string {
	mounts, _ := m.read("proc/mounts")
	text, _ := m.read("proc/self/cgroup")
	own := parseOwnCgroups(text)
	for _, h := range parseHierarchies(mounts) {
		if h.v2 != v2 || (!v2 && !slices.Contains(h.controllers, controller)) {
			continue
		}
		key := controller
		if v2 {
			key = ""
		}
		dir := m.path(filepath.Join(h.dir, own[key]))
		if _, err := os.Stat(dir); err != nil {
			dir = m.path(h.dir) // a namespace hides where the process really is
		}
		if v2 && controller != "" {
			list, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
			if err != nil || !slices.Contains(strings.Fields(string(list)), controller) {
				continue
			}
		}
		return dir
	}
	return ""
}

// tryCgroup makes a cgroup below dir, calls look with it and removes it again.
func tryCgroup(dir string, look func(dir string)) error {
	sub, err := os.MkdirTemp(dir, "headrace-doctor-")
	if err != nil {
		return err
	}
	if look != nil {
		look(sub)
	}
	return os.Remove(sub)
}

func (m machine) memoryCgroup() Finding {
	f := Finding{Name: "memory cgroup", Status: OK,
		Why: "Tasks can be held to a memory limit; the experiments need it to make memory short."}
	dir, kind := m.ownCgroup("memory", false), "v1"
	if dir == "" {
		dir, kind = m.ownCgroup("memory", true), "v2"
	}
	if dir == "" {
		f.Status, f.What = Warning, "there is no memory controller"
		f.How = "Boot with cgroup_enable=memory, or in a container mount /sys/fs/cgroup."
		return f
	}
	f.What = fmt.Sprintf("%s, writable, at %s", kind, dir)
	if err := tryCgroup(dir, nil); err != nil {
		f.Status, f.What = Warning, fmt.Sprintf("%s, not writable: %v", kind, err)
		f.How = m.cgroupHow()
	}
	return f
}

func (m machine) cgroupHow() string {
	if m.uid != 0 {
		return "Run the daemon as root, or under systemd with Delegate=yes."
	}
	return "In a container: mount /sys/fs/cgroup writable (docker run --privileged --cgroupns=host)."
}

func (m machine) freezer() Finding {
	f := Finding{Name: "freezer", Status: OK,
		Why: "Whole process trees are stopped and ended at once, also those that fork faster than signals reach them; without it, signals are sent until all have stopped."}
	var have []string
	var failure error
	if dir := m.ownCgroup("", true); dir != "" {
		failure = tryCgroup(dir, func(sub string) {
			for _, file := range []string{"cgroup.freeze", "cgroup.kill"} {
				if _, err := os.Stat(filepath.Join(sub, file)); err == nil {
					have = append(have, file)
				}
			}
		})
	}
	if dir := m.ownCgroup("freezer", false); dir != "" && len(have) == 0 {
		if failure = tryCgroup(dir, nil); failure == nil {
			have = append(have, "freezer (v1)")
		}
	}
	if len(have) > 0 {
		f.What = strings.Join(have, ", ")
		return f
	}
	f.Status, f.What, f.How = Warning, "not available", m.cgroupHow()
	if failure != nil {
		f.What = fmt.Sprintf("not writable: %v", failure)
	}
	return f
}
