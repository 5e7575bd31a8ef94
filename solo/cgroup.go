package solo

import (
	"bufio"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// memoryGroup is a memory cgroup for all tasks of one daemon, with the memory
// budget as its hard limit. It stays while tasks are in it and is found again by
// the next daemon on the same state directory.
type memoryGroup struct {
	dir string
	v2  bool
}

// openMemoryGroup makes the cgroup and sets the limit, in bytes.
func openMemoryGroup(stateDir string, limit int64) (*memoryGroup, error) {
	root, v2, err := findMemoryHierarchy("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	h := fnv.New32a()
	h.Write([]byte(stateDir))
	g := &memoryGroup{dir: filepath.Join(root, fmt.Sprintf("headrace-%08x", h.Sum32())), v2: v2}
	if v2 {
		err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0)
		if err != nil {
			return nil, fmt.Errorf("enforce the memory budget: switch on the memory controller: %w", err)
		}
	}
	if err := os.Mkdir(g.dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("enforce the memory budget: %w; run the daemon as root or without --enforce-memory", err)
	}
	file := "memory.limit_in_bytes"
	if v2 {
		file = "memory.max"
	}
	if err := os.WriteFile(filepath.Join(g.dir, file), []byte(strconv.FormatInt(limit, 10)), 0); err != nil {
		return nil, errors.Join(fmt.Errorf("enforce the memory budget: %w", err), g.close())
	}
	return g, nil
}

// close removes the cgroup if no task is in it.
func (g *memoryGroup) close() error {
	procs, err := os.ReadFile(filepath.Join(g.dir, "cgroup.procs"))
	if err != nil || len(procs) > 0 {
		return err
	}
	if err := os.Remove(g.dir); err != nil {
		return fmt.Errorf("remove the memory cgroup: %w", err)
	}
	return nil
}

// findMemoryHierarchy finds where the memory controller is mounted.
func findMemoryHierarchy(mountinfo string) (root string, v2 bool, err error) {
	f, err := os.Open(mountinfo)
	if err != nil {
		return "", false, fmt.Errorf("find the memory cgroups: %w", err)
	}
	defer f.Close()
	unified := ""
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		before, after, ok := strings.Cut(lines.Text(), " - ")
		mount, kind := strings.Fields(before), strings.Fields(after)
		if !ok || len(mount) < 5 || len(kind) < 3 {
			continue
		}
		switch {
		case kind[0] == "cgroup" && hasWord(kind[2], "memory"):
			return mount[4], false, nil
		case kind[0] == "cgroup2":
			unified = mount[4]
		}
	}
	if err := lines.Err(); err != nil {
		return "", false, fmt.Errorf("find the memory cgroups: %w", err)
	}
	if unified != "" {
		controllers, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
		if err == nil && hasWord(strings.ReplaceAll(strings.TrimSpace(string(controllers)), " ", ","), "memory") {
			return unified, true, nil
		}
	}
	return "", false, errors.New("the memory budget cannot be enforced: this machine has no memory cgroups; leave out --enforce-memory")
}

func hasWord(list, word string) bool {
	for _, w := range strings.Split(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}
