package yarn

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"headrace/internal/linux"
)

// marker names the variable that every process of a cluster has in its environment,
// with the cluster's directory.
const marker = "HEADRACE_CLUSTER"

// belonging are the processes of the cluster in dir, except this one and the
// zombies, which hold nothing.
func belonging(dir string) ([]int, error) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil && pid != os.Getpid() && belongs(p, dir) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func belongs(procDir, dir string) bool {
	env, err := os.ReadFile(filepath.Join(procDir, "environ"))
	if err == nil && bytes.Contains(append([]byte{0}, env...), []byte("\x00"+marker+"="+dir+"\x00")) {
		return true
	}
	// A supervisor of Headrace does not have the environment of its task.
	exe, err := os.Readlink(filepath.Join(procDir, "exe"))
	if err != nil || !strings.HasPrefix(filepath.Base(exe), "headrace") {
		return false
	}
	args, err := os.ReadFile(filepath.Join(procDir, "cmdline"))
	if err == nil && bytes.Contains(args, []byte(dir+"/")) {
		return true
	}
	cwd, err := os.Readlink(filepath.Join(procDir, "cwd"))
	return err == nil && (cwd == dir || strings.HasPrefix(cwd, dir+"/"))
}

// describeProcess is a process for an error message.
func describeProcess(pid int) string {
	args, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return strconv.Itoa(pid)
	}
	line := strings.TrimSpace(string(bytes.ReplaceAll(args, []byte{0}, []byte{' '})))
	const most = 200
	if len(line) > most {
		line = line[:most] + "..."
	}
	return fmt.Sprintf("%d (%s)", pid, line)
}

// endAll kills processes and returns when they are gone.
func endAll(pids []int) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, endOne(pid))
	}
	return errors.Join(errs...)
}

func endOne(pid int) error {
	err := linux.KillAndWait(pid, endTime)
	if err != nil {
		err = fmt.Errorf("%s: %w", describeProcess(pid), err)
	}
	return err
}

// mountsBelow are the mounts in dir, the newest first.
func mountsBelow(dir string) ([]string, error) { return linux.ProcFS("").MountedIn("self", dir) }
