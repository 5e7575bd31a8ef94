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
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux/cgroup"
	"headrace/lab/pages"
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

// DiskStats returns what the disks of all machines have done together.
func (all machines) DiskStats() (sum slowdisk.Stats) {
	for _, m := range all {
		sum = sum.Plus(m.disk.Stats())
	}
	return sum
}

// Unmodelled does something for which disks take no time and count nothing: making what is
// measured later. Nothing on the disks is in memory afterwards, but what somebody uses.
func (all machines) Unmodelled(do func() error) error {
	for _, m := range all {
		m.disk.Bypass(true)
		defer m.disk.Bypass(false)
	}
	err := do()
	for i := range all {
		err = errors.Join(err, all.DropDisk(i))
	}
	return err
}

// Chill takes everything that is on the disks out of memory, for each machine certainly
// the given files. Who has locked some of it may still be letting it go.
func (all machines) Chill(ctx context.Context, files [][]string) (err error) {
	for began := time.Now(); ; {
		err = nil
		for i := range all {
			err = errors.Join(err, all.DropDisk(i), all.On(i, func() error { return pages.Chill(files[i]) }))
		}
		if err == nil || time.Since(began) > 20*time.Second || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

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
	return m.makeGroup(&m.group, "", m.o.MachineMemory)
}

// makeGroup makes a memory cgroup, which goes with the cluster.
func (m *machine) makeGroup(group *string, name string, limit int64) error {
	root, err := cgroup.MemoryRoot()
	if err != nil {
		return fmt.Errorf("limit the memory of a machine: %w", err)
	}
	*group = filepath.Join(root, fmt.Sprintf("%s-%d%s", filepath.Base(m.Dir), m.index, name))
	if err := os.Mkdir(*group, 0o755); err != nil {
		return fmt.Errorf("limit the memory of a machine: %w", err)
	}
	return cgroup.LimitMemory(*group, limit)
}

// LimitCache bounds what there is in the page cache of each machine of blocks of HDFS: the
// DataNode and the node daemon may together have so many bytes, beside what they have of
// their own by now. How large the virtual machines of tasks grow does not matter. A node
// daemon that is started later is under the bound too, with all that it has until this is
// called again.
func (all machines) LimitCache(bytes int64) error {
	for _, m := range all {
		if m.cache == "" {
			if err := m.makeGroup(&m.cache, "-cache", bytes); err != nil {
				return err
			}
			if err := cgroup.Add(m.cache, m.dataNode.cmd.Process.Pid); err != nil {
				return err
			}
		}
		own, _ := cgroup.Group{Memory: m.cache}.Use()
		if err := cgroup.LimitMemory(m.cache, bytes+own.Resident); err != nil {
			return err
		}
	}
	return nil
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
