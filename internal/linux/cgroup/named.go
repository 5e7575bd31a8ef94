package cgroup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"time"
)

// MemoryRoot returns the directory in which groups that limit memory can be made, at
// the top of the hierarchy of either version.
func MemoryRoot() (string, error) {
	for _, root := range Roots("memory") {
		return root, nil
	}
	for _, root := range Roots("") {
		if HasController(root, "memory") {
			return root, delegate(root, []string{"memory"})
		}
	}
	return "", errors.New("the kernel has the memory controller mounted neither as cgroup version 1 nor 2")
}

// RemoveNamed removes the groups at the top of the hierarchies for memory and processor
// time whose names begin with prefix, with those inside them. Their processes have ended.
func RemoveNamed(prefix string) error {
	var problems []error
	for _, root := range slices.Concat(Roots("memory"), Roots("cpuacct"), Roots("")) {
		groups, err := filepath.Glob(filepath.Join(root, prefix+"*"))
		problems = append(problems, err)
		for _, g := range groups {
			problems = append(problems, removeAll(g))
		}
	}
	return errors.Join(problems...)
}

// removeAll removes a group and those inside it, from the leaves.
func removeAll(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	slices.Reverse(dirs)
	problems := []error{err}
	for _, d := range dirs {
		problems = append(problems, RemoveDir(d, 5*time.Second))
	}
	return errors.Join(problems...)
}
