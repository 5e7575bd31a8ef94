package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
	"headrace/internal/linux/cgroup"
	"headrace/lab/yarn"
)

// scratchPrefix begins the name of everything that this package makes outside
// its own process.
const scratchPrefix = "headrace-bench-"

// A scratch is a directory that belongs to one run, with everything that the
// kernel holds for it: processes, swap files, mounts, loop devices, throttles. It
// stays locked while its run lives, so that another run can tell a leftover.
type scratch struct {
	dir  string
	lock *os.File
}

// newScratch makes one below parent and first removes those that crashed runs
// have left there.
func newScratch(parent string) (*scratch, error) {
	if err := sweep(parent); err != nil {
		return nil, fmt.Errorf("remove what an earlier run has left: %w", err)
	}
	dir, err := os.MkdirTemp(parent, scratchPrefix+strconv.Itoa(os.Getpid())+"-")
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if s.lock, err = lockScratch(dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// lockScratch fails with linux.ErrLocked when its run is alive.
func lockScratch(dir string) (*os.File, error) {
	return linux.LockFile(filepath.Join(dir, "lock"), os.O_CREATE, unix.LOCK_EX)
}

// remove undoes all of it. It is safe to call more than once.
func (s *scratch) remove() error {
	err := removeScratch(s.dir)
	s.lock.Close()
	return err
}

// sweep removes the leftovers below parent.
func sweep(parent string) error {
	dirs, err := filepath.Glob(filepath.Join(parent, scratchPrefix+"*"))
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
		yarn.EndProcesses(dir),
		endProcesses(dir),
		dropSwaps(dir),
		dropMounts(dir),
		dropLoops(dir),
		dropThrottleGroups(dir),
		dropMemoryGroups(dir),
		dropCPUGroups(dir))
	if err == nil {
		err = os.RemoveAll(dir)
	}
	if err != nil {
		return fmt.Errorf("clean up %s: %w", dir, err)
	}
	return nil
}

// below reports whether path is dir or lies in it.
func below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// endProcesses kills the daemons, supervisors and tasks of dir: those that run
// one of our programs and name dir in their arguments or have a file in it open.
func endProcesses(dir string) error {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	var pids []int
	groups := map[string]bool{}
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err != nil || pid == os.Getpid() || pid == os.Getppid() || !ours(p) || !usesDir(p, dir) {
			continue
		}
		pids = append(pids, pid)
		for _, g := range ownGroups(p) {
			groups[g] = true
		}
	}
	var errs []error
	for _, pid := range pids {
		errs = append(errs, linux.KillAndWait(pid, 10*time.Second))
	}
	for g := range groups {
		tasks, _ := filepath.Glob(filepath.Join(g, "*/"))
		for _, t := range append(tasks, g) {
			errs = append(errs, removeGroup(t))
		}
	}
	return errors.Join(errs...)
}

// ownGroups are the cgroups that the daemon of a process has made, in which it has
// those of its tasks. A daemon that is asked to end removes them itself.
func ownGroups(procDir string) []string {
	groups, _ := linux.ProcFS(filepath.Dir(procDir)).Cgroups(filepath.Base(procDir))
	var out []string
	for hierarchy, own := range groups {
		for own != "/" && own != "." && !strings.HasPrefix(filepath.Base(own), "headrace-") {
			own = filepath.Dir(own)
		}
		for _, root := range cgroup.Roots(hierarchy) {
			if path := filepath.Join(root, own); filepath.Base(own) != "/" && isDir(path) {
				out = append(out, path)
			}
		}
	}
	return out
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ours reports whether the process runs a program of Headrace.
func ours(procDir string) bool {
	exe, err := os.Readlink(filepath.Join(procDir, "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "headrace")
}

func usesDir(procDir, dir string) bool {
	args, err := os.ReadFile(filepath.Join(procDir, "cmdline"))
	if err != nil {
		return false
	}
	if bytes.Contains(args, []byte(dir+"/")) {
		return true
	}
	links, _ := filepath.Glob(filepath.Join(procDir, "fd", "*"))
	for _, l := range append(links, filepath.Join(procDir, "cwd")) {
		if to, err := os.Readlink(l); err == nil && below(dir, to) {
			return true
		}
	}
	return false
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
