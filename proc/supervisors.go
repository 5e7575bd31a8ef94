package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"headrace"
	"headrace/internal/linux"
)

// Supervisors returns the pids of those who supervise tasks of Dir, also of those whom nobody can reach because
// the directory of their task was removed or replaced. It reads the command line of each process.
func (r *Runtime) Supervisors() (map[headrace.TaskID]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	found := map[headrace.TaskID]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if id := r.supervisedBy(pid); id != "" {
			found[id] = pid
		}
	}
	return found, nil
}

// supervisedBy returns the task that a process supervises; empty: none. Anybody may give a process such a command line: so
// it is to be this user's, and neither deeper in pid namespaces than launch puts it nor, as in a container, a daemon's there.
func (r *Runtime) supervisedBy(pid int) headrace.TaskID {
	line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // what has ended, or may not be looked at, has none
	args := bytes.SplitN(line, []byte{0}, 5)
	if len(args) < 5 || string(args[1]) != "supervise" || string(args[2]) != "-dir" {
		return ""
	}
	dir := string(args[3])
	if filepath.Dir(dir) != filepath.Clean(r.Dir) {
		return ""
	}
	depth := 1
	if r.Isolated() {
		depth++
	}
	if s, err := linux.ProcFS("").Status(pid); err != nil || s.Depth != depth || int(s.UID) != os.Geteuid() {
		return ""
	}
	return headrace.TaskID(filepath.Base(dir))
}

// endingPatience is how long a supervisor that does not listen any more may take until it has gone.
const endingPatience = 3 * time.Second

// Unreached returns why a task for which nobody answers is not to be begun again or given up: it has a supervisor that does
// not listen in the task's directory, and does not end within some seconds either. The error is ErrNotNow.
func (r *Runtime) Unreached(id headrace.TaskID) error {
	all, err := r.Supervisors()
	pid := all[id]
	if err != nil || pid == 0 {
		return err
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("pidfd_open", err)
	}
	defer unix.Close(pidfd)
	if gone, err := linux.AwaitGone(pidfd, endingPatience); gone || err != nil {
		return err
	}
	return fmt.Errorf("%w: its supervisor, process %d, runs and cannot be reached, as its directory was removed or replaced meanwhile; to give up what it runs, as root: kill -KILL %[2]d", ErrNotNow, pid)
}
