package proc

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

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
	for {
		all, err := linux.ProcFS("").All()
		if err != nil {
			return err
		}
		found := false
		for _, p := range all {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.PID))
			if err != nil || linux.Dead(p.State) || !bytes.Contains(append([]byte{0}, env...), mark) {
				continue // also processes of others, which may not be looked at
			}
			found = true
			if err := linux.Signal(p.PID, unix.SIGKILL); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
	}
}
