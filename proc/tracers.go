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
// task from ending.
func (t *Task) endTracers(ctx context.Context, after time.Duration) {
	for ; ; after = tracerPatience {
		select {
		case <-ctx.Done():
			return
		case <-time.After(after):
			t.endTracersNow()
		}
	}
}

// endTracersNow ends the tracers that keep processes of the task from ending. One that wants
// to be told of that (PTRACE_EVENT_EXIT) and stands still keeps the task, its memory and its
// slot for ever, whoever wants the room; one that takes no note of what has ended keeps its
// pid. Only those of the task's own user are ended, and none of root's.
func (t *Task) endTracersNow() {
	if os.Geteuid() != 0 {
		return
	}
	spec, err := ReadSpec(t.dir)
	if err != nil || spec.UID == 0 {
		return
	}
	for pid, traced := range t.tracers(spec.UID) {
		t.note(fmt.Sprintf("the daemon ends process %d: a tracer that keeps the task from ending", pid))
		// What comes of it is seen at the next look. The number may be another's by now.
		linux.KillAndWaitIf(pid, time.Second, func() bool { return t.traces(pid, traced, spec.UID) })
	}
}

// note writes to the log of the task's supervisor.
func (t *Task) note(text string) {
	if f, err := os.OpenFile(filepath.Join(t.dir, shimLog), os.O_WRONLY|os.O_APPEND, 0); err == nil {
		fmt.Fprintln(f, text)
		f.Close()
	}
}

// tracers returns the processes of a user that hold threads of the task, with one thread
// of each.
func (t *Task) tracers(uid uint32) map[int]int {
	if own := t.namespace(); own == "" || own == namespaceOf(os.Getpid()) {
		return nil
	}
	var procs linux.ProcFS
	all, err := procs.All()
	if err != nil {
		return nil
	}
	parents := make(map[int]int, len(all))
	for _, p := range all {
		parents[p.PID] = p.PPID
	}
	found := map[int]int{}
	for _, p := range all {
		if !t.above(p.PID, func(pid int) int { return parents[pid] }) {
			continue
		}
		procs.ThreadStates(p.PID, func(tid int, state byte) bool {
			if state != 't' && !linux.Dead(state) {
				return true
			}
			if st, err := procs.Status(tid); err == nil && st.Tracer != 0 && t.traces(st.Tracer, tid, uid) {
				found[st.Tracer] = tid
			}
			return true
		})
	}
	return found
}

// traces reports whether a process is a user's, and holds that thread of the task.
func (t *Task) traces(pid, thread int, uid uint32) bool {
	var procs linux.ProcFS
	traced, err := procs.Status(thread)
	tracer, terr := procs.Status(pid)
	return err == nil && terr == nil && traced.Tracer == pid && tracer.UID == uid && t.above(thread, func(pid int) int {
		p, _ := procs.Stat(pid) // of one that is gone: none
		return p.PPID
	})
}

// above reports whether the task's supervisor is above a process, in whatever pid namespace
// that is. What the supervisor's namespace holds has no parents outside of it.
func (t *Task) above(pid int, parent func(pid int) int) bool {
	supervisor := t.c.PeerPID()
	for pid != supervisor && pid > 1 {
		pid = parent(pid)
	}
	return pid > 1
}

// namespace returns the pid namespace of the supervisor; empty: it is not known.
func (t *Task) namespace() string { return namespaceOf(t.c.PeerPID()) }

func namespaceOf(pid int) string {
	to, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid))
	return to
}
