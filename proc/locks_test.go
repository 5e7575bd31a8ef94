package proc_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"headrace/proc"
)

// Locks on a file that the process has mapped, as SQLite has them in its WAL mode, are held after a restore: others
// would change the file under it. A signal that is pending meanwhile arrives once.
func TestLocksOnMappedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	program, err := filepath.Abs("testdata/programs/locks.py")
	w.must(err)
	file := filepath.Join(t.TempDir(), "file")
	w.must(unix.Mkfifo(file+".go", 0o600))
	tell := func(line string) { w.must(os.WriteFile(file+".go", []byte(line+"\n"), 0)) }
	s := w.spec("locks", "python3", program, file)
	task := w.start(s)
	w.awaitOutput(task, "ready\n")
	want := "ready\n"
	for round := range 4 {
		if round > 0 {
			_, err := task.Suspend(w.ctx, 0)
			w.must(err)
			for _, p := range w.taskProcesses("locks") {
				if strings.HasPrefix(p.Comm, "python") {
					w.must(unix.Kill(p.PID, unix.SIGUSR1))
				}
			}
			w.checkpoint(task)
			task = w.restore(s, proc.RestoreOptions{})
		}
		want += fmt.Sprintf("%d R100+1 W200+8 U300+1 W8589934592+0 W7+1 %d\n", round, round)
		tell(fmt.Sprint(round))
		w.awaitOutput(task, want)
	}
	tell("end")
	if e := w.end(task); e.Code != 0 {
		t.Errorf("ended with %+v", e)
	}
}

// A program of 32 bits cannot be had to take its locks again: there is no checkpoint while it has one.
func TestLocksOf32Bits(t *testing.T) {
	t.Parallel()
	w := newWorld(t).needCheckpoints()
	program := filepath.Join(t.TempDir(), "lock32")
	if out, err := exec.Command("gcc", "-m32", "-O1", "-static", "-nostdlib", "-no-pie", "-fno-pic", "-fno-stack-protector", "-fcf-protection=none",
		"-o", program, "testdata/programs/lock32.c").CombinedOutput(); err != nil {
		t.Skipf("no programs of 32 bits can be made here: %v: %s", err, out)
	}
	if err := exec.Command(program).Run(); errors.Is(err, unix.ENOEXEC) {
		t.Skip("no programs of 32 bits run here: ", err)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	w.must(err)
	defer file.Close()
	w.must(file.Truncate(4096))
	task := w.start(w.spec("locks", "sh", "-c", `exec "$0" <>"$1"`, program, file.Name()))
	w.awaitOutput(task, "locked")
	if _, err := task.Checkpoint(w.ctx, proc.CheckpointOptions{Store: w.store}); !errors.Is(err, proc.ErrCheckpointLater) || !strings.Contains(err.Error(), "32 bits") {
		t.Errorf("checkpoint: %v", err)
	}
	l := unix.Flock_t{Type: unix.F_WRLCK}
	if w.must(unix.FcntlFlock(file.Fd(), unix.F_GETLK, &l)); l.Type != unix.F_WRLCK || l.Start != 3 {
		t.Errorf("the lock after the refusal is %+v", l)
	}
}
