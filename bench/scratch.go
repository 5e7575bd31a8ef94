package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"headrace/bench/yarn"
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

var errInUse = errors.New("in use")

// lockScratch fails with errInUse when its run is alive.
func lockScratch(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errInUse
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
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
		if errors.Is(err, errInUse) || errors.Is(err, os.ErrNotExist) {
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
		errs = append(errs, killAndWait(pid))
	}
	for g := range groups {
		errs = append(errs, removeGroup(g))
	}
	return errors.Join(errs...)
}

// ownGroups are the cgroups of a process that a daemon has made: those with its
// memory limit. A daemon that is asked to end removes them itself.
func ownGroups(procDir string) []string {
	text, err := os.ReadFile(filepath.Join(procDir, "cgroup"))
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 || !strings.HasPrefix(filepath.Base(parts[2]), "headrace-") {
			continue
		}
		for _, root := range cgroupMounts(parts[1]) {
			if path := filepath.Join(root, parts[2]); isDir(path) {
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

// killAndWait ends one process and returns when it is gone.
func killAndWait(pid int) error {
	fd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	defer unix.Close(fd)
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("end process %d: %w", pid, err)
	}
	deadline := time.Now().Add(10 * time.Second)
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(time.Until(deadline).Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("end process %d: %w", pid, err)
		case n == 0:
			return fmt.Errorf("end process %d: still there 10 s after SIGKILL", pid)
		}
		return nil
	}
}

// liftThrottles makes the devices mounted in dir fast again, so that nobody has to
// wait for what is still being written.
func liftThrottles(dir string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range points {
		var st unix.Stat_t
		if below(dir, p) && unix.Stat(p, &st) == nil {
			errs = append(errs, liftThrottle(fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))))
		}
	}
	return errors.Join(errs...)
}

// dropMounts unmounts what is mounted in dir, the newest first.
func dropMounts(dir string) error {
	points, err := mountPoints()
	if err != nil {
		return err
	}
	var errs []error
	for i := len(points) - 1; i >= 0; i-- {
		if !below(dir, points[i]) {
			continue
		}
		if err := unix.Unmount(points[i], 0); err != nil {
			errs = append(errs, fmt.Errorf("unmount %s: %w", points[i], err))
		}
	}
	return errors.Join(errs...)
}

func mountPoints() ([]string, error) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []string
	s := bufio.NewScanner(bytes.NewReader(info))
	for s.Scan() {
		if f := strings.Fields(s.Text()); len(f) > 4 {
			points = append(points, unescapeMount(f[4]))
		}
	}
	return points, s.Err()
}

// unescapeMount undoes the kernel's \040 for blanks and the like.
func unescapeMount(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(v))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
