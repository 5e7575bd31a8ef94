package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"headrace/internal/linux/cgroup"
)

// MemoryGroup makes a cgroup that may hold so many bytes of memory, page cache
// included. The removal of the scratch removes it.
func (s *Scratch) MemoryGroup(limit int64) (string, error) {
	root, err := cgroup.MemoryRoot()
	if err != nil {
		return "", fmt.Errorf("limit memory: %w", err)
	}
	group := filepath.Join(root, filepath.Base(s.Dir)+"-memory")
	if err := makeGroup(group); err != nil {
		return "", err
	}
	if err := cgroup.LimitMemory(group, limit); err != nil {
		return "", fmt.Errorf("limit the memory of a cgroup to %d bytes: %w", limit, err)
	}
	return group, nil
}

// enterGroup is cmd as it starts inside a cgroup of either version.
func enterGroup(group string, cmd *exec.Cmd) *exec.Cmd {
	if group == "" {
		return cmd
	}
	return exec.Command("/bin/sh", append([]string{"-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, group}, cmd.Args...)...)
}
