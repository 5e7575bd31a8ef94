package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"headrace/internal/linux"
)

// shimLog is what a task's supervisor says, in the task's directory.
const shimLog = "shim.log"

// tracerPatience is how long a kill waits for what it has sent SIGKILL before it ends
// tracers.
const tracerPatience = 3 * time.Second

// endTracers ends, after a time and until ctx ends, tracers that keep processes of the
// task from ending. One that wants to be told of that (PTRACE_EVENT_EXIT) and stands
// still keeps the task, its memory and its slot for ever, whoever wants the room. Only
// those of the task's own user are ended, and none of root's.
func (t *Task) endTracers(ctx context.Context, after time.Duration) {
	if os.Geteuid() != 0 {
		return
	}
	for ; ; after = tracerPatience {
		select {
		case <-ctx.Done():
			return
		case <-time.After(after):
		}
		spec, err := ReadSpec(t.dir)
		if err != nil || spec.UID == 0 {
			return
		}
		for _, pid := range t.tracers(spec.UID) {
			t.note(fmt.Sprintf("the daemon ends process %d: a tracer that keeps the task from ending", pid))
			linux.KillAndWait(pid, time.Second) // what comes of it is seen at the next look
		}
	}
}

// note writes to the log of the task's supervisor.
func (t *Task) note(text string) {
	if f, err := os.OpenFile(filepath.Join(t.dir, shimLog), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		fmt.Fprintln(f, text)
		f.Close()
	}
}

// tracers returns the processes of a user that hold threads of the task.
func (t *Task) tracers(uid uint32) (pids []int) {
	namespace := func(pid int) string {
		to, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
		return to
	}
	own := namespace(t.c.PeerPID())
	var procs linux.ProcFS
	all, err := procs.All()
	if own == "" || own == namespace(os.Getpid()) || err != nil {
		return nil
	}
	for _, p := range all {
		if namespace(p.PID) != own {
			continue
		}
		procs.ThreadStates(p.PID, func(tid int, state byte) bool {
			if state != 't' {
				return true
			}
			if st, err := procs.Status(tid); err == nil && st.Tracer != 0 {
				if tracer, err := procs.Status(st.Tracer); err == nil && tracer.UID == uid {
					pids = append(pids, st.Tracer)
				}
			}
			return true
		})
	}
	return pids
}
