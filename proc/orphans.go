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

// orphanPatience is how long what was sent SIGKILL may take to end.
const orphanPatience = killPatience

// endOrphans kills what a task without namespaces has left when its supervisor
// was killed; with namespaces the kernel has done it. The processes are known by
// the progress file in their environment; one that has changed its environment
// is missed. It looks again and again, each time when turn calls what it is given; if turn
// returns false nobody wants that any more. What does not end after a while, because it waits for
// a dead device say, is ErrNotNow.
func endOrphans(dir string, turn func(look func()) bool) error {
	var err error
	if !turn(func() { err = endGroup(dir) }) || err != nil || os.Geteuid() == 0 {
		return err
	}
	o := orphans{
		mark: []byte("\x00" + ProgressEnv + "=" + filepath.Join(dir, ProgressFile) + "\x00"), bare: map[int]int{},
		list: linux.ProcFS("").All, kill: func(pid int) error { return linux.Signal(pid, unix.SIGKILL) },
	}
	return o.end(orphanPatience, turn)
}

// orphans are processes without a supervisor that have a mark in their environment.
type orphans struct {
	mark []byte
	list func() ([]linux.Stat, error)
	kill func(pid int) error
	bare map[int]int // looks at which a process had no environment
}

// end kills them until there are none.
func (o *orphans) end(patience time.Duration, turn func(look func()) bool) error {
	const shortest, longest = time.Millisecond, 100 * time.Millisecond
	deadline := linux.Clock() + patience
	for pause := shortest; ; time.Sleep(pause) {
		var left []linux.Stat
		var unsure bool
		var err error
		if !turn(func() { left, unsure, err = o.look() }) {
			return nil
		}
		switch {
		case err != nil || len(left) == 0 && !unsure:
			return err
		case len(left) == 0:
			pause = shortest
		case linux.Clock() >= deadline:
			return fmt.Errorf("%w: process %d (%s) of the task does not end after SIGKILL, in state %c: it waits for a device or a server as a rule",
				ErrNotNow, left[0].PID, left[0].Comm, left[0].State)
		default:
			pause = min(2*pause, longest)
		}
	}
}

// look kills those that there are, and returns them; unsure: another process may yet turn out
// to be one.
func (o *orphans) look() (left []linux.Stat, unsure bool, err error) {
	all, err := o.list()
	for _, p := range all {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", linux.ProcFS("").Living(p)))
		switch {
		case err != nil || p.Ended(): // also those of others, which may not be looked at
		case bytes.Contains(append([]byte{0}, env...), o.mark):
			left = append(left, p)
			if err := o.kill(p.PID); err != nil {
				return left, unsure, err
			}
		case len(env) == 0 && o.bare[p.PID] < bareLooks:
			// It has none, or is in the middle of an exec and will have one.
			o.bare[p.PID]++
			unsure = true
		}
	}
	return left, unsure, err
}
