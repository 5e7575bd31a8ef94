package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/linux"
)

// endGroup kills what is left in the cgroup of a task, and removes it.
func endGroup(dir string) error {
	spec, err := ReadSpec(dir)
	if err != nil {
		return nil // it was never started
	}
	if err := spec.Own.Kill(); err != nil {
		return fmt.Errorf("end what is left of the task: %w", err)
	}
	return spec.Own.Remove()
}

// bareLooks is at how many looks, a millisecond apart, a process without an environment
// counts as one that is in the middle of an exec.
const bareLooks = 20

// endOrphans kills what a task without namespaces has left when its supervisor
// was killed; with namespaces the kernel has done it. The processes are known by
// the progress file in their environment; one that has changed its environment
// is missed.
func endOrphans(dir string) error {
	if err := endGroup(dir); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		return nil
	}
	mark := []byte("\x00" + ProgressEnv + "=" + filepath.Join(dir, ProgressFile) + "\x00")
	bare := map[int]int{} // looks at which a process had no environment
	for {
		all, err := linux.ProcFS("").All()
		if err != nil {
			return err
		}
		again := false
		for _, p := range all {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
			switch {
			case err != nil || linux.Dead(p.State): // also those of others, which may not be looked at
			case bytes.Contains(append([]byte{0}, env...), mark):
				again = true
				if err := linux.Signal(p.PID, unix.SIGKILL); err != nil {
					return err
				}
			case len(env) == 0 && bare[p.PID] < bareLooks:
				// It has none, or is in the middle of an exec and will have one.
				bare[p.PID]++
				again = true
				time.Sleep(time.Millisecond)
			}
		}
		if !again {
			return nil
		}
	}
}
