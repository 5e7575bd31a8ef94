package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// memoryGroup makes a cgroup that may hold so many bytes of memory, page cache
// included. The removal of the scratch removes it.
func (s *scratch) memoryGroup(limit int64) (string, error) {
	root, file, err := memoryHierarchy()
	if err != nil {
		return "", err
	}
	group := filepath.Join(root, filepath.Base(s.dir)+"-memory")
	if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make a memory cgroup: %w", err)
	}
	if err := writeFile(filepath.Join(group, file), strconv.FormatInt(limit, 10)); err != nil {
		return "", fmt.Errorf("limit the memory of a cgroup to %d bytes: %w", limit, err)
	}
	return group, nil
}

// memoryHierarchy is where memory cgroups are made and the file with the limit of
// each.
func memoryHierarchy() (root, limit string, err error) {
	for _, root := range cgroupMounts("memory") {
		return root, "memory.limit_in_bytes", nil
	}
	for _, root := range cgroupMounts("") {
		if !hasController(root, "memory") {
			continue
		}
		err := writeFile(filepath.Join(root, "cgroup.subtree_control"), "+memory")
		return root, "memory.max", err
	}
	return "", "", errors.New("limit memory: the kernel has the memory controller mounted neither as cgroup version 1 nor 2")
}

// dropMemoryGroups removes the memory cgroup that was made for dir. Its processes
// have ended.
func dropMemoryGroups(dir string) error {
	var errs []error
	for _, root := range append(cgroupMounts("memory"), cgroupMounts("")...) {
		if group := filepath.Join(root, filepath.Base(dir)+"-memory"); isDir(group) {
			errs = append(errs, removeGroup(group))
		}
	}
	return errors.Join(errs...)
}

// enterGroup is cmd as it starts inside a cgroup of either version.
func enterGroup(group string, cmd *exec.Cmd) *exec.Cmd {
	if group == "" {
		return cmd
	}
	return exec.Command("/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group}, cmd.Args...)...)
}
