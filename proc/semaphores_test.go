package proc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// What a program does to semaphores with SEM_UNDO would be undone by the end of its processes, and not be there after a restore. Without
// SEM_UNDO, or with semaphores that are removed, there is nothing to undo.
func TestSemaphoresToBeUndone(t *testing.T) {
	for name, c := range map[string]struct {
		flag    int
		threads bool
		refused bool
	}{
		"SEM_UNDO":                         {flag: 0x1000, refused: true},
		"without":                          {},
		"without, of a program of threads": {threads: true, refused: true}, // which cannot be told
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).needCheckpoints()
			runtime.LockOSThread() // not unlocked: the thread ends with the test, and with it the namespace, that other tests see nothing of
			if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
				t.Skip("no namespaces of semaphores: ", err)
			}
			sign := filepath.Join(t.TempDir(), "go")
			s := w.spec("sem", "python3", "-uc", fmt.Sprintf(`
import ctypes, os, threading, time
libc = ctypes.CDLL(None)
sem = libc.semget(0, 1, 0o1600)
def op(n, flag): assert libc.semop(sem, (ctypes.c_short * 3)(0, n, flag), 1) == 0
op(1, 0)
op(-1, %d)
if %v: threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
print("taken")
while not os.path.exists(%q) and libc.semctl(sem, 0, 12) == 0: time.sleep(0.01) # GETVAL
print("held" if libc.semctl(sem, 0, 12) == 0 else "given back")
libc.semctl(sem, 0, 0) # IPC_RMID
print("removed")
time.sleep(1000)
`, c.flag, map[bool]int{true: 1}[c.threads], sign))
			task := w.start(s)
			defer func() { w.must(task.Kill(w.ctx, time.Millisecond)) }()
			w.awaitOutput(task, "taken")
			if c.refused {
				_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
				if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "SEM_UNDO") {
					t.Fatalf("checkpoint: %v", err)
				}
				w.must(os.WriteFile(sign, nil, 0o600))
				w.awaitOutput(task, "removed")
			}
			for range 2 {
				w.checkpoint(task)
				task = w.restore(s, proc.RestoreOptions{})
			}
			w.must(os.WriteFile(sign, nil, 0o600))
			w.awaitOutput(task, "held\nremoved")
		})
	}
}
