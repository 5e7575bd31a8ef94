package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/lab/belong"
)

// ScratchPrefix begins the name of everything that this package makes outside
// its own process.
const ScratchPrefix = "headrace-bench-"

// A Scratch is a directory that belongs to one run, with everything that the
// kernel holds for it: processes, swap files, mounts, loop devices, throttles. It
// stays locked while its run lives, so that another run can tell a leftover.
type Scratch struct {
	Dir  string
	lock *os.File
}

// NewScratch makes one below parent and first removes those that crashed runs
// have left there.
func NewScratch(parent string) (*Scratch, error) {
	if err := sweep(parent); err != nil {
		return nil, fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	dir, err := os.MkdirTemp(parent, ScratchPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	s := &Scratch{Dir: dir}
	if s.lock, err = lockScratch(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// lockScratch fails with linux.ErrLocked when its run is alive.
func lockScratch(dir string) (*os.File, error) {
	return linux.LockFile(filepath.Join(dir, "lock"), os.O_CREATE, unix.LOCK_EX)
}

// Remove undoes all of it. It is safe to call more than once.
func (s *Scratch) Remove() error {
	err := removeScratch(s.Dir)
	s.lock.Close()
	return err
}

// sweep removes the leftovers below parent.
func sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, ScratchPrefix+"*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		lock, err := lockScratch(dir)
		if errors.Is(err, linux.ErrLocked) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = removeScratch(dir)
		lock.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// removeScratch finds out from the kernel what belongs to dir and undoes it, in
// an order in which nothing is busy any more. Every step is tried.
func removeScratch(dir string) error {
	err := errors.Join(
		liftThrottles(dir),
		endProcesses(dir),
		dropSwaps(dir),
		dropMounts(dir),
		dropLoops(dir),
		dropGroups(dir))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("clean up %s: %w", dir, err)
	}
	return nil
}

// endProcesses kills the processes of dir and removes the cgroups of its daemons.
func endProcesses(dir string) error {
	pids, err := belong.Processes(dir)
	if err != nil {
		return err
	}
	groups := map[string]bool{}
	for _, pid := range pids {
		for _, g := range OwnGroups(pid) {
			// Those of the run itself are removed with it.
			if !strings.HasPrefix(filepath.Base(g), filepath.Base(dir)+"-") {
				groups[g] = true
			}
		}
	}
	errs := []error{belong.End(dir)}
	for g := range groups {
		tasks, _ := filepath.Glob(filepath.Join(g, "*/"))
		for _, t := range append(tasks, g) {
			errs = append(errs, removeGroup(t))
		}
	}
	return errors.Join(errs...)
}

// OwnGroups returns the cgroups that the daemon of a process has made, in which it has
// those of its tasks. A daemon that is asked to end removes them itself.
func OwnGroups(pid int) []string {
	groups, _ := linux.ProcFS("").Cgroups(strconv.Itoa(pid))
	var out []string
	for hierarchy, own := range groups {
		for own != "/" && own != "." && !strings.HasPrefix(filepath.Base(own), "headrace-") {
			own = filepath.Dir(own)
		}
		for _, root := range cgroup.Roots(hierarchy) {
			if path := filepath.Join(root, own); filepath.Base(own) != "/" && IsDir(path) {
				out = append(out, path)
			}
		}
	}
	return out
}

// IsDir reports whether path is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// liftThrottles makes the devices mounted in dir fast again, so that nobody has to
// wait for what is still being written.
func liftThrottles(dir string) error {
	points, err := linux.ProcFS("").MountedIn("self", dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil {
			errs = append(errs, liftThrottle(fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))))
		}
	}
	return errors.Join(errs...)
}

// dropMounts unmounts what is mounted in dir, the newest first.
func dropMounts(dir string) error {
	points, err := linux.ProcFS("").MountedIn("self", dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		if err := unix.Unmount(p, 0); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", p, err))
		}
	}
	return errors.Join(errs...)
}
