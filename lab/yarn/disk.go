package yarn

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"headrace/internal/linux/cgroup"
	"headrace/lab/slowdisk"
)

// diskName is the directory on a machine that its disk is mounted at; platterName has
// what is on the disk, where nothing takes a disk's time. Without a modelled disk there is
// only the first.
const (
	diskName    = "disk"
	platterName = "platter"
)

// addDisk puts the disk into the machine, which alone sees it: when nothing is left of the
// machine, nothing is left of the mount, whoever was killed.
func (m *machine) addDisk(ctx context.Context) error {
	if err := m.mkdir(diskName); err != nil || m.o.Disk == nil {
		return err
	}
	if err := m.mkdir(platterName); err != nil {
		return err
	}
	return m.ns.do(func() (err error) {
		m.disk, err = slowdisk.Start(ctx, slowdisk.Options{Model: *m.o.Disk, Source: m.path(platterName),
			Mount: m.at(diskName), Program: m.o.LabProgram})
		return err
	})
}

// localDir is the local directory of the machine's NodeManager, as the machine sees it.
func (m *machine) localDir() string {
	if m.o.LocalOnDisk {
		return m.at(filepath.Join(diskName, "local"))
	}
	return m.at("local")
}

// Disk returns that of machine i, which counts what is read from it; nil without the
// option.
func (all machines) Disk(i int) *slowdisk.Disk { return all[i].disk }

// DropDisk takes everything that is on the disk of machine i out of memory, but what
// somebody has locked or mapped there.
func (all machines) DropDisk(i int) error {
	m := all[i]
	return m.ns.do(func() error {
		return filepath.WalkDir(m.at(diskName), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				err = dropFile(path)
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil // it has gone meanwhile
			}
			return err
		})
	})
}

// dropFile writes out what is not on the disk, because else it would stay.
func dropFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return &os.PathError{Op: "drop from memory", Path: path, Err: err}
	}
	return nil
}

// limitMemory makes the machine's memory cgroup.
func (m *machine) limitMemory() error {
	if m.o.MachineMemory == 0 {
		return nil
	}
	root, err := cgroup.MemoryRoot()
	if err != nil {
		return fmt.Errorf("limit the memory of a machine: %w", err)
	}
	m.group = filepath.Join(root, fmt.Sprintf("%s-%d", filepath.Base(m.Dir), m.index))
	if err := os.Mkdir(m.group, 0o755); err != nil {
		return fmt.Errorf("limit the memory of a machine: %w", err)
	}
	return cgroup.LimitMemory(m.group, m.o.MachineMemory)
}

// MemoryGroup returns the cgroup of machine i; empty without the option MachineMemory.
func (all machines) MemoryGroup(i int) string { return all[i].group }

// enterMemory has what this thread starts be in a memory cgroup, until leave is called. In
// version 1 the thread goes there itself, so it must be one that ends soon.
func enterMemory(group string, cmd *exec.Cmd) (leave func(), err error) {
	nothing := func() {}
	if group == "" {
		return nothing, nil
	}
	tasks := filepath.Join(group, "tasks")
	if _, err := os.Stat(tasks); err == nil {
		return nothing, cgroup.Write(tasks, strconv.Itoa(unix.Gettid()))
	}
	dir, err := os.Open(group)
	if err != nil {
		return nothing, err
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &unix.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	return func() { dir.Close() }, nil
}

// closeDisks takes them out. Who still uses one is told of errors.
func (all machines) closeDisks() (err error) {
	for _, m := range all {
		if m.disk != nil {
			err = errors.Join(err, m.disk.Close())
			m.disk = nil
		}
	}
	return err
}
