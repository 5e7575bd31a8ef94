package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"headrace/internal/linux/cgroup"
)

// cgroups are the places where a block device can be slowed down; empty where the
// machine has none.
type cgroups struct {
	blkio   string // version 1: the root of the hierarchy with blkio
	unified string // version 2: the root, when it has the io controller
}

func findCgroups() cgroups {
	var c cgroups
	for _, root := range cgroup.Roots("blkio") {
		c.blkio = root
	}
	for _, root := range cgroup.Roots("") {
		if cgroup.HasController(root, "io") {
			c.unified = root
		}
	}
	return c
}

// throttleFiles of version 1 take "MAJ:MIN BYTES"; 0 bytes lifts the limit.
var throttleFiles = []string{"blkio.throttle.write_bps_device", "blkio.throttle.read_bps_device"}

// Throttle limits what a device reads and writes per second. With cgroup version
// 1 the limit is set on the root, where it also holds for buffered writes, and
// concerns everybody; group is empty. With version 2 it concerns the cgroup group,
// which is made for it: whoever is to feel it must be started there.
func (s *Scratch) Throttle(d *device, bytesPerSecond int64) (group string, err error) {
	c := findCgroups()
	switch {
	case c.blkio != "":
		for _, f := range throttleFiles {
			if err := cgroup.Write(filepath.Join(c.blkio, f), fmt.Sprintf("%s %d", d, bytesPerSecond)); err != nil {
				return "", fmt.Errorf("throttle device %s: %w", d, err)
			}
		}
		return "", nil
	case c.unified != "":
		group = filepath.Join(c.unified, filepath.Base(s.Dir)+"-"+filepath.Base(d.Dir))
		err := errors.Join(
			cgroup.Write(filepath.Join(c.unified, "cgroup.subtree_control"), "+io +memory"),
			os.Mkdir(group, 0o755),
			cgroup.Write(filepath.Join(group, "io.max"), fmt.Sprintf("%s rbps=%d wbps=%d", d, bytesPerSecond, bytesPerSecond)))
		if err != nil {
			return "", fmt.Errorf("throttle device %s: %w", d, err)
		}
		return group, nil
	}
	return "", errors.New("throttle storage: the kernel has neither the blkio (version 1) nor the io (version 2) cgroup controller mounted")
}

// liftThrottle removes the limits of version 1 on a device MAJ:MIN. A limit would
// outlive the loop device and hold for the next one with its number.
func liftThrottle(number string) error {
	c := findCgroups()
	if c.blkio == "" {
		return nil
	}
	var errs []error
	for _, f := range throttleFiles {
		path := filepath.Join(c.blkio, f)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\n"+string(text), "\n"+number+" ") {
			continue
		}
		errs = append(errs, cgroup.Write(path, number+" 0"))
	}
	return errors.Join(errs...)
}

// dropGroups removes the cgroups that were made for dir: their names begin with its own.
// Their processes have ended.
func dropGroups(dir string) error { return cgroup.RemoveNamed(filepath.Base(dir) + "-") }

// removeGroup waits for the kernel, which takes a moment to notice that the last
// process of a cgroup is gone.
func removeGroup(dir string) error { return cgroup.RemoveDir(dir, 5*time.Second) }

// inGroup makes a process start in a cgroup of version 2. The returned function
// must be called once the process has been started.
func inGroup(attr *syscall.SysProcAttr, group string) (func(), error) {
	if group == "" {
		return func() {}, nil
	}
	dir, err := os.Open(group)
	if err != nil {
		return nil, fmt.Errorf("start in cgroup %s: %w", group, err)
	}
	attr.UseCgroupFD, attr.CgroupFD = true, int(dir.Fd())
	return func() { dir.Close() }, nil
}
