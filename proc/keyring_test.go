package proc_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// TestSessionKeyring: each task has a session keyring of its own, also when it comes back
// from a checkpoint.
func TestSessionKeyring(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	own, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
	if err != nil {
		t.Skipf("no keyrings here: %v", err)
	}
	seen := map[string]string{fmt.Sprint(own): "the daemon"}
	is := func(task *proc.Task, what string, n int) {
		t.Helper()
		w.awaitOutput(task, fmt.Sprintf("%d ", n))
		_, after, _ := strings.Cut(w.log(task.ID, "stdout"), fmt.Sprintf("%d ", n))
		ring, _, _ := strings.Cut(after, "\n")
		if other := seen[ring]; other != "" || strings.HasPrefix(ring, "-") {
			t.Errorf("%s has the session keyring %q of %s", what, ring, other)
		}
		seen[ring] = what
	}
	const say = `
import ctypes, sys, time
asked, n = open(sys.argv[2]), 0
while True:
    n += 1
    print(n, ctypes.CDLL(None).syscall(int(sys.argv[1]), 0, -3, 0), flush=True)
    while not asked.readline(): time.sleep(0.01)
`
	asked, err := os.CreateTemp(t.TempDir(), "")
	w.must(err)
	defer asked.Close()
	var specs []proc.Spec
	var tasks []*proc.Task
	for i := range 2 {
		s := w.spec(fmt.Sprint("t", i), "python3", "-c", say, fmt.Sprint(unix.SYS_KEYCTL), asked.Name())
		specs, tasks = append(specs, s), append(tasks, w.start(s))
		is(tasks[i], string(s.ID), 1)
	}
	for i, s := range specs {
		w.checkpoint(tasks[i])
		tasks[i] = w.restore(s, proc.RestoreOptions{})
	}
	fmt.Fprintln(asked, "again")
	for i, s := range specs {
		is(tasks[i], string(s.ID)+", restored,", 2)
		w.must(tasks[i].Kill(w.ctx, time.Millisecond))
	}
}
