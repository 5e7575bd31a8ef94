package proc_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/internal/testkit"
	"headrace/proc"
)

// lender has a deleted program of root's, with the set-user-id bit, and has another user execute it whenever its second
// argument has grown.
const lender = `
import os, shutil, sys, time
path, user = sys.argv[1] + "/id", int(sys.argv[3])
shutil.copy("/usr/bin/id", path)
os.chmod(path, 0o4755)
program = os.open(path, os.O_RDONLY)
os.unlink(path)
asked = open(sys.argv[2])
print("ready", flush=True)
n = 0
while True:
    if not asked.readline():
        time.sleep(0.01)
        continue
    if os.fork() == 0:
        os.setgroups([]); os.setgid(user); os.setuid(user)
        os.execve(program, ["id", "-u"], {})
    os.wait()
    n += 1
    print(n, "done", flush=True)
`

// A deleted file does not get rights by a checkpoint that the file system did not give it on which it was.
func TestDeletedFilesBringNoRights(t *testing.T) {
	w := newWorld(t).needCheckpoints()
	dir := testkit.OpenDir(t)
	if err := errors.Join(unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOSUID, "")); err != nil {
		t.Skip("a file system without set-user-id programs needs the right to mount:", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	asked, err := os.Create(filepath.Join(t.TempDir(), "asked"))
	w.must(err)
	defer asked.Close()
	s := w.spec("lender", "python3", "-c", lender, dir, asked.Name(), fmt.Sprint(otherUser))
	task := w.start(s)
	w.awaitOutput(task, "ready\n")
	want := "ready\n"
	for n := 1; n <= 3; n++ {
		fmt.Fprintln(asked)
		done := fmt.Sprintf("%d done\n", n)
		w.awaitOutput(task, done)
		want += fmt.Sprintf("%d\n%s", otherUser, done)
		if got := w.log("lender", "stdout"); got != want {
			t.Fatalf("after %d checkpoints it said\n%swant\n%s", n-1, got, want)
		}
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
	}
	w.must(task.Kill(w.ctx, 1))
	w.end(task)
}

// What the kernel does for whoever has opened a file of its own, it does not do for a user because a restore has.
func TestFilesOfTheKernelOfAnotherUser(t *testing.T) {
	const hold = "import sys, time; kept = [open(f) for f in sys.argv[1:]]; print('ready', flush=True); time.sleep(1000)"
	start := func(t *testing.T, id string, files ...string) (*world, proc.Spec, *proc.Task) {
		w := newWorld(t).needCheckpoints()
		s := w.spec(id, append([]string{"/usr/bin/python3", "-c", hold}, files...)...)
		s.UID, s.GID = otherUser, otherUser
		task := w.start(s)
		w.awaitOutput(task, "ready\n")
		return w, s, task
	}
	t.Run("refused", func(t *testing.T) {
		w, _, task := start(t, "refused", "/proc/meminfo", "/proc/kallsyms")
		_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
		if !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "/proc/kallsyms") {
			t.Errorf("the checkpoint of a task that has addresses of the kernel open: %v", err)
		}
		w.must(task.Kill(w.ctx, 1))
		w.end(task)
	})
	t.Run("kept", func(t *testing.T) {
		needSysResource(t)
		w, s, task := start(t, "kept", "/proc/meminfo", "/proc/self/maps", "/proc/sys/kernel/hostname", "/sys/devices/system/cpu/online")
		w.checkpoint(task)
		task = w.restore(s, proc.RestoreOptions{})
		w.must(task.Kill(w.ctx, 1))
		w.end(task)
	})
}

// A file whose server does not let root open it keeps a task from being checkpointed, and not from going on.
func TestCheckpointWhereRootMayNotOpen(t *testing.T) {
	path, squash := testkit.SquashedFile(t)
	w := newWorld(t).needCheckpoints()
	s := w.spec("count", "python3", "-c", "import sys; f = open(sys.argv[1], 'a')\n"+counter, path)
	task := w.start(s)
	w.awaitOutput(task, "\n3 ")
	w.checkpoint(task)
	task = w.restore(s, proc.RestoreOptions{})
	w.awaitOutput(task, "\n6 ")
	squash()
	_, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store})
	if !errors.Is(err, proc.ErrNotCheckpointable) || !strings.Contains(err.Error(), path+", which the task had open: a restore opens it as root") {
		t.Errorf("the checkpoint of a task whose file root may not open: %v", err)
	}
	w.end(task)
	w.checkCounter("count")
}
