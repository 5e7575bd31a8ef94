package proc_test

import (
	"fmt"
	"os"
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
