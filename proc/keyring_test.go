package proc_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
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

// TestKeysOfTheSession: a task that has put a key into its session keyring is not checkpointed, before and after a restore, until it has
// taken it out.
func TestKeysOfTheSession(t *testing.T) {
	if _, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true); err != nil {
		t.Skipf("no keyrings here: %v", err)
	}
	ofRootAndAnother(t, otherUser, keysOfTheSession)
}

func keysOfTheSession(t *testing.T, user uint32) {
	w := newWorld(t).needCheckpoints()
	asked, err := os.Create(filepath.Join(testkit.OpenDir(t), "asked"))
	w.must(err)
	defer asked.Close()
	s := w.spec("keys", "/usr/bin/python3", "-uc", `
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
add, keyctl = (248, 250) if os.uname().machine == "x86_64" else (217, 219)
asked = open(sys.argv[1])
n = 0
while True:
    if asked.readline():
        n += 1
        if n % 2: key = libc.syscall(add, b"user", b"headrace", b"x", 1, ctypes.c_long(-3))
        else: libc.syscall(keyctl, 9, key, ctypes.c_long(-3)) # KEYCTL_UNLINK
        print(n, key > 0)
    time.sleep(0.01)
`, asked.Name())
	s.UID, s.GID = user, user
	task := w.start(s)
	for _, said := range []string{"1 True\n", "3 True\n"} {
		asked.WriteString("\n")
		w.awaitOutput(task, said)
		if _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); err == nil || !strings.Contains(err.Error(), "keys in the session keyring") {
			t.Fatalf("checkpoint of user %d with a key: %v", user, err)
		}
		asked.WriteString("\n")
		w.awaitOutput(task, strings.Replace(strings.Replace(said, "1", "2", 1), "3", "4", 1))
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.must(task.Kill(w.ctx, 1))
	w.end(task)
}
