package shim

import (
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"headrace/proc/supplement"
)

// takeLocks has the restored tree, stopped, take those locks again that it has lost in the restore.
func (t *task) takeLocks(lost []supplement.Lock) error {
	job, err := json.Marshal(lost)
	if err != nil {
		return err
	}
	in, err := memoryFile("locks", job)
	if err != nil {
		return err
	}
	defer in.Close()
	said, err := memoryFile("take-locks.out", nil)
	if err != nil {
		return err
	}
	defer said.Close()
	p := &t.processes
	defer p.helpers.Store(0)
	failed, calledOff := t.work([]string{"take-locks"}, []uintptr{in.Fd(), said.Fd(), said.Fd()}, p.everything,
		func(int) { p.signal(unix.SIGKILL) })
	if calledOff != nil {
		return fmt.Errorf("restore: %w", calledOff)
	}
	if failed != nil {
		return fmt.Errorf("the task's locks: %w: %s", failed, wordsOf(said))
	}
	if words := wordsOf(said); words != "" {
		fmt.Fprint(os.Stderr, words)
	}
	return nil
}

// runTakeLocks takes the locks on in. It is a process of its own since it traces others, of which the kernel tells whoever
// waits: in the supervisor the reaper would be told.
func runTakeLocks(in io.Reader) error {
	var locks []supplement.Lock
	if err := json.NewDecoder(in).Decode(&locks); err != nil {
		return err
	}
	lost, err := supplement.TakeLocks(locks)
	for _, l := range lost {
		fmt.Fprintf(os.Stderr, "restored, but not all as it was: %v\n", l)
	}
	return err
}
