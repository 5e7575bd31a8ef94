package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"headrace/internal/linux/cgroup"
)

// ownCgroup returns the directory of this process's cgroup where a controller is, or
// "". For v2, controller is "" for any.
func (m machine) ownCgroup(controller string, v2 bool) string {
	mounts, _ := m.procfs().Mounts("self")
	own, _ := m.procfs().Cgroups("self")
	key := controller
	if v2 {
		key = ""
	}
	for _, h := range mounts {
		if !h.HasCgroups(key) {
			continue
		}
		dir := m.path(filepath.Join(h.Point, own.Of(key)))
		if _, err := os.Stat(dir); err != nil {
			dir = m.path(h.Point) // a namespace hides where the process really is
		}
		if v2 && controller != "" && !cgroup.HasController(dir, controller) {
			continue
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

// ofTasks are the controllers of tasks' cgroups, what version 1 calls them, the files of
// which a new group must have one, and what is not so without.
var ofTasks = []struct {
	name, v1 string
	files    []string
	without  string
}{
	{"memory", "memory", nil, "--memory is no limit"},
	{"cpu", "cpu", nil, "--cpus is no share"},
	{"pids", "pids", nil, "--pids is no limit"},
	{"io", "blkio", []string{"blkio.bfq.weight", "blkio.weight"}, "--io-weight is no share"},
	{"freezer", "freezer", nil, "a suspended task that its user continues runs until it is stopped again"},
}

func (m machine) taskCgroups() Finding {
	f := Finding{Name: "cgroups of tasks", Status: OK,
		Why: "Each task has a cgroup of its own with what controllers there are: for its limits and shares, what it uses in ps, and to keep it suspended."}
	var have, lack []string
	for _, c := range ofTasks {
		version := m.controllerOfTasks(c.name, c.v1, c.files)
		if version != "" {
			have = append(have, c.name+" "+version)
			continue
		}
		lack = append(lack, fmt.Sprintf("no %s (%s)", c.name, c.without))
		if c.name != "io" { // which many kernels do not have
			f.Status, f.How = Warning, m.cgroupHow()
		}
	}
	f.What = strings.Join(append(have, lack...), ", ")
	return f
}

// controllerOfTasks returns the version in which groups below this process's own can
// have a controller: v1, v2 or "". Nothing is delegated for it, so that of version 2
// only the lists are looked at.
func (m machine) controllerOfTasks(name, v1 string, files []string) string {
	if name == "freezer" {
		if v2 := m.ownCgroup("", true); v2 != "" && groupHas(v2, []string{"cgroup.freeze"}) {
			return "v2"
		}
	}
	if dir := m.ownCgroup(v1, false); dir != "" && groupHas(dir, files) {
		return "v1"
	}
	dir := m.ownCgroup(name, true)
	if dir == "" || !groupHas(dir, nil) || !delegates(dir, name) && !delegates(cgroup.Top(dir), name) || name == "io" && !weighsIO(dir) {
		return ""
	}
	return "v2"
}

// delegates reports whether groups of version 2 below dir have a controller or can get
// it: but for the very root, only a group without processes gives it to others.
func delegates(dir, controller string) bool {
	given, _ := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if slices.Contains(strings.Fields(string(given)), controller) {
		return true
	}
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); err != nil {
		return true // the very root
	}
	members, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	return err == nil && len(strings.TrimSpace(string(members))) == 0
}

// groupHas reports whether a group can be made below dir, and has one of the files, if
// any are named.
func groupHas(dir string, files []string) bool {
	has := len(files) == 0
	err := tryCgroup(dir, func(sub string) {
		for _, file := range files {
			if _, err := os.Stat(filepath.Join(sub, file)); err == nil {
				has = true
			}
		}
	})
	return err == nil && has
}

// weighsIO reports whether groups of version 2 in or below dir have an I/O weight. That
// shows where some have the controller already; elsewhere it is taken to be so.
func weighsIO(dir string) bool {
	for _, pattern := range []string{"io*.weight", "*/io*.weight"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			return true
		}
	}
	inUse, _ := filepath.Glob(filepath.Join(dir, "*", "io.stat"))
	return len(inUse) == 0
}
