package belong

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"headrace/internal/linux"
)

// Marker names a variable of the environment: processes that are not programs of
// Headrace have it, with the directory that they belong to.
const Marker = "HEADRACE_CLUSTER"

// Processes returns those of a directory, except this one, its parent and zombies,
// which hold nothing: those with the Marker, and programs of Headrace that name the
// directory in their arguments, work in it or have a file in it open. A supervisor does
// not have the environment of its task.
func Processes(dir string) ([]int, error) {
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, p := range procs {
		pid, err := strconv.Atoi(filepath.Base(p))
		if err == nil && pid != os.Getpid() && pid != os.Getppid() && (marked(p, dir) || ours(p) && uses(p, dir)) {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func marked(proc, dir string) bool {
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		if of, ok := strings.CutPrefix(string(entry), Marker+"="); ok && Below(dir, of) {
			return true
		}
	}
	return false
}

// ours reports whether the process runs a program of Headrace.
func ours(proc string) bool {
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	return err == nil && strings.HasPrefix(filepath.Base(exe), "headrace")
}

func uses(proc, dir string) bool {
	args, err := os.ReadFile(filepath.Join(proc, "cmdline"))
	if err != nil {
		return false
	}
	if bytes.Contains(args, []byte(dir+"/")) {
		return true
	}
	links, _ := filepath.Glob(filepath.Join(proc, "fd", "*"))
	for _, l := range append(links, filepath.Join(proc, "cwd")) {
		if to, err := os.Readlink(l); err == nil && Below(dir, to) {
			return true
		}
	}
	return false
}

// Below reports whether path is dir or lies in it.
func Below(dir, path string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// Describe returns a process for an error message.
func Describe(pid int) string {
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

// Kill ends processes and returns when they are gone.
func Kill(pids ...int) error {
	const patience = 20 * time.Second
	var errs []error
	for _, pid := range pids {
		if err := linux.KillAndWait(pid, patience); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", Describe(pid), err))
		}
	}
	return errors.Join(errs...)
}

// End kills all processes of a directory, also those that they are just making.
func End(dir string) error {
	const rounds = 5
	for range rounds {
		pids, err := Processes(dir)
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := Kill(pids...); err != nil {
			return err
		}
	}
	return nil
}
